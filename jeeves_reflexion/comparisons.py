"""Comparing two ways over the same tasks, and what several tries of a task come to.

Two arms of an experiment share their tasks, so tasks are compared in pairs: a hard task is hard for both. Uncertainty
comes from the tasks (they could have been others), so the bootstrap draws tasks, with all their seeds, and not rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jeeves_reflexion.statistics import Z95, Difference

RESAMPLES: Final = 10_000


@dataclass(frozen=True, slots=True)
class McNemar:
    """Tasks that only one of two arms solved, and how likely so uneven a split is if the arms are alike."""

    only_first: int
    only_second: int
    p: float


def mcnemar(first: Mapping[str, bool], second: Mapping[str, bool]) -> McNemar:
    """Compare two arms on the tasks that both tried, by the exact test of McNemar (1947): two-sided, binomial.

    Raises ``ValueError`` where they have no task in common.
    """
    shared = _shared(first, second)
    only_first = sum(first[task] and not second[task] for task in shared)
    only_second = sum(second[task] and not first[task] for task in shared)
    n = only_first + only_second
    less = min(only_first, only_second)
    tail = sum(math.comb(n, k) for k in range(less + 1)) / 2**n
    return McNemar(only_first, only_second, min(1.0, 2 * tail))


def paired_difference(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Return by how much the mean score of the second arm is higher, with a 95 % interval over tasks.

    Each arm has a task's scores in [0, 1], one for each seed; a task counts by its mean. At each end the interval is
    the wider of two. Percentiles of the bootstrap over tasks (Efron 1979) know nothing of what so few tasks could not
    show: where all gains are equal they are a point. The interval of Bonett and Price (2012) for paired proportions
    adds one task gained and one lost to those seen. Where scores are successes and failures, it is theirs; graded
    scores and means over seeds enter by their squares, so that seeds that agree narrow it. The same input gives the
    same interval. Raises ``ValueError`` where the arms share no task, a task has no score, or a score is outside of
    [0, 1].
    """
    shared = _shared(first, second)
    if not all(first[task] and second[task] for task in shared):
        raise ValueError("a task without scores can't be compared")
    if not all(0.0 <= score <= 1.0 for task in shared for score in (*first[task], *second[task])):
        raise ValueError("a score outside of [0, 1] can't be compared")
    gains = np.array([np.mean(second[task]) - np.mean(first[task]) for task in shared])
    drawn = np.random.default_rng(seed).integers(len(gains), size=(resamples, len(gains)))
    low, high = np.percentile(gains[drawn].mean(axis=1), [2.5, 97.5])
    sure_low, sure_high = _bonett_price(gains)
    return Difference(float(gains.mean()), min(float(low), sure_low), max(float(high), sure_high))


def _bonett_price(gains: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of Bonett and Price (2012), J. Educ. Behav. Stat. 37, for gains in [-1, 1].

    Theirs is Wald's over the counts of pairs gained and lost, each raised by one, of n + 2 pairs.
    """
    n = len(gains) + 2
    mean = float(gains.sum()) / n
    variance = (float(gains @ gains) + 2.0) / n - mean * mean
    spread = Z95 * math.sqrt(variance / n)
    return max(mean - spread, -1.0), min(mean + spread, 1.0)


def pass_at_k(n: int, solved: int, k: int) -> float:
    """Estimate the chance that at least one of ``k`` tries passes, from ``solved`` of ``n`` (Chen et al. 2021, 2.1).

    The unbiased estimator 1 - C(n - c, k) / C(n, k). Raises ``ValueError`` for k outside of 1..n.
    """
    _check(n, solved, k)
    return 1.0 - math.comb(n - solved, k) / math.comb(n, k)


def pass_hat_k(n: int, solved: int, k: int) -> float:
    """Estimate the chance that all of ``k`` tries pass, from ``solved`` of ``n`` (pass^k, Yao et al. 2024, tau-bench).

    The unbiased estimator C(c, k) / C(n, k). Raises ``ValueError`` for k outside of 1..n.
    """
    _check(n, solved, k)
    return math.comb(solved, k) / math.comb(n, k)


def _check(n: int, solved: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= solved <= n):
        raise ValueError(f"there is no estimate for k = {k} from {solved} of {n} tries")


def _shared(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise ValueError("the two arms have no task in common")
    return shared


def detectable(n: int, *, share: float = 0.5, power: float = 0.8) -> float:
    """Return about how large a difference of two shares has to be for ``n`` pairs to show it at 95 %.

    The usual normal formula with independent groups, hence on the safe side for pairs. ``share`` is the success rate of
    the first arm. Raises ``ValueError`` for n < 1 and for a power outside of (0, 1).
    """
    if n < 1 or not 0.0 < power < 1.0:
        raise ValueError(f"{n} tasks show no difference with power {power}")
    z = Z95 + NormalDist().inv_cdf(power)
    return z * math.sqrt(2 * share * (1 - share) / n)


def counted(n: int, unit: str) -> str:
    """Return a number of things by their name in the singular, such as ``1 task`` or ``3 tasks``."""
    return f"{n} {unit}{'s' * (n != 1)}"


def in_words(found: Difference, n: int, *, what: str = "success", unit: str = "task") -> str:
    """Say what a comparison of ``n`` tasks shows, also where it shows nothing; ``unit`` is what a task is called."""
    by = f"{100 * found.value:+.0f} points ({100 * found.low:+.0f} to {100 * found.high:+.0f})"
    if found.better:
        return f"{what} is higher: {by}"
    if found.worse:
        return f"{what} is lower: {by}"
    return f"no difference that {counted(n, unit)} can show: {by}"
