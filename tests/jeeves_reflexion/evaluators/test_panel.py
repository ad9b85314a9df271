"""Panels: medians, spread, and members who say nothing."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import Evaluation, Usage
from jeeves_reflexion.evaluators.panel import median_of


def test_the_median_counts_with_the_words_of_the_member_who_gave_it():
    verdict = median_of(
        [
            Evaluation(0.9, passed=True, criteria_scores={"a": 0.9}, issues=("x",), usage=Usage(1, 5)),
            Evaluation(0.4, passed=False, criteria_scores={"a": 0.4}, issues=("y",), usage=Usage(1, 5)),
            Evaluation(0.7, passed=True, criteria_scores={"a": 0.7}, issues=("z",), usage=Usage(1, 5)),
        ]
    )
    assert (verdict.score, verdict.passed, verdict.issues) == (0.7, True, ("z",))
    assert verdict.criteria_scores == {"a": 0.7}
    assert verdict.confidence == pytest.approx(0.5)
    assert verdict.usage == Usage(3, 15)


@given(st.lists(st.none() | st.floats(0, 1), min_size=2, max_size=7))
def test_the_median_is_of_those_who_answer_if_they_are_the_majority(scores):
    verdict = median_of([Evaluation(score, rationale="r") for score in scores])
    known = [score for score in scores if score is not None]
    if len(known) * 2 <= len(scores):
        assert (verdict.score, verdict.passed, verdict.confidence) == (None, None, 0.0)
        assert "gave no score: r" in verdict.rationale
    else:
        assert verdict.score == statistics.median(known)
        spread = max(known) - min(known)
        assert verdict.confidence == pytest.approx((1 - spread) * len(known) / len(scores))


def test_one_verdict_is_its_own_median():
    only = Evaluation(0.3, confidence=0.9, passed=False)
    assert median_of([only]) is only


def test_a_tie_of_words_leaves_the_decision_open():
    assert median_of([Evaluation(1.0, passed=True), Evaluation(0.0, passed=False)]).passed is None


def test_gold_marks_of_any_member_are_kept():
    marked = Evaluation(0.1, quotes_gold=frozenset({"issues"}))
    assert median_of([Evaluation(0.9), Evaluation(0.9), marked]).quotes_gold == {"issues"}
