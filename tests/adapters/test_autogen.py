"""Agents of AutoGen AgentChat."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("autogen_agentchat")

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    SystemMessage,
)
from conformance import LESSON, LOOKS, OWN, Conformance, Framework, Script, Total

from jeeves_reflexion import ConfigurationError, Reflexion


class FakeModel(ChatCompletionClient):
    """A model client of AutoGen that follows a script."""

    component_type = "model"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def create(self, messages: Any, **named: Any) -> CreateResult:
        system = "\n".join(m.content for m in messages if isinstance(m, SystemMessage))
        rest = "\n".join(str(m.content) for m in messages if not isinstance(m, SystemMessage))
        answered = sum(isinstance(m, AssistantMessage) for m in messages)
        turn = self._script.turn(system, rest, answered)
        usage = RequestUsage(*(turn.usage or (0, 0)))
        if not turn.calls:
            return CreateResult(finish_reason="stop", content=turn.text, usage=usage, cached=False)
        calls = [FunctionCall(f"c{answered}-{i}", json.dumps(a), n) for i, (n, a) in enumerate(turn.calls)]
        return CreateResult(
            finish_reason="function_calls",
            content=calls,
            usage=usage,
            cached=False,
            thought=turn.text or None,
        )

    def create_stream(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def count_tokens(self, *args: Any, **named: Any) -> int:
        return 0

    def remaining_tokens(self, *args: Any, **named: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=True,
            structured_output=True,
            family=ModelFamily.UNKNOWN,
        )


class AutoGen(Framework):
    """An ``AssistantAgent``."""

    factory = True

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        return AssistantAgent(
            "clerk",
            FakeModel(script),
            tools=[script.look, script.broken, script.record, script.dump, script.wait],
            system_message=f"{OWN}\n\n{lessons}",
            max_tool_iterations=5,
            output_content_type=Total if typed else None,
        )


class TestAutoGen(Conformance):
    """The common cases."""

    framework = AutoGen()

    def test_an_agent_by_itself_is_an_error_that_says_what_to_write(self) -> None:
        with pytest.raises(ConfigurationError, match="lambda lessons: AssistantAgent"):
            Reflexion(
                AutoGen().agent(Script(LOOKS)), evaluator=lambda output: 1.0, reflector=lambda t, n: LESSON
            )
