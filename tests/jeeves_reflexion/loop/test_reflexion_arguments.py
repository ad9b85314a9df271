"""Arguments that can't work are refused when the loop is made, by name; and what is left out gets its default."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tables import table

from jeeves_reflexion import (
    ConfigurationError,
    FileMemory,
    Judge,
    LessonReflector,
    LoopOptions,
    ReAct,
    Reflexion,
    RewardEvaluator,
    ScriptedModel,
    VectorLessonStore,
)
from vectorstores import HashingEmbedder, InMemoryVectorStore


def model() -> ScriptedModel:
    return ScriptedModel(["a"])


def graded(output: str) -> float:
    return 1.0


def reflected(task, trials) -> str:
    return "look left"


@table(
    ("name", "value"),
    [
        *[("max_attempts", value) for value in (0, -1, 1.5, True, "3")],
        *[("top_k_lessons", value) for value in (0, -1, 2.5, False)],
        *[("threshold", value) for value in (-0.1, 1.1, math.nan, "high", None, True)],
        *[("lessons_block_name", value) for value in ("", "  ", None, 7)],
        *[("evaluator_prompt", value) for value in ("", "  ", Path("no such file"))],
        *[("reflector_prompt", value) for value in ("", "\n")],
        *[("evaluator", value) for value in (7, 3.5, RewardEvaluator)],
        *[("reflector", value) for value in (7, 3.5, LessonReflector)],
        *[("lesson_store", value) for value in (7, "", "memory:", "s3://bucket", "file://host/x")],
        ("memory", "a folder"),
        ("model", 4),
        ("base", 7),
    ],
)
def test_an_argument_out_of_range_is_a_value_error_that_names_it(name, value):
    arguments = {"base": lambda prompt: "a", "model": model(), name: value}
    names = {"evaluator_prompt": "evaluator_prompt|no such file", "base": "agent"}
    with pytest.raises(ValueError, match=names.get(name, name)) as caught:
        Reflexion(**arguments)
    assert isinstance(caught.value, ConfigurationError)


@table("part", ["evaluator", "reflector"])
@table("prompt", ["judge it", Path("judge.md")])
def test_a_prompt_beside_a_callable_is_refused(part, prompt):
    function = {"evaluator": graded, "reflector": reflected}[part]
    with pytest.raises(ValueError, match=f"{part}_prompt goes with a model"):
        Reflexion(model=model(), **{part: function, f"{part}_prompt": prompt})


@table("missing", ["base", "evaluator", "reflector"])
def test_what_has_no_default_without_a_model_is_named(missing):
    parts = {"base": lambda prompt: "a", "evaluator": graded, "reflector": reflected}
    del parts[missing]
    with pytest.raises(ValueError, match=f"{missing} is not given: pass {missing}=, or model="):
        Reflexion(**parts)


def test_a_store_and_a_memory_are_one_too_many(tmp_path):
    store = InMemoryVectorStore(HashingEmbedder(), namespace="tests")
    with pytest.raises(ValueError, match="not both"):
        Reflexion(model=model(), lesson_store=store, memory=FileMemory(tmp_path))


@table("value", [0, True, 1.5])
def test_options_out_of_range_are_named(value):
    with pytest.raises(ValueError, match="lesson_characters"):
        LoopOptions(lesson_characters=value)


def test_a_model_alone_makes_agent_judge_and_reflector():
    loop = Reflexion(model=model())
    assert isinstance(loop.agent, ReAct)
    assert isinstance(loop.evaluator, Judge)
    assert isinstance(loop.reflector, LessonReflector)
    assert (loop.max_attempts, loop.threshold, loop.top_k_lessons) == (3, 0.8, 5)
    assert loop.lessons_block_name == "reflexion_lessons"


def test_evaluator_and_reflector_may_be_other_models_with_prompts_of_their_own(tmp_path):
    cheap, wise = model(), ScriptedModel(["Look left first."])
    judge_prompt = tmp_path / "judge.md"
    judge_prompt.write_text("Be strict.", encoding="utf-8")
    cheap = ScriptedModel(["score: 0.1", "score: 0.9"])
    loop = Reflexion(
        lambda prompt: "a",
        evaluator=cheap,
        reflector=wise,
        evaluator_prompt=judge_prompt,
        reflector_prompt="Be kind.",
    )
    assert loop.run_sync("x").passed
    assert cheap.calls[0].messages[0].content == "Be strict."
    assert wise.calls[0].messages[0].content == "Be kind."


def test_a_vector_store_becomes_a_lesson_store():
    loop = Reflexion(model=model(), lesson_store=InMemoryVectorStore(HashingEmbedder(), namespace="tests"))
    assert isinstance(loop.lessons, VectorLessonStore)


@pytest.mark.parametrize("kind", ["memory", "text", "path"])
def test_any_address_of_a_store_is_one(kind, tmp_path):
    folder = tmp_path / "lessons"
    address = {"memory": "memory://", "text": str(folder), "path": folder}[kind]
    loop = Reflexion(
        lambda prompt: "a", evaluator=lambda output: 0.0, reflector=reflected, lesson_store=address
    )
    assert loop.run_sync("find the key").lessons[0].support == 3
    again = Reflexion(
        lambda prompt: "a", evaluator=graded, reflector=reflected, lesson_store=address, max_attempts=1
    )
    known = () if kind == "memory" else ("look left",)
    assert again.run_sync("find the key").trials[0].recall.texts == known


def test_the_address_of_a_server_is_not_asked_before_a_run():
    loop = Reflexion(model=model(), lesson_store="postgresql://nobody@127.0.0.1:9/none")
    assert isinstance(loop.lessons, VectorLessonStore)


class Shelf:
    """A memory that is false while it is empty, as containers are."""

    def __len__(self) -> int:
        return 0

    async def read(self, name: str) -> str:
        return ""

    async def append(self, name: str, line: str) -> None:
        pass

    async def write(self, name: str, text: str) -> None:
        pass


def test_an_empty_memory_is_used_all_the_same():
    shelf = Shelf()
    assert Reflexion(model=model(), memory=shelf).memory is shelf
