"""Behaviours 1 to 39 of the existing implementation: stores, records, configuration; numbered as in its tests."""

from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest
from noting import Counting, noted
from tables import table

from jeeves_reflexion import ConfigurationError, ScriptedModel
from jeeves_reflexion.tasknotes import (
    DEFAULT_REFLECTION,
    InMemoryReflectionStore,
    Phase,
    ReflectionConfig,
    ReflectionStore,
    Task,
    TaskReflection,
)

pytestmark = pytest.mark.anyio


async def test_01_to_04_what_is_stored_under_a_key_is_retrieved_and_replaced(store):
    assert isinstance(store, ReflectionStore)
    assert await store.retrieve("unknown") is None
    given = noted("first")
    await store.store("a", given)
    assert await store.retrieve("a") == given
    await store.store("a", noted("second"))
    await store.store("b", noted("for b"))
    assert (await store.retrieve("a")).refined_description == "second"
    assert (await store.retrieve("b")).refined_description == "for b"


async def test_05_size_counts_distinct_keys():
    store = InMemoryReflectionStore()
    for key in ("a", "b", "a"):
        await store.store(key, noted(key))
    assert store.size == 2


async def test_06_clear_forgets_everything():
    store = InMemoryReflectionStore()
    await store.store("a", noted())
    store.clear()
    assert (store.size, await store.retrieve("a")) == (0, None)


async def test_07_to_11_no_key_and_no_reflection_are_refused_by_name():
    store = InMemoryReflectionStore()
    for key in (None, "", "  "):
        with pytest.raises(ConfigurationError, match="task_identity"):
            await store.store(key, noted())
        with pytest.raises(ConfigurationError, match="task_identity"):
            await store.retrieve(key)
    with pytest.raises(ConfigurationError, match="reflection"):
        await store.store("key", None)


async def test_12_stores_at_once_from_threads_lose_nothing():
    store = InMemoryReflectionStore()
    async with anyio.create_task_group() as group:
        for number in range(20):
            work = partial(anyio.run, store.store, f"key{number}", noted())
            group.start_soon(anyio.to_thread.run_sync, work)
    assert store.size == 20


def test_13_to_15_a_first_reflection_is_of_now_counts_one_and_keeps_its_fields():
    before = datetime.now(UTC)
    made = TaskReflection.of_first_run("d", "e", ["o"], ["s"])
    assert before <= made.reflected_at <= datetime.now(UTC)
    assert made.run_count == 1
    assert (made.refined_description, made.refined_expected_output) == ("d", "e")
    assert (made.observations, made.suggestions) == (("o",), ("s",))


def test_16_to_18_each_reflection_counts_one_more_and_is_not_earlier():
    first = noted()
    second = TaskReflection.from_prior(first, "d", "e")
    third = TaskReflection.from_prior(second, "d", "e")
    assert [each.run_count for each in (first, second, third)] == [1, 2, 3]
    late = TaskReflection("d", "e", (), (), datetime.now(UTC) + timedelta(hours=1), 1)
    assert TaskReflection.from_prior(late, "d", "e").reflected_at >= late.reflected_at


def test_19_lists_cannot_be_changed():
    given = ["one"]
    made = TaskReflection.of_first_run("d", "e", given, given)
    given.append("two")
    assert made.observations == made.suggestions == ("one",)
    assert not hasattr(made.observations, "append")


GOOD = {
    "refined_description": "d",
    "refined_expected_output": "e",
    "observations": (),
    "suggestions": (),
    "reflected_at": datetime.now(UTC),
    "run_count": 1,
}


WRONG = {
    "refined_description": [None],
    "refined_expected_output": [None],
    "observations": [None, "one text"],
    "suggestions": [None, [1]],
    "reflected_at": [None, datetime(2026, 1, 1)],  # noqa: DTZ001
    "run_count": [0, -1, True, 1.5],
}


@table("name", WRONG)
def test_20_to_26_what_can_not_be_is_refused_by_name(name):
    assert TaskReflection(**GOOD).run_count == 1
    for value in WRONG[name]:
        with pytest.raises(ConfigurationError, match=name):
            TaskReflection(**{**GOOD, name: value})


def test_27_a_prior_is_required():
    with pytest.raises(ConfigurationError, match="prior"):
        TaskReflection.from_prior(None, "d", "e")


def test_28_empty_lists_are_fine():
    made = TaskReflection.of_first_run("d", "e")
    assert (made.observations, made.suggestions) == ((), ())


MODEL = ScriptedModel(["never asked"])


def test_29_to_34_model_and_strategy_are_independent_and_none_is_neither():
    strategy = Counting()
    assert (ReflectionConfig().model, ReflectionConfig().strategy) == (None, None)
    assert ReflectionConfig(model=MODEL).model is MODEL
    assert ReflectionConfig(strategy=strategy).strategy is strategy
    both = ReflectionConfig(model=MODEL, strategy=strategy)
    assert (both.model, both.strategy) == (MODEL, strategy)
    for name in ("model", "strategy"):
        for value in (None, "gpt", ScriptedModel, Counting):
            with pytest.raises(ConfigurationError, match=name):
                ReflectionConfig(**{name: value})


def test_a_prompt_is_a_text_or_a_file_with_one(tmp_path):
    path = tmp_path / "prompt.md"
    path.write_text("Reflect in German.\n", encoding="utf-8")
    assert ReflectionConfig().prompt is None
    assert ReflectionConfig(prompt="Reflect.").prompt == "Reflect."
    assert ReflectionConfig(prompt=path, model=MODEL).prompt == "Reflect in German."
    (tmp_path / "empty.md").touch()
    for wrong in (None, "", " ", 3, tmp_path / "none.md", tmp_path / "empty.md", tmp_path):
        with pytest.raises(ConfigurationError, match="prompt"):
            ReflectionConfig(prompt=wrong)


def test_35_to_39_a_task_is_reflected_on_where_it_says_so():
    config = ReflectionConfig(model=MODEL)
    assert Task("Do.").reflection is None
    assert Task("Do.", reflect=False).reflection is None
    assert Task("Do.", reflect=True).reflection is DEFAULT_REFLECTION
    assert Task("Do.", reflect=config).reflection is config
    for value in (None, "yes", 1):
        with pytest.raises(ConfigurationError, match="reflect"):
            Task("Do.", reflect=value)
        with pytest.raises(ConfigurationError, match="reflect"):
            Phase("draft", [Task("Do.")], reflect=value)
