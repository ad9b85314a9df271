"""Agents of smolagents."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("smolagents")

from conformance import LOOKS, OWN, Conformance, Framework, Script, Turn, blocks
from smolagents import ChatMessage, MessageRole, Model, TokenUsage, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from jeeves_reflexion import Task
from jeeves_reflexion.adapters import adapt


class FakeModel(Model):
    """A model of smolagents that follows a script."""

    def __init__(self, script: Script) -> None:
        super().__init__(model_id="fake")
        self._script = script

    def generate(self, messages: list[Any], **named: Any) -> ChatMessage:
        texts = [(message.role, _text(message.content)) for message in messages]
        system = "\n".join(text for role, text in texts if role == MessageRole.SYSTEM)
        rest = "\n".join(text for role, text in texts if role != MessageRole.SYSTEM)
        answered = sum(role == MessageRole.TOOL_RESPONSE for role, _ in texts)
        turn = self._script.turn(system, rest, answered)
        calls = turn.calls or (("final_answer", {"answer": turn.text}),)
        wanted = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(arguments, name), f"c{answered}-{place}", "function"
            )
            for place, (name, arguments) in enumerate(calls)
        ]
        usage = TokenUsage(*turn.usage) if turn.usage else None
        return ChatMessage(MessageRole.ASSISTANT, turn.text if turn.calls else "", wanted, token_usage=usage)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _tool(function: Any, inputs: dict[str, Any]) -> Tool:
    class Made(Tool):  # type: ignore[misc]
        name = function.__name__.removesuffix("_in_thread")
        description = function.__doc__
        output_type = "string"
        skip_forward_signature_validation = True

        def forward(self, **named: Any) -> str:
            return str(function(**named))

    Made.inputs = inputs
    return Made()


class Smol(Framework):
    """An agent that calls tools as JSON; smolagents answers with whatever the final tool was given."""

    factory = True
    threads = True
    typed = False

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        tools = [
            _tool(script.look, {"x": {"type": "integer", "description": "the row"}}),
            _tool(script.broken, {}),
            _tool(script.record, {"row": {"type": "integer", "description": "the row"}}),
            _tool(script.dump, {}),
            _tool(script.wait_in_thread, {}),
        ]
        instructions = f"{OWN}\n\n{lessons}"
        return ToolCallingAgent(
            tools, FakeModel(script), instructions=instructions, verbosity_level=-1, max_steps=4
        )


class TestSmolagents(Conformance):
    """The common cases."""

    framework = Smol()

    async def test_a_managed_agent_is_charged(self) -> None:
        inner, outer = Script(LOOKS), Script((Turn("", (("helper", {"task": "Row 3?"}),)), Turn("It is 40.")))

        def make(lessons: str) -> Any:
            helper = Smol().agent(inner)
            helper.name, helper.description = "helper", "Helps."
            return ToolCallingAgent([], FakeModel(outer), managed_agents=[helper], verbosity_level=-1)

        attempt = await adapt(make)(Task("What is in row 3?"), blocks())
        assert (attempt.usage.calls, attempt.usage.tokens) == (4, 60)

    @pytest.mark.parametrize(("answer", "output"), [(None, ""), ({1, 2}, "[1,2]"), (0.5, "0.5")])
    async def test_an_answer_of_any_kind_is_kept(self, answer: Any, output: str) -> None:
        class Says(FakeModel):
            def generate(self, messages: list[Any], **named: Any) -> ChatMessage:
                wanted = ChatMessageToolCallFunction({"answer": answer}, "final_answer")
                return ChatMessage(MessageRole.ASSISTANT, "", [ChatMessageToolCall(wanted, "c", "function")])

        made = adapt(lambda lessons: ToolCallingAgent([], Says(Script(())), verbosity_level=-1))
        attempt = await made(Task("What is in row 3?"), blocks())
        assert (attempt.value, attempt.output) == (answer, output)
