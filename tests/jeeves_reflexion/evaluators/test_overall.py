"""The verdict on the whole: the weighted mean, vetoes, and what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion.evaluators import QualityCriterion
from jeeves_reflexion.evaluators.criteria_evaluator import Scored, conclude, reaches, weighted
from jeeves_reflexion.types import Evaluation, EvaluationError, Usage

SHARES = st.floats(0, 1)
WEIGHTS = st.floats(1e-6, 1e6)
TENTHS = st.integers(0, 10).map(lambda n: n / 10)
LLM, SURE = "llm", "function"


def scored(score, *, threshold=0.7, weight=1.0, evaluator=LLM, name="a", **fields):
    return Scored(
        QualityCriterion(name, threshold=threshold, weight=weight, evaluator=evaluator),
        Evaluation(score, **fields),
    )


def test_e08_the_mean_is_weighted():
    assert weighted([(2, 0.95), (1, 0.75), (1, 0.75)]) == 0.85


@given(st.lists(st.tuples(WEIGHTS, SHARES), min_size=1, max_size=8))
def test_e08_the_mean_lies_between_the_least_and_the_largest(pairs):
    scores = [score for _, score in pairs]
    mean = weighted(pairs)
    assert 0.0 <= mean <= 1.0
    assert min(scores) - 1e-9 <= mean <= max(scores) + 1e-9


@given(st.lists(st.tuples(WEIGHTS, SHARES), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_e08_only_the_proportion_of_weights_matters(pairs, factor):
    assert weighted([(weight * factor, score) for weight, score in pairs]) == pytest.approx(
        weighted(pairs), abs=1e-9
    )


@given(TENTHS, st.lists(WEIGHTS, min_size=1, max_size=8))
def test_e09_equal_scores_reach_an_equal_threshold_whatever_the_weights(score, weights):
    verdict = conclude(
        [scored(score, threshold=score, weight=w, name=str(n)) for n, w in enumerate(weights)], score
    )
    assert (verdict.score, verdict.passed) == (score, True)


def test_weights_of_any_size_are_no_trouble():
    assert weighted([(1.7e308, 1.0), (1.7e308, 0.5)]) == 0.75
    assert weighted([(5e-324, 0.25)]) == 0.25


@table(
    ("score", "threshold", "enough"),
    [
        (0.8, 0.8, True),
        (0.79, 0.8, False),
        (0.7999, 0.8, False),
        (0.1 + 0.7, 0.8, True),  # 0.7999999999999999
        (0.7, 0.1 * 7, True),  # 0.7000000000000001
        (0.0, 0.0, True),
        (1.0, 1.0, True),
    ],
)
def test_c04_equality_passes_and_rounding_is_no_difference(score, threshold, enough):
    assert reaches(score, threshold) is enough
    assert conclude([scored(score, threshold=0.0)], threshold).passed is enough


@given(st.lists(st.tuples(SHARES, SHARES, WEIGHTS), min_size=1, max_size=6), SHARES)
def test_e09_satisfactory_is_the_overall_threshold_and_no_veto(rows, threshold):
    parts = [
        scored(score, threshold=least, weight=weight, name=str(n))
        for n, (score, least, weight) in enumerate(rows)
    ]
    verdict = conclude(parts, threshold)
    held = all(reaches(score, least) for score, least, _ in rows)
    assert verdict.passed is (held and reaches(verdict.score, threshold))
    below = [str(n) for n, (score, least, _) in enumerate(rows) if not reaches(score, least)]
    lines = verdict.rationale.splitlines()
    assert [line.split(" ")[0] for line in lines if "below its threshold" in line] == below
    assert verdict.issues == (), "no judge named one"


def test_e09_a_criterion_below_its_own_threshold_is_a_veto():
    verdict = conclude([scored(1.0, weight=99, name="a"), scored(0.69, name="b")], 0.8)
    assert verdict.score > 0.99
    assert verdict.passed is False
    assert "b (0.69, below its threshold 0.7)" in verdict.rationale
    assert verdict.issues == ()


def test_a_threshold_of_zero_never_vetoes():
    parts = [scored(1.0, weight=9), scored(0.0, threshold=0, evaluator=SURE, name="b", passed=False)]
    assert conclude(parts, 0.8).passed is True


def test_a_check_that_fails_by_its_own_word_fails_whatever_its_score():
    assert conclude([scored(0.9, evaluator=SURE, passed=False)], 0.8).passed is False


@given(
    st.lists(
        st.tuples(st.none() | SHARES, st.sampled_from([LLM, SURE, "regex", "compare"])),
        min_size=1,
        max_size=6,
    )
)
def test_e11_what_could_not_be_scored_is_never_a_pass(rows):
    parts = [scored(score, evaluator=kind, name=str(n)) for n, (score, kind) in enumerate(rows)]
    verdict = conclude(parts, 0.0)
    if any(score is None for score, _ in rows):
        refused = any(score is not None and score < 0.7 and kind in {SURE, "regex"} for score, kind in rows)
        assert (verdict.score, verdict.confidence) == (None, 0.0)
        assert verdict.passed is (False if refused else None)
        assert verdict.rationale.startswith("could not be scored: ")
    else:
        assert verdict.score is not None
        assert verdict.passed is not None
    assert verdict.criteria_scores == {
        str(n): score for n, (score, _) in enumerate(rows) if score is not None
    }


def test_what_does_not_apply_is_left_out():
    away = Scored(
        QualityCriterion("b", weight=9.0), Evaluation(None, rationale="no earlier text"), applies=False
    )
    verdict = conclude([scored(0.8), away], 0.8)
    assert (verdict.score, verdict.passed) == (0.8, True)
    assert "b (left out): no earlier text" in verdict.rationale
    assert conclude([away], 0.0).passed is None


def test_issues_are_prefixed_where_there_are_several_criteria_only():
    assert conclude([scored(0.4, issues=("too long",))], 0.8).issues == ("too long",)
    several = [
        scored(0.4, issues=("too long", "too long")),
        scored(0.9, name="b", issues=("a typo",), suggestions=("mend it",)),
        scored(0.9, name="c", suggestions=("mend it",)),
    ]
    verdict = conclude(several, 0.8)
    assert verdict.issues == ("a: too long", "b: a typo")
    assert verdict.suggestions == ("mend it",)


def test_what_fails_without_an_issue_has_what_its_judge_said_as_one_and_nothing_made_up():
    path = EvaluationError("/x", "is missing")
    parts = [
        scored(0.1, name="a", rationale="It never\nanswers."),
        scored(0.1, name="b", errors=(path,)),
        scored(0.1, name="c"),
        scored(0.9, name="d", rationale="fine"),
    ]
    verdict = conclude(parts, 0.8)
    assert verdict.issues == (
        "a: It never answers.",
        "b: /x: is missing",
    )
    assert "c (0.10, below its threshold 0.7)" in verdict.rationale
    assert verdict.errors == (path,)


@table(
    ("external", "passed", "score", "issues"),
    [
        (Evaluation(1.0, passed=True), True, 1.0, ()),
        (Evaluation(0.8), True, 1.0, ()),
        (Evaluation(0.79), False, 1.0, ()),
        (Evaluation(0.0, passed=False, issues=("no",)), False, 1.0, ("external validator: no",)),
        (Evaluation(None, passed=False, rationale="no"), False, 1.0, ("external validator: no",)),
        (Evaluation(None, rationale="?", issues=("broke",)), None, None, ("external validator: broke",)),
    ],
)
def test_f04_the_external_validator_has_a_veto_and_no_weight(external, passed, score, issues):
    verdict = conclude([scored(1.0)], 0.8, external)
    assert (verdict.passed, verdict.score, verdict.issues) == (passed, score, issues)
    assert ("external validator (refuses the text)" in verdict.rationale) is (passed is False)
    assert verdict.criteria_scores == {"a": 1.0}


def test_usage_gold_marks_and_confidence_are_gathered():
    parts = [
        scored(0.9, weight=3, confidence=0.8, usage=Usage(1, 10, 5), quotes_gold=frozenset({"issues"})),
        scored(0.9, name="b", confidence=0.4, usage=Usage(1, 1, 1)),
    ]
    verdict = conclude(parts, 0.8, Evaluation(1.0, usage=Usage(1, 1, 1)))
    assert verdict.usage == Usage(3, 12, 7)
    assert verdict.confidence == 0.7
    assert verdict.quotes_gold == {"issues"}
