"""What every adapter does, tried with the real framework and its own fake model.

A framework's test module has a :class:`Framework` that makes an agent of scripted turns, and a class of tests that
derives from :class:`Conformance`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from jeeves_reflexion import (
    Attempt,
    Budget,
    Credit,
    Evaluation,
    HashingEmbedder,
    InMemoryVectorStore,
    Learner,
    LessonSettings,
    LoopOptions,
    Provenance,
    Reflection,
    Reflexion,
    Session,
    SessionError,
    Step,
    Task,
    VectorLessonStore,
    Withholding,
)
from jeeves_reflexion.adapters import Adapter, adapt
from jeeves_reflexion.adapters.middleware import Done
from jeeves_reflexion.events import Event, StepTaken

LESSON = "Count the rows of the table before you add them up."
OTHER = "Read the unit beside the number."
OWN = "You are a careful accountant."


class Total(BaseModel):
    """A typed answer."""

    amount: int


@dataclass(frozen=True)
class Turn:
    """What the fake model says when so many of its own messages stand in the conversation."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: tuple[int, int] | None = (10, 5)
    error: str = ""
    """What the endpoint says instead of an answer."""


@dataclass
class Script:
    """The turns of a fake model, and what it was shown at each call."""

    turns: Sequence[Turn]
    shown: list[tuple[str, str]] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)

    def turn(self, instructions: str, conversation: str, answered: int) -> Turn:
        """Note what the model sees (its instructions, and everything else), and return what it answers."""
        self.shown.append((instructions, conversation))
        turn = self.turns[answered]
        if turn.error:
            raise RuntimeError(turn.error)
        return turn

    def look(self, x: int) -> str:
        """Look at row x of the table."""
        return f"row {x} holds 40"

    def broken(self) -> str:
        """Fail, as a tool may."""
        raise ValueError("the table is locked")

    def record(self, row: int) -> dict[str, Any]:
        """Return a row as data."""
        return {"row": row, "cells": [40, None], "total": Total(amount=40)}

    def dump(self) -> str:
        """Return the whole table."""
        return "40 " * 100_000

    async def wait(self) -> str:
        """Never return."""
        self.waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.stopped.set()
        return ""

    def wait_in_thread(self) -> str:
        """Return when the test lets it."""
        self.waiting.set()
        self.released.wait()
        self.stopped.set()
        return ""


class Framework(ABC):
    """How a framework makes an agent."""

    typed = True
    raises = False
    """Whether what a tool raises is raised by the framework's run, which says nothing of the call."""
    ends = False
    """Whether it ends the run after the failed call."""
    threads = False
    """Whether it runs in a worker thread, where a tool can't be cancelled."""
    live = True
    """Whether it tells of each model call as it happens, with its words and its usage."""
    speaks = True
    """Whether it keeps what the model says beside calls of tools."""
    factory = False
    """Whether an agent is made for each attempt."""

    @abstractmethod
    def agent(self, script: Script, *, typed: bool = False, lessons: str = "") -> Any:
        """Return an agent with the instructions ``OWN``, the tools of the script and its turns."""

    def base(self, script: Script, *, typed: bool = False) -> Any:
        """Return what a user gives to the loop."""
        if self.factory:
            return adapt(lambda lessons: self.agent(script, typed=typed, lessons=lessons))
        return self.agent(script, typed=typed)

    def adapted(self, script: Script, *, typed: bool = False) -> Adapter:
        """Return the agent as one of ours."""
        base = self.base(script, typed=typed)
        return base if self.factory else adapt(base)


LOOKS = (Turn("I look at the table.", (("look", {"x": 3}),)), Turn("It is 40."))


def blocks(*lessons: str) -> Session:
    """Return a session with these lessons."""
    return Session(blocks={"reflexion_lessons": "\n".join(lessons)} if lessons else {})


