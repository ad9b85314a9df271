"""Agents and teams of AutoGen AgentChat."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import (
    BaseChatMessage,
    ModelClientStreamingChunkEvent,
    StructuredMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from autogen_core import CancellationToken

from jeeves_reflexion.adapters.base import Adapter, Trace, adapter_for
from jeeves_reflexion.models.near_json import json_or_none


class AutoGenAgent(Adapter):
    """An agent or a team of AutoGen, made for each attempt with the lessons in its ``system_message``."""

    made_per_attempt = True

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent on the prompt; its system message already includes ``lessons``."""
        token, calls = CancellationToken(), dict[str, Any]()
        answer: object = ""
        try:
            async for message in self.agent.run_stream(task=prompt, cancellation_token=token):
                if isinstance(message, TaskResult):
                    if "Maximum number" in (message.stop_reason or ""):
                        trace.interrupted = "max_turns"
                elif not isinstance(message, ModelClientStreamingChunkEvent):
                    await _tell(message, calls, trace)
                    if isinstance(message, StructuredMessage):
                        answer = message.content
                    elif isinstance(message, BaseChatMessage):
                        answer = message.to_model_text()
        finally:
            token.cancel()
        return answer


async def _tell(message: Any, calls: dict[str, Any], trace: Trace) -> None:  # noqa: ANN401 - any of theirs
    """Turn a message into steps and usage; ``calls`` are those that no result has answered yet, by id."""
    if getattr(message, "source", "") == "user":
        return
    if isinstance(message, ThoughtEvent):
        trace.thought = message.content
    elif isinstance(message, ToolCallRequestEvent):
        calls |= {call.id: call for call in message.content}
    elif isinstance(message, ToolCallExecutionEvent):
        for result in message.content:
            call = calls.pop(result.call_id, None)
            written = call.arguments if call is not None else ""
            arguments = json_or_none(written)
            arguments = written if arguments is None else arguments
            await trace.tool(result.name, arguments, result.content, failed=bool(result.is_error))
    usage = message.models_usage
    if usage is not None:
        trace.used(1, usage.prompt_tokens, usage.completion_tokens)


adapter = adapter_for(AutoGenAgent, ChatAgent, Team)
