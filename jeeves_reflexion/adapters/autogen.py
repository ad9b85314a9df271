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

from jeeves_reflexion.adapters.base import Adapter, Trace, adapter_for, arguments_of


class AutoGenAgent(Adapter):
    """An agent or a team of AutoGen, made for each attempt with the lessons in its ``system_message``."""

    made_per_attempt = True

    async def attempt(self, prompt: str, lessons: str, trace: Trace) -> object:
        """Run the agent on the prompt; its system message already includes ``lessons``."""
        token, heard = CancellationToken(), _Heard(trace)
        answer: object = ""
        try:
            async for message in self.agent.run_stream(task=prompt, cancellation_token=token):
                if isinstance(message, TaskResult):
                    trace.interrupted = (
                        "max_turns" if "Maximum number" in (message.stop_reason or "") else None
                    )
                elif not isinstance(message, ModelClientStreamingChunkEvent):
                    await heard.message(message)
                    if isinstance(message, BaseChatMessage):
                        answer = (
                            message.content
                            if isinstance(message, StructuredMessage)
                            else message.to_model_text()
                        )
        finally:
            token.cancel()
        return answer


class _Heard:
    """Turns messages into steps and usage."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._thought = ""
        self._calls = dict[str, Any]()

    async def message(self, message: Any) -> None:  # noqa: ANN401 - any of theirs
        if getattr(message, "source", "") == "user":
            return
        if isinstance(message, ThoughtEvent):
            self._thought = message.content
        elif isinstance(message, ToolCallRequestEvent):
            self._calls |= {call.id: call for call in message.content}
        elif isinstance(message, ToolCallExecutionEvent):
            for result in message.content:
                call = self._calls.pop(result.call_id, None)
                arguments = arguments_of(call.arguments) if call is not None else ""
                thought, self._thought = self._thought, ""
                await self._trace.tool(
                    result.name, arguments, result.content, thought=thought, failed=bool(result.is_error)
                )
        usage = message.models_usage
        if usage is not None:
            self._trace.used(1, usage.prompt_tokens, usage.completion_tokens)


adapter = adapter_for(AutoGenAgent, ChatAgent, Team)
