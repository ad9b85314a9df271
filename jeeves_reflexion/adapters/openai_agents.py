"""Agents of the OpenAI Agents SDK, and lessons for its own runs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents import Agent, MaxTurnsExceeded, RunConfig, RunHooks, Runner, Tool, Usage
from agents.items import ItemHelpers, ModelResponse
from agents.run import CallModelData, ModelInputData
from agents.tool import default_tool_error_function
from openai.types.responses import ResponseOutputMessage

from jeeves_reflexion.adapters.base import OWN, Adapter, Trace, adapter_for, joined, refuse
from jeeves_reflexion.adapters.middleware import Done, LearnerRun

if TYPE_CHECKING:
    from jeeves_reflexion.loop.learner import Learner


class OpenAIAgentsAgent(Adapter):
    """An ``Agent`` of the SDK; ``options`` go to ``Runner.run``, such as ``context`` or ``run_config``."""

    def __init__(self, agent: Agent[Any], **options: Any) -> None:  # noqa: ANN401 - the runner's own
        super().__init__(agent)
        refuse(
            options,
            "openai-agents",
            session=OWN,
            previous_response_id=OWN,
            conversation_id=OWN,
            hooks="the adapter listens there; AgentHooks of the agent itself work",
        )
        self._config: RunConfig = options.pop("run_config", None) or RunConfig()
        self._options: Mapping[str, Any] = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons in the instructions of each model call, also after handoffs."""
        config = _with_lessons(self._config, lambda _: lessons) if lessons else self._config
        try:
            result = await Runner.run(
                self.agent, prompt, run_config=config, hooks=_Hooks(trace), **self._options
            )
        except MaxTurnsExceeded:
            trace.interrupted = "max_turns"
            return trace.output
        if result.interruptions:  # tools that wait for approval
            trace.interrupted = "user_input"
            return trace.output
        return result.final_output


class _Hooks(RunHooks[Any]):
    """Reports tool calls, handoffs and usage to the trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._thought = ""
        self._seen = Usage()
        # The SDK's message for a tool that raises, unless the tool has its own.
        self._failure = default_tool_error_function(None, ValueError("")).rstrip(". ")

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:  # noqa: ANN401
        messages = [item for item in response.output if isinstance(item, ResponseOutputMessage)]
        self._thought = joined(*(ItemHelpers.extract_text(message) for message in messages))
        self._trace.output = self._thought
        usage = response.usage
        self._seen.add(usage)
        self._trace.used(max(usage.requests, 1), usage.input_tokens, usage.output_tokens)

    async def on_tool_end(self, context: Any, agent: Any, tool: Tool, result: object) -> None:  # noqa: ANN401
        failed = isinstance(result, str) and result.startswith(self._failure)
        arguments = getattr(context, "tool_arguments", "")
        thought, self._thought = self._thought, ""
        self._charge_inner(context.usage)
        await self._trace.tool(tool.name, arguments, result, thought=thought, failed=failed)

    def _charge_inner(self, usage: Usage) -> None:
        """Charge the calls of an agent used as a tool, which are only part of the whole run's usage."""
        seen, self._seen = self._seen, Usage()
        self._seen.add(usage)
        given, made = usage.input_tokens - seen.input_tokens, usage.output_tokens - seen.output_tokens
        self._trace.used(usage.requests - seen.requests, given, made)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:  # noqa: ANN401
        await self._trace.tool("handoff", to_agent.name, "")


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
        await run.begin(_asked(model_data.input))
        return run.lessons

    return {"hooks": _LearnerHooks(run), "run_config": _with_lessons(run_config or RunConfig(), lessons)}


class _LearnerHooks(_Hooks):
    def __init__(self, run: LearnerRun) -> None:
        super().__init__(run.trace)
        self._run = run

    async def on_agent_end(self, context: Any, agent: Any, output: object) -> None:  # noqa: ANN401
        await self._run.end(output)


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


def _asked(items: Sequence[Any]) -> str:
    """Return the user's last message."""
    asked = [item["content"] for item in items if isinstance(item, dict) and item.get("role") == "user"]
    content = asked[-1] if asked else ""
    return content if isinstance(content, str) else joined(*(part.get("text") for part in content))


adapter = adapter_for(OpenAIAgentsAgent, Agent)
