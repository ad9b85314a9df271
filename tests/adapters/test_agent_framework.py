"""Agents of Microsoft's Agent Framework."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)
from conformance import OWN, Conformance, Framework, Script, Total


class FakeClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A chat client of the framework that follows a script."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    async def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **named: Any
    ) -> ChatResponse:
        system = "\n".join(
            [options.get("instructions") or "", *(m.text for m in messages if m.role == "system")]
        )
        rest = "\n".join(m.text for m in messages if m.role != "system")
        answered = sum(m.role == "assistant" for m in messages)
        turn = self._script.turn(system, rest, answered)
        calls = [
            Content.from_function_call(f"c{answered}-{place}", name, arguments=arguments)
            for place, (name, arguments) in enumerate(turn.calls)
        ]
        usage = None
        if turn.usage:
            given, made = turn.usage
            usage = {
                "input_token_count": given,
                "output_token_count": made,
                "total_token_count": given + made,
            }
        message = Message("assistant", [*([turn.text] if turn.text else []), *calls])
        form = options.get("response_format")
        return ChatResponse(messages=[message], usage_details=usage, response_format=form)


class AgentFramework(Framework):
    """An ``Agent`` of the framework."""

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        tools = [tool(function) for function in (script.look, script.broken, script.wait)]
        options = {"response_format": Total} if typed else None
        return Agent(FakeClient(script), OWN, name="clerk", tools=tools, default_options=options)


class TestAgentFramework(Conformance):
    """The common cases."""

    framework = AgentFramework()