@pytest.mark.anyio
class Conformance:
    """The cases; a class for a framework sets ``framework``."""

    framework: Framework

    async def test_lessons_stand_in_the_instructions_beside_the_agents_own(self) -> None:
        script = Script(LOOKS)
        await self.framework.adapted(script)(Task("What is in row 3?"), blocks(LESSON))
        assert len(script.shown) == 2
        for instructions, conversation in script.shown:
            assert OWN in instructions
            assert instructions.count(LESSON) == 1
            assert LESSON not in conversation
            assert "What is in row 3?" in conversation

    async def test_without_lessons_nothing_is_added(self) -> None:
        script = Script(LOOKS)
        agent = self.framework.adapted(script)
        await agent(Task("What is in row 3?"), blocks(LESSON))
        script.shown.clear()
        await agent(Task("What is in row 3?"), Session())
        assert all("lesson" not in shown for pair in script.shown for shown in pair)

    async def test_an_attempt_knows_nothing_of_the_one_before(self) -> None:
        script = Script(LOOKS)
        agent = self.framework.adapted(script)
        await agent(Task("What is in row 3?"), blocks(LESSON))
        script.shown.clear()
        await agent(Task("And in row 4?"), blocks(OTHER))
        text = "\n".join(shown for pair in script.shown for shown in pair)
        assert OTHER in text
        assert LESSON not in text
        assert "What is in row 3?" not in text
        assert len(script.shown) == 2

    async def test_runs_at_once_see_their_own_lessons(self) -> None:
        script = Script(LOOKS)
        agent = self.framework.adapted(script)
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(agent, Task(f"Question {number}?"), blocks(f"Lesson number {number} holds."))
        assert len(script.shown) == 16
        for instructions, conversation in script.shown:
            asked = [n for n in range(8) if f"Question {n}?" in conversation]
            told = [n for n in range(8) if f"Lesson number {n} holds." in instructions]
            assert len(asked) == 1
            assert asked == told

    async def test_steps_are_told_as_they_happen(self) -> None:
        script = Script(LOOKS)
        seen: list[tuple[Event, int]] = []
        session = blocks().listening(lambda event: seen.append((event, len(script.shown))))
        attempt = await self.framework.adapted(script)(Task("What is in row 3?"), session)
        [step] = attempt.steps
        assert step.thought == (
            "I look at the table." if self.framework.live and self.framework.speaks else ""
        )
        assert step.action.startswith("look")
        assert '"x":3' in step.action.replace(" ", "")
        assert step.observation == "row 3 holds 40"
        assert not step.failed
        [(event, calls)] = [pair for pair in seen if isinstance(pair[0], StepTaken)]
        assert isinstance(event, StepTaken)
        assert event.step == step
        assert calls == 1, "the step is told before the model is asked again"

    async def test_a_tool_that_raises_is_a_failed_step(self) -> None:
        script = Script((Turn("", (("broken", {}),)), Turn("It is locked.")))
        agent = self.framework.adapted(script)
        if self.framework.raises:
            with pytest.raises(ValueError, match="the table is locked"):
                await agent(Task("What is in row 3?"), Session())
            return
        attempt = await agent(Task("What is in row 3?"), Session())
        [step] = attempt.steps
        assert step.failed
        assert step.action.startswith("broken")
        if self.framework.ends:
            assert attempt.error is not None
            assert "the table is locked" in attempt.error
        else:
            assert attempt.output == "It is locked."

    async def test_two_calls_in_a_turn_are_two_steps(self) -> None:
        script = Script((Turn("Both.", (("look", {"x": 1}), ("look", {"x": 2}))), Turn("40 each.")))
        attempt = await self.framework.adapted(script)(Task("Rows 1 and 2?"), Session())
        assert sorted(step.observation for step in attempt.steps) == ["row 1 holds 40", "row 2 holds 40"]
        assert sorted(step.thought for step in attempt.steps) == [
            "",
            "Both." if self.framework.live and self.framework.speaks else "",
        ]

    async def test_a_result_that_is_data_is_kept_as_text(self) -> None:
        script = Script((Turn("", (("record", {"row": 3}),)), Turn("It is 40.")))
        attempt = await self.framework.adapted(script)(Task("What is in row 3?"), Session())
        [step] = attempt.steps
        assert not step.failed
        assert "cells" in step.observation
        assert "amount" in step.observation
        assert attempt.output == "It is 40."

    async def test_a_long_result_is_cut_in_the_step(self) -> None:
        script = Script((Turn("", (("dump", {}),)), Turn("It is 40.")))
        attempt = await self.framework.adapted(script)(Task("What is in row 3?"), Session())
        [step] = attempt.steps
        assert step.observation.startswith("40 ")
        assert len(step.observation) < 20_000
        assert attempt.output == "It is 40."

    async def test_what_the_model_raises_at_once_is_raised(self) -> None:
        script = Script((Turn(error="the content filter stopped it"),))
        with pytest.raises(Exception, match="the content filter stopped it"):
            await self.framework.adapted(script)(Task("What is in row 3?"), Session())

    async def test_what_the_model_raises_later_stands_beside_the_steps(self) -> None:
        script = Script((LOOKS[0], Turn(error="the content filter stopped it")))
        attempt = await self.framework.adapted(script)(Task("What is in row 3?"), Session())
        assert attempt.error is not None
        assert "the content filter stopped it" in attempt.error
        assert [step.observation for step in attempt.steps] == ["row 3 holds 40"]
        if self.framework.live:
            assert attempt.usage.tokens == 15

    @pytest.mark.parametrize("call", [("lock", {}), ("look", {"x": "three"})], ids=["name", "arguments"])
    async def test_a_wrong_call_is_never_a_step_that_went_well(
        self, call: tuple[str, dict[str, Any]]
    ) -> None:
        script = Script((Turn("", (call,)), Turn("It is 40.")))
        try:
            attempt = await self.framework.adapted(script)(Task("What is in row 3?"), Session())
        except Exception as error:  # noqa: BLE001 - what a framework makes of it differs
            raised, steps, output = str(error), (), ""
        else:
            raised, steps, output = attempt.error or "", attempt.steps, attempt.output
        # Some frameworks check no types, and the tool then runs.
        assert all(step.failed or step.observation == "row three holds 40" for step in steps)
        assert output == "It is 40." or call[0] in raised or "three" in raised

    async def test_output_and_usage(self) -> None:
        attempt = await self.framework.adapted(Script(LOOKS))(Task("What is in row 3?"), Session())
        assert attempt.output == "It is 40."
        assert attempt.error is None
        assert attempt.interrupted is None
        assert attempt.usage.cost_usd is None
        assert (attempt.usage.calls, attempt.usage.tokens) == (2, 30)
        assert attempt.usage.unreported == 0

    async def test_usage_that_is_not_reported_is_unknown(self) -> None:
        script = Script((Turn("It is 40.", usage=None),))
        attempt = await self.framework.adapted(script)(Task("What is in row 3?"), Session())
        assert attempt.usage.unreported == attempt.usage.calls == 1
        assert attempt.usage.tokens == 0

    async def test_a_typed_answer_is_kept_and_shown_as_json(self) -> None:
        if not self.framework.typed:
            pytest.skip("the framework has no typed answers")
        script = Script((Turn('{"amount": 40}'),))
        attempt = await self.framework.adapted(script, typed=True)(Task("What is in row 3?"), Session())
        assert attempt.value == Total(amount=40)
        assert attempt.output == '{"amount":40}'

    async def test_cancellation_reaches_the_tool(self) -> None:
        script = Script((Turn("", (("wait", {}),)), Turn("never")))
        agent = self.framework.adapted(script)
        async with anyio.create_task_group() as group:
            group.start_soon(agent, Task("Wait."), Session())
            assert await anyio.to_thread.run_sync(script.waiting.wait, 30, abandon_on_cancel=True)
            group.cancel_scope.cancel()
        script.released.set()
        assert await anyio.to_thread.run_sync(script.stopped.wait, 30)
        assert len(script.shown) == 1

    async def test_a_token_budget_stops_between_calls(self) -> None:
        script = Script(LOOKS)
        loop = Reflexion(
            self.framework.base(script),
            evaluator=lambda output: 1.0,
            reflector=lambda task, trials: LESSON,
            options=LoopOptions(budget=Budget(max_tokens=12)),
        )
        result = await loop.run("What is in row 3?")
        assert result.stop_reason == "budget"
        calls = 1 if self.framework.live else 2
        assert len(script.shown) == calls
        assert result.usage["agent"].tokens == 15 * calls

    async def test_a_loop_takes_the_agent_as_it_is(self) -> None:
        script = Script(LOOKS)
        scores = iter((0.0, 1.0))
        loop = Reflexion(
            self.framework.base(script),
            evaluator=lambda output: next(scores),
            reflector=lambda task, trials: LESSON,
        )
        result = await anyio.to_thread.run_sync(lambda: loop.run_sync("What is in row 3?"))
        assert result.passed
        assert [len(trial.attempt.steps) for trial in result.trials] == [1, 1]
        assert [LESSON in instructions for instructions, _ in script.shown] == [False, False, True, True]

    async def test_a_lesson_that_is_withheld_or_forgotten_leaves_no_trace(self) -> None:
        script = Script(LOOKS)
        agent = self.framework.base(script)
        task = Task("What is in row 3?", id="row")
        credit = Credit(Withholding(share=0.5))
        store = VectorLessonStore(
            InMemoryVectorStore(HashingEmbedder()), settings=LessonSettings(credit=credit)
        )
        lesson = await store.record(task, Reflection(LESSON), provenance=Provenance("earlier", 1, 0.0))
        loop = Reflexion(
            agent, evaluator=lambda output: 1.0, lesson_store=store, reflector=lambda task, trials: OTHER
        )

        async def told() -> set[tuple[bool, bool]]:
            script.shown.clear()
            [trial] = (await loop.run(task)).trials
            assert trial.recall is not None
            return {(bool(trial.recall.offered), LESSON in instructions) for instructions, _ in script.shown}

        found = set[tuple[bool, bool]]()
        for _ in range(30):
            found |= await told()
        assert found == {(True, True), (False, False)}
        await store.forget(lesson.id)
        assert await told() == {(False, False)}

    @pytest.mark.parametrize("anyio_backend", ["trio"])
    async def test_trio_is_an_error_that_says_so(self, anyio_backend: str) -> None:
        with pytest.raises(SessionError, match="asyncio"):
            await self.framework.adapted(Script(LOOKS))(Task("What is in row 3?"), Session())


