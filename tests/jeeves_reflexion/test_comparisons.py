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
    assert -1.0 <= found.low < 0.0, "two tasks show little"
    assert found.high == 1.0
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


def scores(*values):
    return {f"t{n}": [float(value)] for n, value in enumerate(values)}


@pytest.mark.parametrize(
    ("lost", "gained", "n", "low", "high"),
    [
        # Worked by hand from the paper's formula: Wald's interval for (c + 1) / (n + 2) less (b + 1) / (n + 2).
        (0, 3, 3, -0.1012, 1.0),
        (0, 0, 10, -0.2310, 0.2310),
        (2, 8, 40, -0.0129, 0.2986),
    ],
)
def test_the_interval_for_few_tasks_is_that_of_bonett_and_price(lost, gained, n, low, high):
    first = scores(*[1] * lost, *[0] * (n - lost))
    second = scores(*[0] * lost, *[1] * gained, *[0] * (n - lost - gained))
    found = paired_difference(first, second)
    assert found.low <= low + 1e-4
    assert found.high >= high - 1e-4
    assert found.low == pytest.approx(low, abs=0.03), "the bootstrap may be a little wider"
    assert found.high == pytest.approx(high, abs=0.03)


SCORE = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
PAIRS = st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=25)


@given(PAIRS)
def test_an_interval_holds_its_value_is_never_a_point_and_has_two_sides(pairs):
    first, second = scores(*(a for a, _ in pairs)), scores(*(b for _, b in pairs))
    found = paired_difference(first, second, resamples=200)
    assert -1.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.high - found.low > 2 / (len(pairs) + 2), "never a point"
    other = paired_difference(second, first, resamples=200)
    assert other.value == pytest.approx(-found.value)
    assert abs(other.low + found.high) < 0.2
    assert abs(other.high + found.low) < 0.2


@given(SCORE, SCORE, st.integers(1, 20))
def test_equal_gains_of_more_tasks_show_more(before, after, n):
    few = paired_difference(scores(*[before] * n), scores(*[after] * n), resamples=50)
    many = paired_difference(scores(*[before] * 4 * n), scores(*[after] * 4 * n), resamples=50)
    assert few.high - few.low >= many.high - many.low


@given(st.integers(1, 3))
def test_three_tasks_show_no_difference(n):
    assert not paired_difference(scores(*[0] * n), scores(*[1] * n)).better


def test_seeds_that_agree_narrow_an_interval():
    half = {f"t{n}": [0.0, 1.0] for n in range(20)}
    close = paired_difference(half, half)
    wide = paired_difference(half, scores(*(n % 2 for n in range(20))))
    assert close.high - close.low < (wide.high - wide.low) / 1.5


@pytest.mark.parametrize("n", [4, 10, 30])
@pytest.mark.parametrize("gain", [0.0, 0.3, 0.9])
def test_the_interval_of_few_tasks_holds_the_truth_at_least_as_often_as_it_says(n, gain):
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(300):
        lost, gained = rng.random(n) < 0.05, rng.random(n) < gain + 0.05
        both = lost & gained
        first = scores(*(lost & ~both))
        second = scores(*(gained & ~both))
        found = paired_difference(first, second, resamples=50)
        truth = (gain + 0.05) * 0.95 - 0.05 * (1 - gain - 0.05)
        held += found.low <= truth <= found.high
    assert wilson(held, 300).high >= 0.95


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
    with pytest.raises(ValueError, match="outside"):
        paired_difference({"a": [0.0]}, {"a": [1.5]})


def test_what_a_comparison_shows_is_said_in_words():
    assert in_words(Difference(0.2, 0.1, 0.3), 50) == "success is higher: +20 points (+10 to +30)"
    assert in_words(Difference(-0.2, -0.3, -0.1), 50) == "success is lower: -20 points (-30 to -10)"
    assert (
        in_words(Difference(0.02, -0.05, 0.09), 50)
        == "no difference that 50 tasks can show: +2 points (-5 to +9)"
    )
    none = Difference(0.0, -0.5, 0.5)
    assert in_words(none, 3, unit="game").startswith("no difference that 3 games can show")
    assert in_words(none, 1, unit="question").startswith("no difference that 1 question can show")
    # 2.8 * sqrt(0.5 / 134), as in any table of sample sizes
    assert detectable(134) == pytest.approx(0.171, abs=0.001)
    assert detectable(134, power=0.9) > detectable(134)
