"""Behaviours 50 to 58: the step after acceptance, by itself."""

import hashlib

import anyio
import pytest
from noting import REPLY, Broken, Counting, Heard, SixFields, TwoMethods

from jeeves_reflexion import ModelTimeoutError, ScriptedModel, Session, Task
from jeeves_reflexion.tasknotes import (
    InMemoryReflectionStore,
    ReflectionConfig,
    ReflectionInput,
    TaskReflector,
    prompt_with,
    task_identity,
)
from jeeves_reflexion.tasknotes import Task as EnsembleTask
from jeeves_reflexion.tasknotes.strategy import failed_reflection

pytestmark = pytest.mark.anyio

TASK = Task("Research AI trends", expected_output="A report")


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture(params=[InMemoryReflectionStore, SixFields])
def any_store(request):
    return request.param()


async def reflect(store, heard, config=None, task=TASK):
    config = ReflectionConfig(strategy=Counting()) if config is None else config
    reflector = TaskReflector(store)
    return await reflector.reflect(task, "the output", config=config, session=Session(listener=heard))


async def kept(store, task=TASK):
    return (await TaskReflector(store).recall(task, Session())).reflection


async def test_50_to_53_a_reflection_is_stored_counted_and_announced(any_store, heard):
    await reflect(any_store, heard)
    (event,) = heard.reflected
    assert (event.task_description, event.is_first_reflection) == ("Research AI trends", True)
    assert event.reflection == await kept(any_store)
    found = any_store.retrieve(task_identity(TASK))
    assert (found if isinstance(any_store, TwoMethods) else await found) is not None
    for _ in range(2):
        await reflect(any_store, heard)
    assert [event.is_first_reflection for event in heard.reflected] == [True, False, False]
    assert [event.reflection.run_count for event in heard.reflected] == [1, 2, 3]
    assert (await kept(any_store)).run_count == 3


async def test_54_55_without_a_config_or_a_store_nothing_happens(heard):
    store = InMemoryReflectionStore()
    reflector = TaskReflector(store)
    assert await reflector.reflect(TASK, "out", config=None, session=Session(listener=heard)) is None
    assert (await kept(store), heard) == (None, [])
    assert await reflect(None, heard) is None
    assert heard == []


def test_56_one_description_is_one_identity():
    other = Task("Research AI trends", expected_output="Something else", id="another", kind="research")
    assert task_identity(TASK) == task_identity(other) == task_identity(EnsembleTask("Research AI trends"))
    assert task_identity(TASK) == hashlib.sha256(b"Research AI trends").hexdigest()


def test_56_a_template_is_one_task_whatever_fills_it():
    task = EnsembleTask("Research {topic} trends")
    bound = [task.bound({"topic": topic}) for topic in ("AI", "food")]
    assert [each.prompt for each in bound] == ["Research AI trends", "Research food trends"]
    assert {task_identity(each) for each in bound} == {task.identity}


def test_57_other_descriptions_are_other_identities():
    assert task_identity("Research AI trends") != task_identity("Research AI trends.")


async def test_58_a_model_that_fails_leaves_a_record_that_says_so(heard):
    store = InMemoryReflectionStore()
    config = ReflectionConfig(model=ScriptedModel([ModelTimeoutError("no answer")]))
    await reflect(store, heard, config)
    found = await kept(store)
    assert "Reflection could not be completed" in found.observations[0]
    assert "LLM call failed" in found.observations[0]
    assert (found.complete, found.run_count, heard.reflected) == (False, 1, [])
    assert len(heard.warnings) == 1


class Failing:
    def __init__(self, answer):
        self.answer = answer

    def reflect(self, given):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


FAILING = {
    "raises": ReflectionConfig(strategy=Failing(RuntimeError("no idea"))),
    "returns nonsense": ReflectionConfig(strategy=Failing("no reflection")),
    "returns nothing": ReflectionConfig(strategy=Failing(None)),
    "unreadable": ReflectionConfig(model=ScriptedModel(lambda _: "I can't.")),
    "not to be asked": ReflectionConfig(model=ScriptedModel([])),
}


async def test_a_failure_never_takes_the_place_of_a_good_record(any_store, heard):
    await reflect(any_store, heard)
    good = await kept(any_store)
    for number, config in enumerate(FAILING.values(), 1):
        stored = await reflect(any_store, heard, config)
        assert (await kept(any_store), stored) == (good, None)
        assert (len(heard.reflected), len(heard.warnings)) == (1, number)


async def test_a_good_record_takes_the_place_of_a_failure_and_counts_as_the_first(any_store, heard):
    await reflect(any_store, heard, ReflectionConfig(strategy=Failing(RuntimeError("no"))))
    await reflect(any_store, heard, ReflectionConfig(model=ScriptedModel([REPLY])))
    (event,) = heard.reflected
    assert event.is_first_reflection
    found = await kept(any_store)
    assert (found.refined_description, found.run_count) == ("Research three trends in AI.", 1)


