"""Agents of pydantic-ai, and lessons for its own runs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic_ai import (
    Agent,
    AgentRunResult,
    DeferredToolRequests,
    FunctionToolResultEvent,
    ModelResponse,
    RunContext,
    RunUsage,
    ToolCallPart,
    ToolDefinition,
    UsageLimitExceeded,
)
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler, WrapToolExecuteHandler
from pydantic_ai.models import ModelRequestContext

from jeeves_reflexion.adapters.base import OWN, OptionsAdapter, Trace, adapter_for, joined
from jeeves_reflexion.adapters.middleware import Done, LearnerRun
from jeeves_reflexion.errors import described

if TYPE_CHECKING:
    from jeeves_reflexion.loop.learner import Learner


class PydanticAIAgent(OptionsAdapter):
    """An ``Agent`` of pydantic-ai; ``options`` go to its ``iter``, such as ``deps`` or ``usage_limits``."""

    framework = "pydantic-ai"
    refused: ClassVar = {"message_history": OWN}

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons in its instructions."""
        instructions = [each for each in (self.options.get("instructions"), lessons) if each]
        options = {**self.options, "instructions": instructions or None}
        async with self.agent.iter(prompt, **options) as run:
            before = copy(run.usage)
            try:
                async for node in run:
                    if Agent.is_call_tools_node(node):
                        _charge(trace, run.usage, before)
                        trace.output = trace.thought = joined(node.model_response.text)
                        calls = {call.tool_call_id: call for call in node.model_response.tool_calls}
                        async with node.stream(run.ctx) as events:
                            async for event in events:
                                if isinstance(event, FunctionToolResultEvent):
                                    part, call = event.part, calls.get(event.part.tool_call_id)
                                    arguments, failed = call.args if call else "", part.outcome != "success"
                                    await trace.tool(part.tool_name, arguments, part.content, failed=failed)
            except UsageLimitExceeded:
                trace.interrupted = "max_turns"
                return trace.output
            output = run.result.output if run.result is not None else ""
            if isinstance(output, DeferredToolRequests):
                trace.interrupted = "user_input"
                return trace.output
            return output


def _charge(trace: Trace, usage: RunUsage, before: RunUsage) -> None:
    """Charge the usage since the last time; ``before`` is the usage of other runs that share the counter."""
    so_far = trace.usage
    trace.used(
        usage.requests - before.requests - so_far.calls,
        usage.input_tokens - before.input_tokens - so_far.input_tokens,
        usage.output_tokens - before.output_tokens - so_far.output_tokens,
    )


class LearnerCapability(AbstractCapability[Any]):
    """Adds a learner's lessons to an agent's instructions, and learns from the finished run.

    One object serves many runs at once: ``Agent(..., capabilities=[LearnerCapability(learner)])``. ``done`` is called
    with the task, the attempt and the advice, instead of judging at once. It does not learn from a run that raises, or
    that waits for the approval of a tool.
    """

    def __init__(self, learner: Learner, *, done: Done | None = None) -> None:
        self._learner = learner
        self._done = done
        self._run = LearnerRun(learner, done)

    async def for_run(self, ctx: RunContext[Any]) -> LearnerCapability:
        """Return the capability for one run."""
        return LearnerCapability(self._learner, done=self._done)

    def get_instructions(self) -> Callable[[RunContext[Any]], str]:
        """Return a function that gives the lessons, since they are known only after the run begins."""
        return lambda _: self._run.lessons

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Recall lessons, run the agent, and learn from the run."""
        asked = [ctx.prompt] if isinstance(ctx.prompt, str) else ctx.prompt or ()
        await self._run.begin(joined(*(part for part in asked if isinstance(part, str))))
        before = copy(ctx.usage)
        result = await handler()
        _charge(self._run.trace, result.usage, before)
        if not isinstance(result.output, DeferredToolRequests):
            await self._run.end(result.output)
        return result

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Keep what the model says beside its tool calls."""
        self._run.trace.thought = joined(response.text)
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> object:
        """Record a tool call."""
        trace = self._run.trace
        thought, trace.thought = trace.thought, ""  # now: parallel calls may end in another order
        try:
            result = await handler(args)
        except Exception as error:
            await trace.tool(call.tool_name, args, described(error), thought=thought, failed=True)
            raise
        await trace.tool(call.tool_name, args, result, thought=thought)
        return result


adapter = adapter_for(PydanticAIAgent, AbstractAgent)
