"""Nothing in reflection fails a task (seed 000): whatever a store, a strategy or a model does costs a warning."""

import asyncio
import time
from itertools import cycle, product
from unittest.mock import MagicMock

import anyio
import pytest
from noting import Counting, Heard, TwoMethods, noted
from tables import table

from jeeves_reflexion import Attempt, Budget, ConfigurationError, ModelAuthError, ScriptedModel, Session
from jeeves_reflexion.session import Spend
from jeeves_reflexion.tasknotes import (
    Ensemble,
    InMemoryReflectionStore,
    Phase,
    ReflectionConfig,
    ReviewDecision,
    Task,
    TaskReflection,
    prompt_with,
)
from jeeves_reflexion.types import Task as CoreTask

pytestmark = pytest.mark.anyio


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("jeeves_reflexion.tasknotes.reflector.STORE_SECONDS", 0.05)
    monkeypatch.setattr("jeeves_reflexion.tasknotes.reflector.REFLECTION_SECONDS", 0.05)


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("it can't be said")


def raising(error):
    def call(*_):
        raise error

    return call


def returning(value):
    return lambda *_: value


async def hanging(*_):
    await anyio.sleep_forever()


def hanging_in_a_thread(*_):
    time.sleep(0.3)


async def cancelled(*_):
    raise asyncio.CancelledError


async def cancelled_within(*_):
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


WRONG = {
    "raises": raising(RuntimeError("no")),
    "raises what ends runs": raising(ConfigurationError("no key")),
    "raises of a model": raising(ModelAuthError("no key")),
    "raises a time-out": raising(TimeoutError()),
    "raises a group": raising(ExceptionGroup("two", [OSError("one"), OSError("two")])),
    "raises what can't be said": raising(UnspeakableError()),
    "raises odd text": raising(RuntimeError("\ud800 {} %s %d \0")),
    "raises StopIteration": raising(StopIteration()),
    "hangs": hanging,
    "hangs in a thread": hanging_in_a_thread,
    "returns a text": returning("advice"),
    "returns a dict": returning({"refined_description": "advice"}),
    "returns a list": returning([noted("advice")]),
    "returns a mock": returning(MagicMock()),
    "returns the class": returning(TaskReflection),
}
LEAKS = {"leaks a cancellation": cancelled, "is cancelled within": cancelled_within}


async def run(config, store, runs=2):
    heard = Heard()
    task = Task("Write a report.", reflect=config, evaluator=lambda output: 1.0)
    ensemble = Ensemble(agent=lambda prompt: "done", reflection_store=store, listeners=[heard])
    outcomes = [(await ensemble.run(task, Task("Another."))).outcomes for _ in range(runs)]
    return outcomes, heard


def strategy(call):
    class Wrong:
        reflect = staticmethod(call)

    return ReflectionConfig(strategy=Wrong())


def assert_told(outcomes, heard):
    for first, second in outcomes:
        assert (first.accepted, first.output, second.accepted) == (True, "done", True)
        assert first.problems
        assert set(first.problems) <= set(heard.warnings)
        assert first.reflection is None or not first.reflection.complete
    assert heard.reflected == []


HANGING = ("hangs", "hangs in a thread")
AT_ONCE = [*(name for name in WRONG if name not in HANGING), "returns nothing"]


@table(("wrong", "kind"), zip(AT_ONCE, cycle([InMemoryReflectionStore, TwoMethods])))
async def test_a_strategy_does_not(wrong, kind):
    assert_told(*await run(strategy(WRONG.get(wrong, returning(None))), kind()))


@table("wrong", HANGING)
@pytest.mark.usefixtures("impatient")
async def test_a_strategy_that_hangs_does_not(wrong):
    assert_told(*await run(strategy(WRONG[wrong]), TwoMethods()))


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_does_not(leak):
    assert_told(*await run(strategy(LEAKS[leak]), InMemoryReflectionStore()))
    store = TwoMethods()
    store.store = LEAKS[leak]
    assert_told(*await run(ReflectionConfig(strategy=Counting()), store, runs=1))


def reading(wrong):
    store = TwoMethods()
    store.retrieve = WRONG[wrong]
    return store


def writing(wrong):
    store = TwoMethods()
    store.store = WRONG[wrong]
    return store


READS = ["raises", "raises what ends runs", "returns a text", "returns a mock", "returns the class"]
WRITES = ["raises a group", "raises odd text", "raises StopIteration"]


