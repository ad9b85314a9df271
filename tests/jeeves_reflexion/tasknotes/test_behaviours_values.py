"""Behaviours 1 to 39 of the existing implementation: stores, records, configuration; numbered as in its tests."""

from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest
from noting import Counting, noted

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


def test_every_store_is_a_reflection_store(store):
    assert isinstance(store, ReflectionStore)


async def test_01_an_unknown_key_has_no_reflection(store):
    assert await store.retrieve("unknown") is None


async def test_02_what_is_stored_is_retrieved_equal(store):
    await store.store("key", noted())
    found = await store.retrieve("key")
    assert found is not None
    for name in (
        "refined_description",
        "refined_expected_output",
        "observations",
        "suggestions",
        "run_count",
    ):
        assert getattr(found, name) == getattr(noted(), name)
    assert datetime.now(UTC) - found.reflected_at < timedelta(minutes=1)


async def test_03_the_second_reflection_takes_the_place_of_the_first(store):
    await store.store("key", noted("first"))
    await store.store("key", noted("second"))
    assert (await store.retrieve("key")).refined_description == "second"


async def test_04_keys_are_independent(store):
    await store.store("a", noted("for a"))
    await store.store("b", noted("for b"))
    assert (await store.retrieve("a")).refined_description == "for a"
    assert (await store.retrieve("b")).refined_description == "for b"


async def test_05_size_counts_distinct_keys():
    store = InMemoryReflectionStore()
    for key in ("a", "b", "a"):
        await store.store(key, noted(key))
    assert store.size == len(store) == 2


async def test_06_clear_forgets_everything():
    store = InMemoryReflectionStore()
    await store.store("a", noted())
    store.clear()
    assert (store.size, await store.retrieve("a")) == (0, None)


@pytest.mark.parametrize("key", [pytest.param(None, id="07"), pytest.param("  ", id="08")])
async def test_07_08_no_key_or_a_blank_one_is_refused_by_name(store, key):
    with pytest.raises(ConfigurationError, match="task_identity"):
        await store.store(key, noted())


async def test_09_no_reflection_is_refused_by_name(store):
    with pytest.raises(ConfigurationError, match="reflection"):
        await store.store("key", None)


@pytest.mark.parametrize("key", [pytest.param(None, id="10"), pytest.param("", id="11")])
async def test_10_11_nothing_is_retrieved_without_a_key(store, key):
    with pytest.raises(ConfigurationError, match="task_identity"):
        await store.retrieve(key)


async def test_12_stores_at_once_from_threads_lose_nothing():
    store = InMemoryReflectionStore()
    async with anyio.create_task_group() as group:
        for number in range(20):
            work = partial(anyio.run, store.store, f"key{number}", noted())
            group.start_soon(anyio.to_thread.run_sync, work)
    assert store.size == 20


async def test_12_and_on_one_key_no_count_is_lost(store):
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(store.commit, "key", noted(f"text {number}"))
    assert (await store.retrieve("key")).run_count == 8


def test_13_a_first_reflection_counts_one():
    assert noted().run_count == 1


def test_14_a_first_reflection_is_of_now():
    before = datetime.now(UTC)
    assert before <= noted().reflected_at <= datetime.now(UTC)


def test_15_a_first_reflection_keeps_its_fields():
    made = TaskReflection.of_first_run("d", "e", ["o"], ["s"])
    assert (made.refined_description, made.refined_expected_output) == ("d", "e")
    assert (made.observations, made.suggestions) == (("o",), ("s",))


def test_16_17_each_reflection_counts_one_more():
    first = noted()
    second = TaskReflection.from_prior(first, "d", "e")
    third = TaskReflection.from_prior(second, "d", "e")
    assert [each.run_count for each in (first, second, third)] == [1, 2, 3]


def test_18_a_reflection_is_not_earlier_than_its_prior():
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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("refined_description", id="20"),
        pytest.param("refined_expected_output", id="21"),
        pytest.param("observations", id="22"),
        pytest.param("suggestions", id="23"),
        pytest.param("reflected_at", id="24"),
    ],
)
def test_20_24_none_is_refused_by_name(name):
    assert TaskReflection(**GOOD).run_count == 1
    with pytest.raises(ConfigurationError, match=name):
        TaskReflection(**{**GOOD, name: None})


@pytest.mark.parametrize("count", [pytest.param(0, id="25"), pytest.param(-1, id="26"), True, 1.5])
def test_25_26_a_count_below_one_is_refused(count):
    with pytest.raises(ConfigurationError, match="run_count"):
        TaskReflection(**{**GOOD, "run_count": count})


@pytest.mark.parametrize(("name", "value"), [("observations", "one text"), ("suggestions", [1])])
def test_a_list_holds_texts_alone(name, value):
    with pytest.raises(ConfigurationError, match=name):
        TaskReflection(**{**GOOD, name: value})


def test_a_time_without_zone_is_refused():
    with pytest.raises(ConfigurationError, match="time zone"):
        TaskReflection(**{**GOOD, "reflected_at": datetime(2026, 1, 1)})  # noqa: DTZ001


def test_27_a_prior_is_required():
    with pytest.raises(ConfigurationError, match="prior"):
        TaskReflection.from_prior(None, "d", "e")


def test_28_empty_lists_are_fine():
    made = TaskReflection.of_first_run("d", "e")
    assert (made.observations, made.suggestions) == ((), ())


MODEL = ScriptedModel(["never asked"])


def test_29_the_default_has_neither_model_nor_strategy():
    config = ReflectionConfig()
    assert (config.model, config.strategy) == (None, None)


def test_30_31_32_model_and_strategy_are_independent():
    strategy = Counting()
    assert ReflectionConfig(model=MODEL).model is MODEL
    assert ReflectionConfig(strategy=strategy).strategy is strategy
    both = ReflectionConfig(model=MODEL, strategy=strategy)
    assert (both.model, both.strategy) == (MODEL, strategy)


@pytest.mark.parametrize("name", [pytest.param("model", id="33"), pytest.param("strategy", id="34")])
@pytest.mark.parametrize("value", [None, "gpt"])
def test_33_34_none_is_no_model_and_no_strategy(name, value):
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


@pytest.mark.parametrize("value", [None, "yes", 1])
def test_no_config_of_a_phase_is_refused(value):
    with pytest.raises(ConfigurationError, match="reflect"):
        Phase("draft", [Task("Do.")], reflect=value)


def test_35_true_is_the_default_config():
    assert Task("Do.", reflect=True).reflection is DEFAULT_REFLECTION


def test_36_false_is_off():
    assert Task("Do.", reflect=False).reflection is None


def test_37_a_config_is_kept():
    config = ReflectionConfig(model=MODEL)
    assert Task("Do.", reflect=config).reflection is config


@pytest.mark.parametrize("value", [pytest.param(None, id="38"), "yes", 1])
def test_38_no_config_is_refused(value):
    with pytest.raises(ConfigurationError, match="reflect"):
        Task("Do.", reflect=value)


def test_39_the_default_is_off():
    assert Task("Do.").reflection is None
