"""The budget of a run: what ends it, what is still judged, and that a call that hangs is cancelled."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_parts import BLOCK, Grader, Player, Writer, heard
from tables import table

from jeeves_reflexion import (
    Attempt,
    Budget,
    BudgetExceededError,
    Completion,
    ConfigurationError,
    Evaluation,
    LoopOptions,
    Reflection,
    Reflexion,
    ScriptedModel,
    Spend,
    TransientMemory,
    Usage,
    VectorLessonStore,
)
from jeeves_reflexion.models.ask import ask
from vectorstores import HashingEmbedder, InMemoryVectorStore

pytestmark = pytest.mark.anyio


def limited(budget: Budget, agent=None, grader=None, **settings) -> Reflexion:
    settings.setdefault("reflector", Writer())
    options = LoopOptions(budget=budget)
    return Reflexion(agent or Player("a"), evaluator=grader or Grader(0.0), options=options, **settings)


class Clock:
    """The clock of sessions. Its time passes when a test says so: no test depends on how long its own steps take."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def run(self, loop: Reflexion, kind: str):
        """Run a task whose time is over soon after an event of ``kind``."""

        def listen(event) -> None:
            if event.kind == f"reflexion.{kind}":
                self.now += loop.options.budget.max_seconds - 0.05

        return await loop.run("x", session=loop.session(listener=listen))


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("jeeves_reflexion.session.time", clock)
    return clock


@table("name", ["max_tokens", "max_cost_usd", "max_seconds"])
@table("value", [0, -1, float("nan"), "10", True, np.int64(0)])
def test_a_limit_out_of_range_is_named(name, value):
    with pytest.raises(ConfigurationError, match=rf"Budget\.{name}"):
        Budget(**{name: value})


@table("number", [np.int64(9), np.int32(9), np.float32(9)])
def test_a_limit_may_be_a_number_of_numpy(number):
    budget = Budget(max_tokens=number, max_cost_usd=number, max_seconds=number)
    assert budget == Budget(9, 9, 9)
    assert type(budget.max_seconds) in {int, float}


@table("budget", [Budget(max_tokens=100), Budget(max_cost_usd=1.0)])
async def test_the_call_that_crosses_a_limit_is_the_last(budget):
    agent = Player(Attempt("a", usage=Usage(1, 60, 0, 0.6)))
    result = await limited(budget, agent, max_attempts=9).run("x")
    assert (result.stop_reason, len(agent.tasks)) == ("budget", 2)
    assert "are used" in result.detail
    assert result.trials[0].reflection is not None
    assert result.trials[1].reflection is None


async def test_what_was_paid_for_is_judged_by_an_evaluator_that_costs_nothing():
    agent = Player(Attempt("a", usage=Usage(1, 200)))
    result = await limited(Budget(max_tokens=100), agent, Grader(1.0)).run("x")
    assert (result.stop_reason, result.score) == ("passed", 1.0)


async def test_a_model_is_not_asked_to_judge_beyond_the_budget():
    model = ScriptedModel(["score: 1.0"])
    agent = Player(Attempt("a", usage=Usage(1, 200)))
    session, ear = heard(loop := limited(Budget(max_tokens=100), agent, model))
    result = await loop.run("x", session=session)
    assert model.calls == []
    assert (result.stop_reason, result.score, len(result.trials)) == ("budget", None, 1)
    assert ear.kinds[-2:] == ["lesson_dropped", "run_finished"]


async def test_calls_of_models_are_metered_wherever_they_are_made():
    model = ScriptedModel(lambda messages: Completion("a", usage=Usage(1, 40, 10, 0.0)))

    async def agent(prompt: str) -> Attempt:
        usage = Usage()
        for _ in range(10):
            usage += (await ask(model, [])).usage
        return Attempt("a", usage=usage)

    result = await limited(Budget(max_tokens=200), agent).run("x")
    assert (result.stop_reason, len(model.calls)) == ("budget", 4)
    assert result.usage["agent"].tokens == 200


