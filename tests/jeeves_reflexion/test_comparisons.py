"""Comparisons of arms over the same tasks, held against the definitions and against scipy's figures."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.comparisons import (
    detectable,
    in_words,
    mcnemar,
    paired_difference,
    pass_at_k,
    pass_hat_k,
)
from jeeves_reflexion.statistics import Difference, wilson


def arm(text):
    return {f"t{n}": letter == "+" for n, letter in enumerate(text)}


def test_mcnemar_counts_the_tasks_that_only_one_solved():
    found = mcnemar(arm("++++------"), arm("---+++++++"))
    assert (found.only_first, found.only_second) == (3, 6)
    # scipy.stats.binomtest(3, 9).pvalue
    assert found.p == pytest.approx(0.5078125)
    assert mcnemar(arm("++--"), arm("++--")).p == 1.0
    # binomtest(0, 10).pvalue
    assert mcnemar(arm("-" * 10), arm("+" * 10)).p == pytest.approx(0.001953125)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_mcnemar_is_the_same_from_both_sides(pairs):
    first = {str(n): a for n, (a, _) in enumerate(pairs)}
    second = {str(n): b for n, (_, b) in enumerate(pairs)}
    one, other = mcnemar(first, second), mcnemar(second, first)
    assert (one.only_first, one.only_second, one.p) == (other.only_second, other.only_first, other.p)
    assert 0.0 < one.p <= 1.0


def test_a_task_counts_once_however_many_seeds_it_has():
    first = {"a": [0.0], "b": [0.0, 0.0], "only": [1.0]}
    second = {"a": [1.0] * 9, "b": [0.0]}
    found = paired_difference(first, second)
    assert found.value == 0.5
    assert (found.low, found.high) == (0.0, 1.0)
    assert found == paired_difference(first, second)


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        hardness = rng.random(60)
        first = {str(n): [float(x)] for n, x in enumerate(rng.random(60) < hardness * 0.6)}
        second = {str(n): [float(x)] for n, x in enumerate(rng.random(60) < hardness * 0.6 + 0.2)}
        found = paired_difference(first, second, resamples=400)
        held += found.low <= 0.2 <= found.high
    assert wilson(held, 200).low > 0.85


@pytest.mark.parametrize(("n", "solved", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (6, 6, 4), (4, 3, 4)])
def test_pass_at_k_and_pass_hat_k_are_shares_of_all_choices(n, solved, k):
    tries = [True] * solved + [False] * (n - solved)
    choices = list(itertools.combinations(tries, k))
    assert pass_at_k(n, solved, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(n, solved, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@pytest.mark.parametrize(("n", "solved", "k"), [(3, 1, 0), (3, 1, 4), (3, 4, 1), (0, 0, 1)])
def test_no_estimate_without_enough_tries(n, solved, k):
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="no estimate"):
            estimate(n, solved, k)


def test_arms_without_a_task_in_common_are_refused():
    with pytest.raises(ValueError, match="no task in common"):
        mcnemar({"a": True}, {"b": True})
    with pytest.raises(ValueError, match="no task in common"):
        paired_difference({}, {})
    with pytest.raises(ValueError, match="without scores"):
        paired_difference({"a": []}, {"a": [1.0]})


def test_what_a_comparison_shows_is_said_in_words():
    assert in_words(Difference(0.2, 0.1, 0.3), 50) == "success is higher: +20 points (+10 to +30)"
    assert in_words(Difference(-0.2, -0.3, -0.1), 50) == "success is lower: -20 points (-30 to -10)"
    assert (
        in_words(Difference(0.02, -0.05, 0.09), 50)
        == "no difference that 50 tasks can show: +2 points (-5 to +9)"
    )
    # 2.8 * sqrt(0.5 / 134), as in any table of sample sizes
    assert detectable(134) == pytest.approx(0.171, abs=0.001)
    assert detectable(134, power=0.9) > detectable(134)