def silent_learner() -> Learner:
    """Return a learner without lessons, for middleware whose verdict comes later."""
    store = VectorLessonStore(InMemoryVectorStore(HashingEmbedder()))
    return Learner(lesson_store=store, reflector=lambda task, trials: LESSON)


async def beside_a_learner(run: Callable[[Script, Learner, Done | None, str], Awaitable[object]]) -> None:
    """Hold middleware to what it promises; ``run`` does one run of an agent with it and returns the answer."""
    script, judged = Script(LOOKS), list[tuple[str, str, tuple[Step, ...], int]]()

    async def judge(task: Task, attempt: Attempt[Any]) -> Evaluation:
        judged.append((task.prompt, attempt.output, attempt.steps, attempt.usage.tokens))
        return Evaluation(0.0, rationale="it did not count")

    store = VectorLessonStore(InMemoryVectorStore(HashingEmbedder()))
    learner = Learner(lesson_store=store, evaluator=judge, reflector=lambda task, trials: LESSON)
    assert await run(script, learner, None, "What is in row 3?") == "It is 40."
    [(prompt, output, (step,), tokens)] = judged
    assert (prompt, output, tokens) == ("What is in row 3?", "It is 40.", 30)
    assert (step.thought, step.observation, step.failed) == ("I look at the table.", "row 3 holds 40", False)
    assert all(LESSON not in shown for pair in script.shown for shown in pair)
    script.shown.clear()
    kept: list[tuple[Task, Attempt[Any], Any]] = []
    await run(script, learner, lambda *given: kept.append(given), "What is in row 3?")
    assert len(script.shown) == 2
    for instructions, conversation in script.shown:
        assert OWN in instructions
        assert instructions.count(LESSON) == 1
        assert LESSON not in conversation
    assert len(judged) == 1, "the verdict comes later"
    [(task, attempt, advice)] = kept
    trial = await learner.learn_from(task, attempt, 1.0, advice=advice)
    assert trial.passed
    assert trial.recall is not None
    assert [each.lesson.text for each in trial.recall.offered] == [LESSON]
    script.shown.clear()
    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(run, script, learner, None, f"Question {number}?")
    assert sorted(prompt for prompt, *_ in judged[1:]) == [f"Question {number}?" for number in range(4)]
    assert len(script.shown) == 8
