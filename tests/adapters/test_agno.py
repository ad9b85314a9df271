"""Agents of Agno."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("agno.agent")

from agno.agent import Agent
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.team import Team
from agno.tools import tool
from conformance import LESSON, LOOKS, OWN, Conformance, Framework, Script, Total, Turn, blocks

from jeeves_reflexion import Task
from jeeves_reflexion.adapters import adapt


@dataclass
class FakeModel(Model):
    """A model of Agno that follows a script."""

    id: str = "fake"
    script: Any = None

    async def ainvoke(self, *args: Any, **named: Any) -> ModelResponse:
        messages = named.get("messages") or args[0]
        system = "\n".join(str(m.content) for m in messages if m.role == "system")
        rest = "\n".join(str(m.content) for m in messages if m.role != "system")
        turn = self.script.turn(system, rest, sum(m.role == "assistant" for m in messages))
        calls = [
            {
                "id": f"{n}{i}{id(turn)}",
                "type": "function",
                "function": {"name": n, "arguments": json.dumps(a)},
            }
            for i, (n, a) in enumerate(turn.calls)
        ]
        usage = None
        if turn.usage:
            given, made = turn.usage
            usage = MessageMetrics(input_tokens=given, output_tokens=made, total_tokens=given + made)
        return ModelResponse(
            role="assistant", content=turn.text or None, tool_calls=calls, response_usage=usage
        )

    def invoke(self, *args: Any, **named: Any) -> ModelResponse:
        raise NotImplementedError

    def invoke_stream(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def ainvoke_stream(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **named: Any) -> ModelResponse:
        raise NotImplementedError

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        raise NotImplementedError


class Agno(Framework):
    """An ``Agent`` of Agno."""

    live = False

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        tools = [script.look, script.broken, script.record, script.dump, script.wait]
        schema = Total if typed else None
        return Agent(
            name="clerk",
            model=FakeModel(script=script),
            instructions=OWN,
            tools=tools,
            output_schema=schema,
            use_json_mode=typed,
            telemetry=False,
        )


class TestAgno(Conformance):
    """The common cases."""

    framework = Agno()

    async def test_a_sync_hook_of_the_users_own_gets_what_the_tool_returned(self) -> None:
        def loud(function_name: str, function_call: Any, arguments: dict[str, Any]) -> str:
            return str(function_call(**arguments)).upper()

        agent = Agno().agent(Script(LOOKS))
        agent.tool_hooks = [loud]
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert [step.observation for step in attempt.steps] == ["ROW 3 HOLDS 40"]

    async def test_a_tool_that_ends_the_run_has_the_last_word(self) -> None:
        @tool(stop_after_tool_call=True)  # type: ignore[untyped-decorator]
        def last() -> str:
            """End."""
            return "the last word"

        agent = Agno().agent(Script((Turn("", (("last", {}),)),)))
        agent.tools.append(last)
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert attempt.output == "the last word"

    async def test_a_run_that_waits_for_a_person_is_interrupted(self) -> None:
        @tool(requires_confirmation=True)  # type: ignore[untyped-decorator]
        def risky() -> str:
            """Ask first."""
            return "done"

        agent = Agno().agent(Script((Turn("", (("risky", {}),)),)))
        agent.tools.append(risky)
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks())
        assert attempt.interrupted == "PAUSED"

    @pytest.mark.parametrize("hooked", [False, True], ids=["", "sync hook"])
    async def test_a_team_and_its_members_have_the_lessons(self, hooked: bool) -> None:
        delegated = Turn("I ask.", (("delegate_task_to_member", {"member_id": "clerk", "task": "Row 3?"}),))
        inner, outer = Script(LOOKS), Script((delegated, Turn("It is 41.")))
        clerk = Agno().agent(inner)
        clerk.name, clerk.id = "clerk", "clerk"
        hooks: Any = [lambda function_call, arguments: function_call(**arguments)] if hooked else None
        team = Team(members=[clerk], model=FakeModel(script=outer), instructions=OWN, tool_hooks=hooks)
        attempt = await adapt(team)(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.output == "It is 41."
        assert [LESSON in told for told, _ in (*outer.shown, *inner.shown)] == [True] * 4
        steps = {step.action.split()[0]: step.observation for step in attempt.steps}
        assert steps == {"look": "row 3 holds 40", "delegate_task_to_member": "I look at the table.It is 40."}
        assert (attempt.usage.calls, attempt.usage.tokens) == (4, 60)
        assert clerk.additional_context is None
