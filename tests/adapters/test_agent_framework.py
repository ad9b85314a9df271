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
from conformance import OWN, Conformance, Framework, Script, Total, Turn, blocks

from jeeves_reflexion import Task
from jeeves_reflexion.adapters import adapt


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
        tools = [
            tool(function)
            for function in (script.look, script.broken, script.record, script.dump, script.wait)
        ]
        options = {"response_format": Total} if typed else None
        return Agent(FakeClient(script), OWN, name="clerk", tools=tools, default_options=options)


class TestAgentFramework(Conformance):
    """The common cases."""

    framework = AgentFramework()

    async def test_an_answer_that_a_filter_stopped_is_interrupted(self) -> None:
        class Filtered(FakeClient):
            async def _inner_get_response(self, **named: Any) -> ChatResponse:  # type: ignore[override]
                return ChatResponse(messages=[Message("assistant", [])], finish_reason="content_filter")

        attempt = await adapt(Agent(Filtered(Script(())), OWN))(Task("What is in row 3?"), blocks())
        assert attempt.interrupted == "content_filter"

    async def test_a_run_that_waits_for_a_person_is_interrupted(self) -> None:
        @tool(approval_mode="always_require")  # type: ignore[untyped-decorator]
        def risky() -> str:
            """Ask first."""
            return "done"

        agent = Agent(FakeClient(Script((Turn("", (("risky", {}),)),))), OWN, tools=[risky])
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert attempt.interrupted == "user_input"

    async def test_a_result_that_is_no_text_is_named(self) -> None:
        @tool  # type: ignore[untyped-decorator]
        def picture() -> Any:
            """Show."""
            return Content.from_uri("https://example.org/row.png", media_type="image/png")

        agent = Agent(FakeClient(Script((Turn("", (("picture", {}),)), Turn("ok")))), OWN, tools=[picture])
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert [step.observation for step in attempt.steps] == ["https://example.org/row.png"]
