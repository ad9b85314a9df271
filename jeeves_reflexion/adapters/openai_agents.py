"""Agents of the OpenAI Agents SDK, and lessons for its own runs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar

from agents import Agent, MaxTurnsExceeded, RunConfig, RunHooks, Runner, Tool, Usage
from agents.items import ItemHelpers, ModelResponse
from agents.run import CallModelData, ModelInputData
from agents.tool import default_tool_error_function
from openai.types.responses import ResponseOutputMessage

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined
from jeeves_reflexion.adapters.middleware import Done, LearnerRun

if TYPE_CHECKING:
    from jeeves_reflexion.loop.learner import Learner


class OpenAIAgentsAgent(OptionsAdapter):
    """An ``Agent`` of the SDK; ``options`` go to ``Runner.run``, such as ``context`` or ``run_config``."""

    framework = "openai-agents"
    refused: ClassVar = {
        "session": OWN,
        "previous_response_id": OWN,
        "conversation_id": OWN,
        "hooks": "the adapter listens there; AgentHooks of the agent itself work",
    }

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons in the instructions of each model call, also after handoffs."""
        config: RunConfig = self.options.get("run_config") or RunConfig()
        if lessons:
            config = _with_lessons(config, lambda _: lessons)
        options = {**self.options, "run_config": config, "hooks": _Hooks(trace)}
        try:
            result = await Runner.run(self.agent, prompt, **options)
        except MaxTurnsExceeded:
            trace.interrupted = "max_turns"
            return trace.output
        if result.interruptions:  # tools that wait for approval
            trace.interrupted = "user_input"
            return trace.output
        return result.final_output


class _Hooks(RunHooks[Any]):
    """Reports tool calls, handoffs and usage to the trace, and the end to the run beside a learner."""

    def __init__(self, trace: Trace, run: LearnerRun | None = None) -> None:
        self._trace = trace
        self._run = run
        self._seen = Usage()
        # The SDK's message for a tool that raises, unless the tool has its own.
        self._failure = default_tool_error_function(None, ValueError("")).rstrip(". ")

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:  # noqa: ANN401
        messages = [item for item in response.output if isinstance(item, ResponseOutputMessage)]
        self._trace.thought = joined(*(ItemHelpers.extract_text(message) for message in messages))
        self._trace.output = self._trace.thought
        usage = response.usage
        self._seen.add(usage)
        self._trace.used(max(usage.requests, 1), usage.input_tokens, usage.output_tokens)

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:  # noqa: ANN401
        failed = isinstance(result, str) and result.startswith(self._failure)
        arguments = getattr(context, "tool_arguments", "")
        # The calls of an agent used as a tool are only part of the whole run's usage: on_llm_end hears of none.
        seen, usage = self._seen, context.usage
        self._seen = Usage()
        self._seen.add(usage)
        given, made = usage.input_tokens - seen.input_tokens, usage.output_tokens - seen.output_tokens
        self._trace.used(usage.requests - seen.requests, given, made)
        await self._trace.tool(tool.name, arguments, result, failed=failed)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:  # noqa: ANN401
        await self._trace.tool("handoff", to_agent.name, "", thought="")

    async def on_agent_end(self, context: Any, agent: Any, output: object) -> None:  # noqa: ANN401
        if self._run is not None:
            await self._run.end(output)


def learner_options(
    learner: Learner, *, run_config: RunConfig | None = None, done: Done | None = None
) -> dict[str, Any]:
    """Return the options for one ``Runner.run`` beside a learner.

    ::

        result = await Runner.run(agent, question, **learner_options(learner))

    The instructions of each model call include the lessons, and the learner learns from the finished run; with
    ``done``, that is called with the task, the attempt and the advice instead. It does not learn from a run that
    raises.
    """
    run = LearnerRun(learner, done)

    async def lessons(model_data: ModelInputData) -> str:
        items = model_data.input
        asked = [item["content"] for item in items if isinstance(item, dict) and item.get("role") == "user"]
        content = asked[-1] if asked else ""
        await run.begin(
            content if isinstance(content, str) else joined(*(part.get("text") for part in content))
        )
        return run.lessons

    return {"hooks": _Hooks(run.trace, run), "run_config": _with_lessons(run_config or RunConfig(), lessons)}


def _with_lessons(config: RunConfig, lessons: Callable[[ModelInputData], str | Awaitable[str]]) -> RunConfig:
    """Return a configuration that adds lessons to the instructions of each model call."""
    earlier = config.call_model_input_filter

    async def with_lessons(data: CallModelData[Any]) -> ModelInputData:
        model_data = data.model_data
        if earlier is not None:
            filtered = earlier(data)
            model_data = await filtered if inspect.isawaitable(filtered) else filtered
        text = lessons(model_data)
        text = text if isinstance(text, str) else await text
        return ModelInputData(model_data.input, joined(model_data.instructions, text) or None)

    return dataclasses.replace(config, call_model_input_filter=with_lessons)


adapter = adapter_for(OpenAIAgentsAgent, Agent)