async def test_what_was_metered_is_not_charged_again_when_it_is_reported():
    model = ScriptedModel(lambda messages: Completion("a", usage=Usage(1, 40, 10, 0.1)))

    async def agent(prompt: str) -> Attempt:
        usage = (await ask(model, [])).usage
        return Attempt("a", usage=usage + Usage(1, 7, 0, 0.5))  # and a call that the framework did not see

    result = await limited(Budget(max_tokens=1000), agent, Grader(1.0)).run("x")
    assert result.usage["agent"] == Usage(2, 47, 10, 0.6)


async def test_a_refused_lesson_is_not_asked_for_again_beyond_the_budget():
    asked: list[str | None] = []

    async def reflect(task, trials, problem=None):
        asked.append(problem)
        return Reflection("two\nlines", usage=Usage(1, 200))

    result = await limited(Budget(max_tokens=100), reflector=reflect).run("x")
    assert (asked, result.stop_reason) == ([None], "budget")


async def test_no_attempt_is_begun_beyond_the_budget():
    agent = Player(Attempt("a", usage=Usage(1, 200)))
    options = LoopOptions(budget=Budget(max_tokens=100), learn=False)
    result = await Reflexion(agent, evaluator=Grader(0.5), reflector=Writer(), options=options).run("x")
    assert (result.stop_reason, result.score, len(result.trials)) == ("budget", 0.5, 1)


async def hang_for_ever(argument):
    await anyio.sleep_forever()


async def reflect_for_ever(task, trials):
    await anyio.sleep_forever()


HANGS = {
    "recall": "attempt_started",
    "memory": "attempt_started",
    "agent": "attempt_started",
    "agent in a thread": "attempt_started",
    "evaluator": "attempt_finished",
    "evaluator in a thread": "attempt_finished",
    "reflector": "evaluated",
}


@table("place, before", HANGS.items())
async def test_the_deadline_cancels_a_call_that_hangs(place, before, clock):
    over, ended = threading.Event(), []

    def hang_in_a_thread(argument):
        ended.append(over.wait(30))

    hang = hang_in_a_thread if place.endswith("thread") else hang_for_ever
    lessons = VectorLessonStore(InMemoryVectorStore(HashingEmbedder(), namespace="tests"))
    if place == "recall":
        lessons.recall = lambda task, **_: anyio.sleep_forever()
    memory = {"lesson_store": lessons} if place == "recall" else {"memory": TransientMemory()}
    if place == "memory":
        memory["memory"].read = lambda name: anyio.sleep_forever()
    loop = limited(
        Budget(max_seconds=60),
        hang if place.startswith("agent") else lambda prompt: "a",
        hang if place.startswith("evaluator") else lambda output: 0.0,
        reflector=reflect_for_ever if place == "reflector" else Writer(),
        **memory,
    )
    result = await clock.run(loop, before)
    assert not ended, "the run waited for the thread"
    over.set()
    assert result.stop_reason == "budget"
    assert "60 s of the run are over" in result.detail
    if place not in {"recall", "memory"}:
        assert await loop.memory.read(BLOCK) == ""


async def test_the_clock_of_a_stream_starts_with_its_block(clock):
    stream = limited(Budget(max_seconds=5), grader=Grader(1.0)).stream("x")
    clock.now += 6
    async with stream as events:
        assert [event.kind async for event in events]
    assert events.result.passed


async def test_an_attempt_cut_by_the_deadline_is_neither_judged_nor_learned_from(clock):
    grader, writer = Grader(1.0), Writer()
    loop = limited(Budget(max_seconds=60), hang_for_ever, grader, reflector=writer)
    result = await clock.run(loop, "attempt_started")
    assert result.trials[0].attempt.interrupted == "budget"
    assert (grader.attempts, writer.seen, result.passed) == ([], [], False)


