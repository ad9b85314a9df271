"""Paired comparison of two arms over the same tasks.

Two arms of an experiment share their tasks, so tasks are compared in pairs: a hard task is hard for both. Tasks are
the sample, so a task counts once, by the mean of its seeds. One test is used throughout: Fisher's (1935), which flips
the signs of the tasks' gains.
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
from jeeves_reflexion.summary import counted

LEVEL: Final = 0.05
FEWEST: Final = 6
"""With fewer tasks the test has p > 0.05 even if every task gains."""

_FLIPS: Final = 20_000
_ALL_FLIPS_TO: Final = 12
_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class PairedDifference(Difference):
    """The gain of the second of two arms over the first on the same tasks, by the sign-flip test.

    ``p`` is two-sided; the 95 % interval holds zero exactly if p is at least 0.05. ``standard_error`` is that of the
    tasks' mean gain. ``only_first`` and ``only_second`` count the tasks on which the first and the second arm did
    better. ``clusters`` is the number of signs that were flipped: one per task, or one per group of similar tasks.
    """

    p: float
    standard_error: float
    tasks: int
    only_first: int
    only_second: int
    clusters: int

    @property
    def worse(self) -> bool:
        """Whether the test finds the second arm lower."""
        return self.p < LEVEL and self.value < 0.0

    @property
    def better(self) -> bool:
        """Whether the test finds the second arm higher."""
        return self.p < LEVEL and self.value > 0.0


def paired_difference(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    *,
    clusters: Mapping[str, str] | None = None,
    seed: int = 0,
) -> PairedDifference:
    """Return how much higher the mean score of the second arm is, with a test and a 95 % interval over tasks.

    ``first`` and ``second`` map each task to its scores in [0, 1], one for each seed; a task counts by their mean. If
    the arms were equal, each task's gain could as well have the other sign. So p is the share of sign flips whose mean
    is at least as far from zero: of all flips for up to 12 tasks, else of 20,000 random ones.

    The interval holds the differences that the same test does not reject. If all gains were nearly equal it would
    shrink to a point, so each end reaches at least as far as that of Bonett and Price (2012), which adds one task
    gained and one lost, but not past zero if the test rejects zero.

    ``clusters`` names the group of each task if some are similar (such as games of one room); the gains of a group then
    flip their signs together. The same input gives the same figures. Raises ``ValueError`` if the arms share no task, a
    task has no score, or a score is outside of [0, 1].
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        raise ValueError("the two arms have no task in common")
    if not all(first[task] and second[task] for task in shared):
        raise ValueError("a task without scores can't be compared")
    if not all(0.0 <= score <= 1.0 for task in shared for score in (*first[task], *second[task])):
        raise ValueError("a score outside of [0, 1] can't be compared")
    gains = np.array([np.mean(second[task]) - np.mean(first[task]) for task in shared])
    n, mean = len(gains), float(gains.mean())
    of = {task: clusters[task] if clusters else task for task in shared}
    rank = {name: number for number, name in enumerate(dict.fromkeys(of.values()))}
    sums, sizes = np.zeros(len(rank)), np.zeros(len(rank))
    np.add.at(sums, [rank[of[task]] for task in shared], gains)
    np.add.at(sizes, [rank[of[task]] for task in shared], 1.0)
    flips = _Flips(sums, sizes, seed)
    p = flips.p(0.0)
    low, high = flips.end(-1.0), flips.end(1.0)
    wide_low, wide_high = _bonett_price(sums / sizes.mean())
    if p >= LEVEL or mean < 0.0 or wide_low > 0.0:
        low = min(low, wide_low)
    if p >= LEVEL or mean > 0.0 or wide_high < 0.0:
        high = max(high, wide_high)
    many = len(rank)
    error = float(np.linalg.norm(sums - sizes * mean)) / n * math.sqrt(many / (many - 1)) if many > 1 else 0.0
    worse, better = int((gains < 0.0).sum()), int((gains > 0.0).sum())
    return PairedDifference(mean, low, high, p, error, n, worse, better, many)


class _Flips:
    """The sums of all gains over random flips of the clusters' signs, and the sums of the clusters' signed sizes."""

    def __init__(self, gains: NDArray[np.float64], sizes: NDArray[np.float64], seed: int) -> None:
        self._n, self._sum = float(sizes.sum()), float(gains.sum())
        n = len(gains)
        self._all = n <= _ALL_FLIPS_TO
        if self._all:
            bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
            drawn = [2.0 * bits - 1.0]
        else:
            rng = np.random.default_rng(seed)
            # In batches: all signs of a thousand tasks at once would take 160 MB.
            drawn = [rng.choice((-1.0, 1.0), (_BATCH, n)) for _ in range(_FLIPS // _BATCH)]
        self._sums = np.concatenate([signs @ gains for signs in drawn])
        self._signs = np.concatenate([signs @ sizes for signs in drawn])

    def p(self, difference: float) -> float:
        """Return the share of flips as far from a difference as the data; random flips count the data as one more."""
        seen = abs(self._sum - self._n * difference)
        extreme = int((np.abs(self._sums - difference * self._signs) >= seen - 1e-9).sum())
        return extreme / len(self._sums) if self._all else (extreme + 1) / (len(self._sums) + 1)

    def end(self, furthest: float) -> float:
        """Return the difference nearest to ``furthest`` that the test does not reject; p falls with the distance."""
        if self.p(furthest) >= LEVEL:
            return furthest
        inside, outside = self._sum / self._n, furthest
        for _ in range(40):  # an end at zero must reach it, or the interval contradicts p
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self.p(middle) >= LEVEL else (inside, middle)
        return inside


def _bonett_price(gains: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of Bonett and Price (2012), J. Educ. Behav. Stat. 37, for gains in [-1, 1].

    It is Wald's interval over n + 2 pairs, after adding one to the pairs gained and one to the pairs lost.
    """
    n = len(gains) + 2
    mean = float(gains.sum()) / n
    variance = (float(gains @ gains) + 2.0) / n - mean * mean
    spread = Z95 * math.sqrt(variance / n)
    return max(mean - spread, -1.0), min(mean + spread, 1.0)


def detectable(standard_error: float, *, power: float = 0.8) -> float:
    """Return about how large a true difference must be for a 95 % test to find it with the given power.

    This is the usual normal formula. Raises ``ValueError`` for a standard error that is not positive, and for a power
    outside of (0, 1).
    """
    if not standard_error > 0.0 or not 0.0 < power < 1.0:
        raise ValueError(f"a standard error of {standard_error} shows no difference with power {power}")
    return (Z95 + NormalDist().inv_cdf(power)) * standard_error


def in_words(found: Difference, n: int, *, what: str = "success", unit: str = "task") -> str:
    """Say in words what a comparison of ``n`` tasks shows, also if it shows nothing; ``unit`` is a task's name."""
    by = f"{100 * found.value:+.0f} points ({100 * found.low:+.0f} to {100 * found.high:+.0f})"
    if found.better:
        return f"{what} is higher: {by}"
    if found.worse:
        return f"{what} is lower: {by}"
    return f"no difference that {counted(n, unit)} can show: {by}"
