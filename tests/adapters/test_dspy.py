"""Modules of DSPy."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

pytest.importorskip("dspy.utils.callback")

import anyio
import dspy
from conformance import LESSON, LOOKS, OWN, Conformance, Framework, Script, Total, Turn, blocks
from dspy import lm15

from jeeves_reflexion import ConfigurationError, Task
from jeeves_reflexion.adapters import adapt


class FakeEngine:
    """An engine of ``dspy.LM`` that follows a script: by calls of tools, or in DSPy's own fields."""

    def __init__(self, script: Script, *, fields: bool = False) -> None:
        self._script = script
        self._fields = fields

    async def complete(self, request: lm15.Request) -> lm15.Response:
        return self.reply(request)

    def reply(self, request: lm15.Request) -> lm15.Response:
        system = (
            request.system if isinstance(request.system, str) else "".join(p.text for p in request.system)
        )
        answered = sum(message.role == "assistant" for message in request.messages)
        turn = self._script.turn(system, "\n".join(map(str, request.messages)), answered)
        if self._fields:
            parts = [lm15.TextPart(turn.text)]
        else:
            calls = turn.calls or (("submit", {"answer": _data(turn.text)}),)

            parts = [lm15.ThinkingPart(turn.text)] if turn.text else []
            parts += [
                lm15.ToolCallPart(f"c{answered}-{place}", name, arguments)
                for place, (name, arguments) in enumerate(calls)
            ]
        usage = lm15.Usage(*turn.usage, sum(turn.usage)) if turn.usage else lm15.Usage()
        reason = "stop" if self._fields else "tool_call"
        return lm15.Response(None, "fake", lm15.Message.assistant(parts), reason, usage)

    async def aclose(self) -> None:
        """Nothing is open."""


class FakeSyncEngine(FakeEngine):
    """The same for modules that know no asyncio."""

    def complete(self, request: lm15.Request) -> lm15.Response:  # type: ignore[override]
        return self.reply(request)

    def close(self) -> None:
        """Nothing is open."""


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def model(script: Script, *, fields: bool = False) -> dspy.LM:
    return dspy.LM(
        "openai/gpt-4o",
        cache=False,
        engine=FakeSyncEngine(script, fields=fields),
        async_engine=FakeEngine(script, fields=fields),
    )


class DSPy(Framework):
    """``ReActV2``, whose turns are calls of tools."""

    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        kind = Total if typed else str
        signature = dspy.Signature("question -> answer", OWN).with_updated_fields("answer", type_=kind)
        tools = [script.look, script.broken, script.record, script.dump, script.wait]
        agent = dspy.ReActV2(signature, tools=tools)
        agent.set_lm(model(script))
        return agent