@table(("make", "wrong"), [*((reading, each) for each in READS), *((writing, each) for each in WRITES)])
async def test_a_store_does_not(make, wrong):
    assert_told(*await run(ReflectionConfig(strategy=Counting()), make(wrong)))


@table(("make", "wrong"), [(reading, "hangs"), (writing, "hangs in a thread")])
@pytest.mark.usefixtures("impatient")
async def test_a_store_that_hangs_does_not(make, wrong):
    assert_told(*await run(ReflectionConfig(strategy=Counting()), make(wrong)))


METHODS = ("history", "commit", "score")


@table(
    ("method", "wrong"),
    product(METHODS, ["raises what ends runs", "raises what can't be said", "returns a mock"]),
)
async def test_a_store_of_versions_does_not(method, wrong):
    await told_by_versions(method, wrong)


@table("method", METHODS)
@pytest.mark.usefixtures("impatient")
async def test_a_store_of_versions_that_hangs_does_not(method):
    await told_by_versions(method, "hangs")


async def told_by_versions(method, wrong):
    store = InMemoryReflectionStore()
    setattr(store, method, WRONG[wrong])
    outcomes, heard = await run(ReflectionConfig(strategy=Counting()), store)
    assert all(outcome.accepted for pair in outcomes for outcome in pair)
    assert heard.warnings


@pytest.mark.parametrize("agent", [lambda prompt: "done", None])
async def test_no_model_to_reflect_with_costs_a_warning_once_the_task_is_done(agent):
    heard = Heard()
    store = InMemoryReflectionStore()
    task = Task("Write.", reflect=True, agent=agent or ScriptedModel(["done"]))
    await store.store(task.identity, noted("Earlier advice."))
    (outcome,) = (await Ensemble(reflection_store=store, listeners=[heard]).run(task)).outcomes
    assert (outcome.accepted, outcome.output) == (True, "done")
    assert outcome.notes.refined_description == "Earlier advice."
    assert outcome.problems
    assert (await store.retrieve(task.identity)).refined_description == "Earlier advice."
    if agent is not None:
        assert "no model" in heard.warnings[0]


async def test_no_model_in_a_phase_neither():
    accept = returning(ReviewDecision.accept())
    task = Task("Write.", reflect=True)
    result = await Ensemble(agent=lambda prompt: "done").run(Phase("draft", [task], accept))
    assert result.outcomes[0].attempt.output == "done"


@pytest.mark.usefixtures("impatient")
async def test_a_time_out_of_its_own_is_not_said_to_be_ours():
    outcomes, _ = await run(strategy(raising(TimeoutError("the socket was slow"))), InMemoryReflectionStore())
    assert "the socket was slow" in outcomes[0][0].problems[0]
    assert "no answer within" not in outcomes[0][0].problems[0]
    outcomes, _ = await run(strategy(hanging), InMemoryReflectionStore())
    assert "no answer within 0.05 s" in outcomes[0][0].problems[0]


async def test_notes_are_filled_with_inputs_that_are_no_texts():
    store = InMemoryReflectionStore()
    task = Task("Write {n} lines.", reflect=ReflectionConfig(strategy=Counting()))
    ensemble = Ensemble(agent=lambda prompt: "done", reflection_store=store)
    for _ in range(2):
        assert (await ensemble.run(task, inputs={"n": 3})).accepted
    notes = noted("Write {n} short lines.")
    assert "Write 3 short lines." in prompt_with(CoreTask("Write 3 lines."), notes, inputs={"n": 3})


async def test_what_a_strategy_returns_is_not_charged_to_the_run():
    session = Session(spend=Spend(Budget(max_tokens=1000)))
    task = Task("Write.", reflect=strategy(returning(MagicMock())), agent=lambda prompt: Attempt("done"))
    model = ScriptedModel(["done too"])
    assert (await Ensemble(model).run(task, "Another.", session=session)).accepted
    assert session.spend.of("reflector").calls == 0


async def test_the_callers_own_cancellation_is_one():
    with anyio.move_on_after(0.1) as scope:
        await run(strategy(hanging), InMemoryReflectionStore(), runs=1)
    assert scope.cancelled_caught


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_by_asyncio_is_the_callers_own_too():
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run(strategy(hanging), InMemoryReflectionStore(), runs=1), 0.1)
    running = asyncio.ensure_future(run(strategy(hanging), InMemoryReflectionStore(), runs=1))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_ctrl_c_in_a_strategy_ends_the_run_as_itself():
    task = Task("Write.", reflect=strategy(raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        Ensemble(agent=lambda prompt: "done").run_sync(task)
