"""Reflectors: a model that writes one sentence, and any callable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tables import table

from jeeves_reflexion import (
    Attempt,
    ConfigurationError,
    Evaluation,
    EvaluationError,
    LessonReflector,
    Reflection,
    ScriptedModel,
    Step,
    Task,
    Trial,
    as_reflector,
)
from jeeves_reflexion.lessons import shape_problem
from jeeves_reflexion.types import UNKNOWN_USAGE

pytestmark = pytest.mark.anyio

TASK = Task("find the key")
FAILED = Trial(
    1,
    Attempt("in the sink", (Step("hm", "open drawer 1", "It is empty."),), error="OSError: x"),
    Evaluation(
        0.25,
        rationale="wrong place",
        issues=("sink", "no key"),
        errors=(EvaluationError("$.place", "no place"), EvaluationError("", "no key")),
    ),
)


async def test_it_is_shown_the_trajectory_and_the_verdict():
    model = ScriptedModel(["Open every drawer."])
    reflection = await LessonReflector(model)(TASK, [FAILED])
    shown = model.calls[0].messages[1].content
    for part in (
        "find the key",
        "open drawer 1",
        "It is empty.",
        "in the sink",
        "OSError: x",
        "score 0.25",
        "wrong place\n- sink\n- no key\n- $.place: no place\n<",
    ):
        assert part in shown
    assert (reflection.lesson, reflection.outcome, reflection.usage.calls) == (
        "Open every drawer.",
        "failed",
        1,
    )


@table(
    ("said", "steps"),
    [
        ("Open every drawer. [steps 1, 3-4]", (1, 3, 4)),
        ('"Open every drawer [step 2]."', (2,)),
        ("Open every drawer. (Step 5)", (5,)),
        ("Open every drawer. [steps 0, 4-99, 7 - 6]", (4, 5)),  # there were no more
        ("Open every drawer [steps 1 and 3\u20134].", (1, 3, 4)),
        (f"Open every drawer. [step {'9' * 5000}]", ()),
        ("Open every drawer.", ()),
    ],
)
async def test_the_steps_that_a_lesson_rests_on_are_its_evidence(said, steps):
    trial = replace(FAILED, attempt=Attempt("x", tuple(Step("", f"look {n}", "") for n in range(5))))
    reflection = await LessonReflector(ScriptedModel([said]))(TASK, [trial])
    assert (reflection.lesson, reflection.evidence) == ("Open every drawer.", steps)


@table("said", ['"Open every drawer."', "- Open every drawer.", "  Open every drawer.\n"])
async def test_the_sentence_is_freed_of_its_wrapping(said):
    assert (await LessonReflector(ScriptedModel([said]))(TASK, [FAILED])).lesson == "Open every drawer."


async def test_what_a_model_thinks_aloud_is_no_part_of_the_lesson():
    said = "<think>\nIt was not in the sink. Hm.\n</think>\n\nOpen every drawer (step 1)."
    reflection = await LessonReflector(ScriptedModel([said]))(TASK, [FAILED])
    assert (reflection.lesson, reflection.evidence) == ("Open every drawer.", (1,))


async def test_the_lessons_so_far_are_shown_so_as_not_to_be_repeated():
    model = ScriptedModel(["x", "y"])
    had = Trial(1, Attempt(), Evaluation(0.0), reflection=Reflection("Look left."))
    await LessonReflector(model)(TASK, [had, FAILED])
    assert "Look left." in model.calls[0].messages[1].content


async def test_a_problem_is_shown():
    model = ScriptedModel(["x"])
    await LessonReflector(model)(TASK, [FAILED], problem="it has 2 lines")
    assert "it has 2 lines" in model.calls[0].messages[1].content


async def test_a_success_is_distilled_with_a_prompt_of_its_own():
    model = ScriptedModel(["x", "y"])
    reflector = LessonReflector(model)
    passed = Trial(1, Attempt("a"), Evaluation(1.0), passed=True)
    assert (await reflector(TASK, [passed])).outcome == "success"
    await reflector(TASK, [FAILED])
    success, failure = (call.messages[0].content for call in model.calls)
    assert success != failure


async def test_a_reflector_without_a_trial_is_refused():
    with pytest.raises(ConfigurationError, match="at least one trial"):
        await LessonReflector(ScriptedModel([]))(TASK, [])


async def test_a_callable_returns_a_sentence_or_a_reflection():
    async def later(task, trials):
        return Reflection("Open it.", outcome="partial")

    assert (await as_reflector(lambda task, trials: "Open it.")(TASK, [FAILED])) == Reflection(
        "Open it.", usage=UNKNOWN_USAGE
    )
    assert (await as_reflector(later)(TASK, [FAILED])).outcome == "partial"


async def test_a_callable_that_takes_the_problem_is_told():
    told = []

    def reflect(task, trials, problem=None):
        told.append(problem)
        return "Open it."

    await as_reflector(reflect)(TASK, [FAILED], problem="too long")
    await as_reflector(lambda task, trials: "Open it.")(TASK, [FAILED], problem="too long")
    assert told == ["too long"]


@table("value", [None, 7, ["x"]])
async def test_what_is_no_reflection_is_an_error(value):
    with pytest.raises(ConfigurationError, match="a sentence or a Reflection"):
        await as_reflector(lambda task, trials: value)(TASK, [FAILED])


@table(
    "function",
    [
        lambda: "x",
        lambda task: "x",
        lambda a, b, c: "x",
        lambda task, **more: "x",
        lambda task, trials, *, k: "x",
        LessonReflector,
    ],
)
def test_what_cannot_be_called_is_refused_at_once(function):
    with pytest.raises(ConfigurationError, match=r"must take \(task, trials\)|is a class"):
        as_reflector(function)


@table(
    ("text", "problem"),
    [
        ("Look left.", None),
        ("  Look left.\n", None),
        ("", "empty"),
        ("1. 2. !", "empty"),
        ("one\ntwo", "2 lines"),
        ("ж" * 500, None),
        ("x" * 501, "501 characters"),
        ("Look left. Then look right.", "2 sentences"),
        ("Don't stop! Go on.", "2 sentences"),
        ("Use e.g. Python 3.11 as Dr. Smith and the U.S. site do.", None),
        ("Open drawer 1. it was closed", None),
    ],
)
def test_the_shape_of_a_lesson(text, problem):
    found = shape_problem(text)
    assert found is None if problem is None else problem in found


@table(
    ("text", "echo"),
    [
        ("put a clean MUG, into the coffee machine", True),
        ("put a clean mug into the coffee machine after washing it", False),
        ("a clean mug", False),  # a few words of the task are not the task
    ],
)
def test_a_lesson_that_only_repeats_what_was_said_is_none(text, echo):
    found = shape_problem(text, said={"the task": "Please put a clean mug into the coffee machine."})
    assert found == ("it only repeats the task" if echo else None)