class TestDSPy(Conformance):
    """The common cases."""

    framework = DSPy()

    @pytest.mark.parametrize("kind", ["ReAct", "ReActV2"])
    async def test_a_sync_tool_does_not_hold_up_the_event_loop(self, kind: str) -> None:
        started, released = threading.Event(), threading.Event()

        def look(x: int) -> str:
            started.set()
            assert released.wait(30), "the event loop was held up"
            return f"row {x} holds 40"

        if kind == "ReAct":
            turns = (
                Turn(_acted("Look.", "look", {"x": 3})),
                Turn(_acted("Done.", "finish", {})),
                Turn(_said("40")),
            )
            script = Script(turns)
            agent = dspy.ReAct("question -> answer", tools=[look])
            agent.set_lm(model(_in_order(script), fields=True))
        else:
            agent = dspy.ReActV2("question -> answer", tools=[look])
            agent.set_lm(model(Script(LOOKS)))
        async with anyio.create_task_group() as group:
            attempts = []

            async def work() -> None:
                attempts.append(await adapt(agent)(Task("What is in row 3?"), blocks()))

            group.start_soon(work)
            assert await anyio.to_thread.run_sync(started.wait, 30)
            released.set()
        [attempt] = attempts
        assert [step.observation for step in attempt.steps] == ["row 3 holds 40"]
        assert type(agent.tools["look"]) is dspy.Tool

    async def test_react_tells_of_its_steps_and_not_of_its_end(self) -> None:
        script = Script(
            (Turn(_acted("Look.", "look", {"x": 3})), Turn(_acted("Done.", "finish", {})), Turn(_said("40")))
        )
        agent = dspy.ReAct(dspy.Signature("question -> answer", OWN), tools=[script.look])
        agent.set_lm(model(_in_order(script), fields=True))
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks(LESSON))
        assert [(step.thought, step.action) for step in attempt.steps] == [("Look.", 'look {"x":3}')]
        assert attempt.output == "40"
        assert attempt.usage.calls == 3
        assert [shown.count(LESSON) for shown, _ in script.shown] == [1, 1, 1]

    async def test_a_module_of_the_users_own_that_knows_no_asyncio(self) -> None:
        script = Script((Turn(_said("40")),))
        agent = Own(script)
        attempt = await adapt(agent)(Task("What is in row 3?"), blocks(LESSON))
        assert (attempt.output, attempt.usage.tokens) == ("it says 40", 15)
        assert [step.observation for step in attempt.steps] == ["row 3 holds 40"]
        assert LESSON in script.shown[0][0]
        assert LESSON not in agent.answer.predict.signature.instructions

    async def test_a_module_that_copies_its_predictors_has_the_lessons_too(self) -> None:
        script = Script((Turn(_said("40")),))
        inner = dspy.ChainOfThought(dspy.Signature("question -> answer", OWN))
        inner.set_lm(model(script, fields=True))
        agent = dspy.BestOfN(inner, N=2, reward_fn=lambda inputs, prediction: 0.0, threshold=1.0)
        attempt = await adapt(agent, input_field="question", output_field="answer")(
            Task("Row 3?"), blocks(LESSON)
        )
        assert attempt.output == "40"
        assert attempt.usage.calls == 2
        assert all(LESSON in shown for shown, _ in script.shown)

    async def test_several_outputs_are_data(self) -> None:
        script = Script((Turn("[[ ## rows ## ]]\n3\n\n[[ ## total ## ]]\n40\n\n[[ ## completed ## ]]"),))
        agent = dspy.Predict(dspy.Signature("table, question -> rows: int, total: int", OWN))
        agent.set_lm(model(script, fields=True))
        adapted = adapt(agent, input_field="question", table="none")
        attempt = await adapted(Task("What is in row 3?"), blocks())
        assert attempt.value == {"rows": 3, "total": 40}
        assert attempt.output == '{"rows":3,"total":40}'

    def test_several_inputs_are_an_error_that_says_what_to_write(self) -> None:
        with pytest.raises(
            ConfigurationError, match=r"takes table, question: pass adapt\(module, input_field="
        ):
            adapt(dspy.Predict("table, question -> total"))
        assert adapt(dspy.Predict("table, question -> total"), table="none")

    def test_an_output_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(ConfigurationError, match="no output 'sum'; it has total"):
            adapt(dspy.ChainOfThought("question -> total"), output_field="sum")

    async def test_what_the_model_says_out_of_form_is_an_error(self) -> None:
        agent = dspy.Predict(dspy.Signature("question -> total: int", OWN))
        agent.set_lm(model(Script((Turn("no fields"),)), fields=True))
        with pytest.raises(Exception, match="total"):
            await adapt(agent)(Task("What is in row 3?"), blocks())

    async def test_a_tool_is_the_users_own_object_and_no_copy(self) -> None:
        class Counter:
            count = 0

            def look(self, x: int) -> str:
                """Look at row x."""
                self.count += 1
                return "row 3 holds 40"

        counter, script = Counter(), Script(LOOKS)
        agent = dspy.ReActV2(dspy.Signature("question -> answer", OWN), tools=[counter.look])
        agent.set_lm(model(script))
        await adapt(agent)(Task("What is in row 3?"), blocks())
        assert counter.count == 1

    async def test_usage_reaches_a_tracker_of_the_users_own(self) -> None:
        with dspy.track_usage() as tracker:
            await adapt(DSPy().agent(Script(LOOKS)))(Task("What is in row 3?"), blocks())
        [used] = tracker.get_total_tokens().values()
        assert used["total_tokens"] == 30


class Own(dspy.Module):
    """A program with a sync ``forward`` alone."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.tool = dspy.Tool(script.look)
        self.answer = dspy.ChainOfThought(dspy.Signature("question, row -> answer", OWN))
        self.answer.set_lm(model(script, fields=True))

    def forward(self, question: str) -> str:
        return f"it says {self.answer(question=question, row=self.tool(x=3)).answer}"


class _InOrder(Script):
    """Turns one after the other: DSPy's ``ReAct`` asks in one message each time."""

    def turn(self, instructions: str, conversation: str, answered: int) -> Turn:
        return super().turn(instructions, conversation, len(self.shown))


def _in_order(script: Script) -> Script:
    return _InOrder(script.turns, script.shown)


def _said(answer: str) -> str:
    return f"[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"


def _acted(thought: str, tool: str, arguments: dict[str, Any]) -> str:
    fields = {"next_thought": thought, "next_tool_name": tool, "next_tool_args": json.dumps(arguments)}
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in [*fields.items(), ("completed", "")])
