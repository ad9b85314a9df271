"""Comparisons of arms over the same tasks, held against the definitions and against scipy's figures."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tables import table

from benchmarks.humaneval.scoring import pass_at_k
from jeeves_reflexion.experiments.comparisons import (
    detectable,
    in_words,
    paired_difference,
)
from jeeves_reflexion.statistics import Difference, wilson


def exact_p(gains):
    """The definition: the share of all sign flips whose sum is as far from zero."""
    sums = [
        abs(sum(s * g for s, g in zip(signs, gains, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(gains))
    ]
    return sum(each >= abs(sum(gains)) - 1e-9 for each in sums) / len(sums)


def test_tasks_that_resemble_one_another_count_as_one():
    gains = [*[1] * 9, *[-1] * 3, *[0] * 8]
    room = {f"{n}-{twin}": str(n) for n in range(len(gains)) for twin in range(4)}
    first = {task: [0.5] for task in room}
    second = {task: [0.5 + gains[int(n)] / 2] for task, n in room.items()}
    apart, together = paired_difference(first, second), paired_difference(first, second, clusters=room)
    assert apart.value == together.value == pytest.approx(0.15)
    assert apart.better
    assert not together.better
    assert together.standard_error > 1.9 * apart.standard_error
    assert (together.tasks, together.clusters) == (80, 20)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=10))
def test_p_is_the_share_of_sign_flips_that_are_as_far_from_zero(gains):
    first = {str(n): [max(-g, 0.0)] for n, g in enumerate(gains)}
    second = {str(n): [max(g, 0.0)] for n, g in enumerate(gains)}
    found = paired_difference(first, second)
    assert found.p == pytest.approx(exact_p(gains))
    assert (found.only_first, found.only_second) == (sum(g < 0 for g in gains), sum(g > 0 for g in gains))


def test_p_of_many_tasks_is_near_the_exact_one():
    # scipy.stats.binomtest(2, 12).pvalue, of gains that are all of one size
    found = paired_difference(scores(*[1] * 2, *[0] * 98), scores(*[0] * 2, *[1] * 10, *[0] * 88))
    assert found.p == pytest.approx(0.03857, abs=0.005)


def test_equal_arms_are_called_different_as_often_as_the_level_says():
    """Tasks of very different hardness, whose seeds hang together: pooled rows would be sure far too often."""
    rng = np.random.default_rng(3)
    called = 0
    for _ in range(150):
        hardness = rng.beta(0.3, 0.3, size=(2, 30))
        first, second = (
            {str(n): [float(x) for x in rng.random(3) < share] for n, share in enumerate(each)}
            for each in hardness
        )
        called += paired_difference(first, second).p < 0.05
    assert wilson(called, 150).low <= 0.05 <= wilson(called, 150).high + 0.02


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
    for _ in range(100):
        hardness = rng.random(60)
        first = {str(n): [float(x)] for n, x in enumerate(rng.random(60) < hardness * 0.6)}
        second = {str(n): [float(x)] for n, x in enumerate(rng.random(60) < hardness * 0.6 + 0.2)}
        found = paired_difference(first, second)
        held += found.low <= 0.2 <= found.high
    assert wilson(held, 100).low > 0.85


def scores(*values):
    return {f"t{n}": [float(value)] for n, value in enumerate(values)}


@table(
    ("lost", "gained", "n", "low", "high"),
    [
        # Worked by hand from the paper's formula: Wald's interval for (c + 1) / (n + 2) less (b + 1) / (n + 2).
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
    assert found.low == pytest.approx(low, abs=0.03), "that of the test may be a little wider"
    assert found.high == pytest.approx(high, abs=0.03)


SCORE = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
PAIRS = st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=25)


@settings(deadline=None, max_examples=50)
@given(PAIRS)
@example([(0.0, gain) for gain in (1.0, 0.5, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0)])
def test_the_interval_holds_zero_exactly_where_the_test_does_not_reject(pairs):
    found = paired_difference(scores(*(a for a, _ in pairs)), scores(*(b for _, b in pairs)))
    assert (found.low <= 0.0 <= found.high) is (found.p >= 0.05)
    assert (found.better or found.worse) is (found.p < 0.05)
    assert 0.0 < found.p <= 1.0


@settings(deadline=None, max_examples=50)
@given(PAIRS)
def test_an_interval_holds_its_value_is_never_a_point_and_has_two_sides(pairs):
    first, second = scores(*(a for a, _ in pairs)), scores(*(b for _, b in pairs))
    found = paired_difference(first, second)
    assert -1.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.high - found.low > 2 / (len(pairs) + 2), "never a point"
    other = paired_difference(second, first)
    assert (other.value, other.p) == (pytest.approx(-found.value), found.p)
    assert (other.low, other.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


@settings(deadline=None, max_examples=30)
@given(SCORE, SCORE, st.integers(1, 20))
def test_equal_gains_of_more_tasks_show_more(before, after, n):
    few = paired_difference(scores(*[before] * n), scores(*[after] * n))
    many = paired_difference(scores(*[before] * 4 * n), scores(*[after] * 4 * n))
    assert few.high - few.low >= many.high - many.low


@given(st.integers(1, 3))
def test_three_tasks_show_no_difference(n):
    assert not paired_difference(scores(*[0] * n), scores(*[1] * n)).better


def test_seeds_that_agree_narrow_an_interval():
    half = {f"t{n}": [0.0, 1.0] for n in range(20)}
    close = paired_difference(half, half)
    wide = paired_difference(half, scores(*(n % 2 for n in range(20))))
    assert close.high - close.low < (wide.high - wide.low) / 1.5


@table("n", [4, 30])
@table("gain", [0.0, 0.3, 0.9])
def test_the_interval_of_few_tasks_holds_the_truth_at_least_as_often_as_it_says(n, gain):
    rng = np.random.default_rng(n)
    truth = (gain + 0.05) * 0.95 - 0.05 * (1 - gain - 0.05)

    @cache
    def holds(lost, gained):
        """Which tasks they are makes no difference."""
        rest = [0] * (n - lost - gained)
        found = paired_difference(
            scores(*[1] * lost, *[0] * gained, *rest), scores(*[0] * lost, *[1] * gained, *rest)
        )
        return found.low <= truth <= found.high

    held = 0
    for _ in range(150):
        lost, gained = rng.random(n) < 0.05, rng.random(n) < gain + 0.05
        held += holds((lost & ~gained).sum(), (gained & ~lost).sum())
    assert wilson(held, 150).high >= 0.95


@table(("n", "solved", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (6, 6, 4), (4, 3, 4)])
def test_pass_at_k_is_a_share_of_all_choices(n, solved, k):
    tries = [True] * solved + [False] * (n - solved)
    choices = list(itertools.combinations(tries, k))
    assert pass_at_k(n, solved, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@table(("n", "solved", "k"), [(3, 1, 0), (3, 1, 4), (3, 4, 1), (0, 0, 1)])
def test_no_estimate_without_enough_tries(n, solved, k):
    with pytest.raises(ValueError, match="no estimate"):
        pass_at_k(n, solved, k)


def test_arms_without_a_task_in_common_are_refused():
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


def test_what_could_be_found_goes_by_the_standard_error_of_the_pairs():
    # (1.96 + 0.84) times the standard error, as in any table of sample sizes
    assert detectable(0.0107) == pytest.approx(0.03, abs=0.001)
    assert detectable(0.0107, power=0.9) > detectable(0.0107)
    for unknown in (0.0, float("nan")):
        with pytest.raises(ValueError, match="no difference"):
            detectable(unknown)


def test_a_difference_of_that_size_is_found_four_times_in_five():
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(100):
        base = 0.4 + 0.1 * rng.random(60)
        second = np.clip(base + rng.normal(0.058, 0.16, 60), 0, 1)
        found += paired_difference(scores(*base), scores(*second)).p < 0.05
    needed = detectable(0.16 / 60**0.5)
    assert needed == pytest.approx(0.058, abs=0.001)
    assert wilson(found, 100).low < 0.85
    assert wilson(found, 100).high > 0.7
