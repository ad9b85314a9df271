"""Agents of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import Agent, FunctionToolResultEvent, ModelResponse, UsageLimitExceeded
from pydantic_ai.agent import AbstractAgent

from jeeves_reflexion.adapters.base import Adapter, Trace, joined, refuse


class PydanticAIAgent(Adapter):
    """An ``Agent`` of pydantic-ai; ``options`` go to its ``iter``, such as ``deps`` or ``usage_limits``."""

    def __init__(self, agent: AbstractAgent[Any, Any], **options: Any) -> None:  # noqa: ANN401 - its own
        super().__init__(agent)
        refuse(options, "pydantic-ai", message_history="each attempt begins a conversation of its own")
        self._instructions = options.pop("instructions", None)
        self._options: Mapping[str, Any] = options

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent with the lessons among its instructions."""
        instructions = [each for each in (self._instructions, lessons) if each]
        async with self.agent.iter(prompt, instructions=instructions or None, **self._options) as run:
            try:
                async for node in run:
                    if Agent.is_call_tools_node(node):
                        self._charge(trace, run.usage)
                        async with node.stream(run.ctx) as events:
                            await _tell(node.model_response, events, trace)
            except UsageLimitExceeded:
                trace.interrupted = "max_turns"
                return ""
            return run.result.output if run.result is not None else ""

    def _charge(self, trace: Trace, usage: Any) -> None:  # noqa: ANN401 - their RunUsage
        so_far = trace.usage
        trace.used(
            usage.requests - so_far.calls,
            usage.input_tokens - so_far.input_tokens,
            usage.output_tokens - so_far.output_tokens,
        )


async def _tell(response: ModelResponse, events: Any, trace: Trace) -> None:  # noqa: ANN401 - a stream of theirs
    thought = joined(response.text)
    calls = {call.tool_call_id: call for call in response.tool_calls}
    async for event in events:
        if not isinstance(event, FunctionToolResultEvent):
            continue
        part = event.part
        call = calls.get(part.tool_call_id)
        arguments = call.args if call else ""
        failed = part.outcome != "success"
        await trace.tool(part.tool_name, arguments, part.content, thought=thought, failed=failed)
        thought = ""


def adapter(agent: object, **options: object) -> Adapter | None:
    """Return the adapter for an agent of pydantic-ai; None for anything else."""
    return PydanticAIAgent(agent, **options) if isinstance(agent, AbstractAgent) else None
