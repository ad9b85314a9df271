"""Agents of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk")

from conformance import OWN, Conformance, Framework, Script
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


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
        tools = [script.look, script.broken, script.wait]
        return LlmAgent(name="clerk", model=FakeModel(script=script), instruction=OWN, tools=tools)


class TestADK(Conformance):
    """The common cases."""

    framework = ADK()