async def test_a_store_of_two_methods_is_never_given_a_failure(heard):
    for number, config in enumerate(FAILING.values(), 1):
        store = TwoMethods()
        assert (await reflect(store, heard, config), store.kept, len(heard.warnings)) == (None, {}, number)


async def test_what_was_stored_of_a_failure_in_six_fields_is_no_advice(heard):
    store = SixFields()
    failed = failed_reflection(ReflectionInput(TASK, "out"), "LLM call failed")
    store.store(task_identity(TASK), failed)
    found = store.retrieve(task_identity(TASK))
    assert (found.complete, prompt_with(TASK, found)) == (False, prompt_with(TASK, None))
    assert await kept(store) is None
    strategy = Counting()
    await reflect(store, heard, ReflectionConfig(strategy=strategy))
    assert strategy.given[0].prior_reflection is None
    assert (heard.reflected[0].is_first_reflection, (await kept(store)).run_count) == (True, 1)


@pytest.mark.parametrize("order", ["ggff", "fgfg"])
async def test_the_count_is_that_of_the_reflections_in_whatever_order_some_fail(any_store, heard, order):
    good, bad = Counting(), FAILING["raises"]
    for each in order:
        await reflect(any_store, heard, ReflectionConfig(strategy=good) if each == "g" else bad)
    found = await kept(any_store)
    assert (found.complete, found.run_count) == (True, 2)
    assert [event.is_first_reflection for event in heard.reflected] == [True, False]
    assert [given.prior_reflection is None for given in good.given] == [True, False]


async def test_runs_after_a_failure_are_runs_without_notes(heard):
    store = InMemoryReflectionStore()
    await reflect(store, heard, FAILING["raises"])
    reflector = TaskReflector(store)
    notes = await reflector.recall(TASK, Session())
    await reflector.score(notes, 0.5, Session())
    await reflect(store, heard)
    history = await store.history(task_identity(TASK))
    assert (notes.version, history.baseline, history.failed) == (0, (0.5,), None)
    assert [version.number for version in history.versions] == [1]


@pytest.mark.parametrize("store", [Broken(), Broken(reads=True)])
async def test_a_store_that_fails_costs_a_warning(store, heard, caplog):
    assert await reflect(store, heard) is None
    assert heard.reflected == []
    (problem,) = heard.warnings
    assert "OSError" in problem
    assert "hunter2secret" not in problem + caplog.text


async def test_a_store_that_cannot_be_read_gives_no_notes_and_a_warning(heard):
    notes = await TaskReflector(Broken()).recall(TASK, Session(listener=heard))
    assert notes.reflection is None
    assert len(heard.warnings) == 1


async def test_a_strategy_that_hangs_is_left(heard, monkeypatch):
    class Hanging:
        async def reflect(self, given):
            await anyio.sleep_forever()

    store = InMemoryReflectionStore()
    monkeypatch.setattr("jeeves_reflexion.tasknotes.reflector.REFLECTION_SECONDS", 0.05)
    reflector = TaskReflector(store)
    config = ReflectionConfig(strategy=Hanging())
    stored = await reflector.reflect(TASK, "out", config=config, session=Session(listener=heard))
    assert "no answer within" in stored.failure


async def test_secrets_reach_neither_store_nor_event(any_store, heard):
    secret = "sk-proj-" + "a1B2c3D4" * 4
    reply = REPLY.replace("It had no sources.", f"It printed {secret}.").replace(
        "three trends", f"three {secret}"
    )
    task = Task(f"Use api_key={secret} to research")
    await reflect(any_store, heard, ReflectionConfig(model=ScriptedModel([reply])), task)
    found = await kept(any_store, task)
    assert "REDACTED" in found.refined_description
    assert secret not in repr(found)
    if not isinstance(any_store, TwoMethods):
        assert secret not in repr(await any_store.history(task_identity(task)))


async def test_the_strategy_sees_no_gold(heard):
    strategy = Counting()
    task = Task("Name the moon", reference="Titan")
    await reflect(InMemoryReflectionStore(), heard, ReflectionConfig(strategy=strategy), task)
    assert strategy.given[0].task.reference is None


async def test_many_reflections_at_once_lose_no_count(heard):
    store = InMemoryReflectionStore()
    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(reflect, store, heard)
    assert (await kept(store)).run_count == 12
    assert [event.is_first_reflection for event in heard.reflected].count(True) == 1
    assert sorted(event.reflection.run_count for event in heard.reflected) == list(range(1, 13))


async def test_what_was_taken_back_is_neither_taken_again_nor_announced(heard):
    store = InMemoryReflectionStore()
    config = ReflectionConfig(model=ScriptedModel(lambda _: REPLY))
    await reflect(store, heard, config)
    await store.rollback(task_identity(TASK), to=0)
    assert (await reflect(store, heard, config), len(heard.reflected)) == (None, 1)
    assert "not used" in heard.warnings[-1]
    assert await kept(store) is None
