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
from conformance import OWN, Conformance, Framework, Script, Total


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
        tools = [script.look, script.broken, script.wait]
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
