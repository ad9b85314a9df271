"""Agents of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk")

from conformance import LESSON, LOOKS, OWN, Conformance, Framework, Script, Turn, blocks
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from jeeves_reflexion import ConfigurationError, Task
from jeeves_reflexion.adapters import adapt


class FakeModel(BaseLlm):
    """A model of the ADK that follows a script."""

    model: str = "fake"
    script: Any = None

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        answered = sum(content.role == "model" for content in contents)
        turn = self.script.turn(str(llm_request.config.system_instruction), str(contents), answered)
        parts = [types.Part(text=turn.text)] if turn.text else []
        for place, (name, arguments) in enumerate(turn.calls):
            call = types.FunctionCall(id=f"c{answered}-{place}", name=name, args=arguments)
            parts.append(types.Part(function_call=call))
        usage = None
        if turn.usage:
            given, made = turn.usage
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=given, candidates_token_count=made
            )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


class ADK(Framework):
    """An ``LlmAgent``; its typed answers are JSON texts."""

    typed = False
    ends = True

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        tools = [script.look, script.broken, script.record, script.dump, script.wait]
        return LlmAgent(name="clerk", model=FakeModel(script=script), instruction=OWN, tools=tools)


class TestADK(Conformance):
    """The common cases."""

    framework = ADK()

    async def test_an_answer_that_a_filter_stopped_is_interrupted(self) -> None:
        class Filtered(FakeModel):
            async def generate_content_async(
                self, llm_request: Any, stream: bool = False
            ) -> AsyncGenerator[LlmResponse, None]:
                yield LlmResponse(error_code="SAFETY")

        attempt = await adapt(LlmAgent(name="clerk", model=Filtered()))(Task("What is in row 3?"), blocks())
        assert attempt.interrupted == "safety"

    async def test_the_runners_limit_of_calls_keeps_the_steps(self) -> None:
        agent = adapt(ADK().agent(Script(LOOKS)), run_config=RunConfig(max_llm_calls=1))
        attempt = await agent(Task("What is in row 3?"), blocks())
        assert (attempt.interrupted, attempt.error) == ("max_turns", None)
        assert len(attempt.steps) == 1

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own use of itself
    async def test_an_agent_that_is_a_tool_has_the_lessons_and_is_charged(self) -> None:
        inner, outer = (
            Script(LOOKS),
            Script((Turn("", (("helper", {"request": "Row 3?"}),)), Turn("It is 40."))),
        )
        helper, agent = ADK().agent(inner), ADK().agent(outer)
        helper.name = "helper"
        agent.tools.append(AgentTool(helper))
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks(LESSON))
        assert attempt.usage.calls == 4
        assert [step.thought for step in attempt.steps] == ["I look at the table.", ""]
        assert all(LESSON in shown for shown, _ in inner.shown)

    @pytest.mark.parametrize("option", ["session_id", "user_id", "new_message"])
    def test_what_would_outlive_an_attempt_is_refused(self, option: str) -> None:
        with pytest.raises(ConfigurationError, match=option):
            adapt(ADK().agent(Script(LOOKS)), **{option: "own"})
