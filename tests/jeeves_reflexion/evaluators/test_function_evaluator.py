"""Any callable as an evaluator, and an environment's reward."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytest
from tables import table

from jeeves_reflexion import Attempt, ConfigurationError, Evaluation, RewardEvaluator, Task, as_evaluator

pytestmark = pytest.mark.anyio

TASK, ATTEMPT = Task("x", reference="gold"), Attempt("out", metadata={"reward": 0.5})


class Checker:
    async def __call__(self, task, attempt):
        return (task.reference, attempt.output) == ("gold", "out")


async def both(task, attempt):
    return (task.reference, attempt.output) == ("gold", "out")


def output_alone(output):
    return output == "out"


def with_default(output, wanted="out"):
    return output == wanted


def task_first(task, attempt=None):
    return task.reference == "gold" and attempt.output == "out"


def annotated(given: Task, attempt=None):
    return given.reference == "gold"


def starred(*both):
    return [type(each) for each in both] == [Task, Attempt]


FORMS = [
    both,
    output_alone,
    with_default,
    task_first,
    annotated,
    starred,
    Checker(),
    functools.partial(lambda wanted, output: output == wanted, "out"),
    as_evaluator(both),
]


@table("function", FORMS)
async def test_it_is_called_as_it_can_be(function):
    assert await as_evaluator(function)(TASK, ATTEMPT) == Evaluation(1.0, passed=True)


@table(
    ("value", "evaluation"),
    [
        (True, Evaluation(1.0, passed=True)),
        (False, Evaluation(0.0, passed=False)),
        (0.25, Evaluation(0.25)),
        (1, Evaluation(1.0)),
        (np.float32(0.5), Evaluation(0.5)),
        (np.True_, Evaluation(1.0, passed=True)),
        (np.array(0.5), Evaluation(0.5)),
        ((np.False_, "late"), Evaluation(0.0, passed=False, rationale="late", issues=("late",))),
        (Fraction(1, 4), Evaluation(0.25)),
        ((True, "fine"), Evaluation(1.0, passed=True, rationale="fine")),
        ((False, "late"), Evaluation(0.0, passed=False, rationale="late", issues=("late",))),
        ((False, ""), Evaluation(0.0, passed=False)),
        ((0.25, "late"), Evaluation(0.25, rationale="late")),
        ((np.float32(0.5), "late"), Evaluation(0.5, rationale="late")),
        ((None, "the server is down"), Evaluation(None, rationale="the server is down")),
        (Evaluation(0.3, rationale="x"), Evaluation(0.3, rationale="x")),
    ],
)
async def test_what_it_returns_becomes_an_evaluation(value, evaluation):
    assert await as_evaluator(lambda output: value)(TASK, ATTEMPT) == evaluation


async def test_none_is_no_score_and_not_zero():
    evaluation = await as_evaluator(lambda output: None)(TASK, ATTEMPT)
    assert (evaluation.score, evaluation.scored) == (None, False)


@table(
    "value",
    [1.5, -0.1, 10**400, float("nan"), np.array([True]), "0.5", 8, (8, "x"), [True, 7], {}, ("0.5", "x")],
)
async def test_what_is_no_verdict_is_an_error_and_not_a_guess(value):
    with pytest.raises(ConfigurationError, match="it must return an Evaluation, a bool"):
        await as_evaluator(lambda output: value)(TASK, ATTEMPT)


@table(
    "function",
    [lambda: 1.0, lambda a, b, c: 1.0, lambda output, *, strict: 1.0, RewardEvaluator],
)
def test_what_cannot_be_called_is_refused_at_once(function):
    with pytest.raises(ConfigurationError, match=r"must take|is a class"):
        as_evaluator(function)


@table(
    ("reward", "score", "passed"),
    [
        (True, 1.0, True),
        (False, 0.0, False),
        (0.5, 0.5, None),
        (1, 1.0, None),
        (np.float32(0.5), 0.5, None),
        (np.True_, 1.0, True),
        (2, None, None),
        ("1", None, None),
        (None, None, None),
        (float("nan"), None, None),
    ],
)
async def test_a_reward_is_the_verdict_where_there_is_one(reward, score, passed):
    evaluation = await RewardEvaluator()(TASK, Attempt(metadata={"reward": reward}))
    assert (evaluation.score, evaluation.passed) == (score, passed)


async def test_a_reward_may_have_another_name_and_may_be_missing():
    assert (await RewardEvaluator("won")(TASK, Attempt(metadata={"won": True}))).passed is True
    assert (await RewardEvaluator("won")(TASK, ATTEMPT)).score is None


@table("score", [-0.1, 1.1, float("nan")])
def test_an_evaluation_outside_its_range_cannot_be_made(score):
    with pytest.raises(ValueError, match=r"Evaluation\.score"):
        Evaluation(score)
    with pytest.raises(ValueError, match=r"Evaluation\.confidence"):
        Evaluation(0.5, confidence=score)


def test_a_mark_that_names_no_field_is_refused():
    with pytest.raises(ValueError, match="names no text field: score"):
        Evaluation(0.5, quotes_gold=frozenset({"score"}))