@table("score", [1.0, None])
async def test_what_a_run_recalled_is_noted_though_its_time_is_up(score, clock):
    store = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
    lessons = VectorLessonStore(store)

    async def agent(prompt: str) -> str:
        if score is None:
            await anyio.sleep_forever()
        return "a"

    def evaluator(output: str) -> float:
        clock.now += 60
        return 1.0

    loop = limited(Budget(max_seconds=60), agent, evaluator, lesson_store=lessons)
    result = await clock.run(loop, "lessons_recalled" if score is None else "never")
    (trial,) = result.trials
    assert (trial.evaluation.score, trial.problems) == (score, ())
    (noted,) = await VectorLessonStore(store).ledger.run(result.run_id)
    assert await lessons.outcome(noted.recall_id, Evaluation(0.0)) is (score is None)


async def test_a_budget_used_up_before_the_first_attempt_runs_nothing():
    agent = Player("a")
    loop = limited(Budget(max_tokens=10), agent)
    session = loop.session()
    session.spend.charge("agent", Usage(1, 10))
    result = await loop.run("x", session=session)
    assert (result.stop_reason, agent.tasks) == ("budget", [])


async def test_each_run_has_the_budget_for_itself():
    agent = Player(Attempt("a", usage=Usage(1, 60)))
    loop = limited(Budget(max_tokens=100), agent, Grader(1.0))
    assert [(await loop.run("x")).stop_reason for _ in range(3)] == ["passed"] * 3


@table("budget", [Budget(max_tokens=10), Budget(max_cost_usd=10)])
async def test_a_limit_on_what_is_not_reported_is_an_error_and_not_free(budget):
    model = ScriptedModel([Completion("a"), Completion("score: 0.0")])
    with pytest.raises(ConfigurationError, match="budget needs"):
        await Reflexion(model=model, options=LoopOptions(budget=budget)).run("x")
    assert len(model.calls) == 1


def test_a_spend_names_its_limit():
    spend = Spend(Budget(max_tokens=10))
    spend.check()
    spend.charge("reflector", Usage(1, 4, 6))
    with pytest.raises(BudgetExceededError, match="10 of 10 tokens") as caught:
        spend.check()
    assert caught.value.limit == "tokens"


usages = st.builds(
    Usage,
    st.integers(0, 9),
    st.integers(0, 99),
    st.integers(0, 99),
    st.none() | st.integers(0, 40).map(lambda quarters: quarters / 4),
    st.integers(0, 9),
)


@given(usages, usages)
def test_usage_beyond_takes_away_what_was_added(first, second):
    both = first + second
    if both.cost_usd is None:
        assert both.beyond(first).tokens == second.tokens
    else:
        assert both.beyond(first) == second


@given(usages)
def test_unknown_cost_is_never_free(usage):
    assert (usage + Usage(calls=1, cost_usd=None)).cost_usd is None
    beyond = usage.beyond(Usage())
    if usage.cost_usd is None and (usage.calls or usage.tokens):
        assert beyond.cost_usd is None
    assert usage.beyond(usage).cost_usd == 0.0


@pytest.mark.parametrize("place", ["store", "memory"])
async def test_a_store_that_hangs_does_not_outlive_the_run(place, monkeypatch, clock):
    monkeypatch.setattr("jeeves_reflexion.loop.reflexion.STORE_GRACE", 0.1)

    class Stuck(TransientMemory):
        async def append(self, name, line):
            await anyio.sleep_forever()

    class StuckStore(VectorLessonStore):
        async def record(self, task, reflection, *, provenance):
            await anyio.sleep_forever()

    store = StuckStore(InMemoryVectorStore(HashingEmbedder(), namespace="t"))
    where = {"memory": Stuck()} if place == "memory" else {"lesson_store": store}
    result = await clock.run(limited(Budget(max_seconds=60), **where), "lesson_produced")
    assert result.trials[0].evaluation.score == 0.0
    assert result.trials[0].problems == ("the lesson was not stored: the 60 s of the run are over",)
    assert result.stop_reason == "budget"
    assert not result.lessons
