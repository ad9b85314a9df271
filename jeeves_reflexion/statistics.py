"""Intervals for shares of successes and for differences of mean scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """``successes`` of ``n``, with the bounds of an interval for the true share."""

    successes: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The observed share."""
        return self.successes / self.n

    def __str__(self) -> str:
        return f"{self.successes}/{self.n} = {self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


def wilson(successes: int, n: int, *, z: float = Z95) -> Share:
    """Return the share with its Wilson score interval (Wilson 1927), by default at 95 %.

    Raises ``ValueError`` for n < 1 or successes outside 0..n: a share of nothing is unknown, not zero.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"no share of {successes} in {n}")
    low, high = _bounds(Mean(successes / n, n), z)
    # At the ends the bound is exact, which rounding would miss by a hair.
    return Share(successes, n, low if successes else 0.0, high if successes < n else 1.0)


def clustered_share(clusters: Iterable[Sequence[bool]]) -> Share:
    """Return the share of successes for outcomes in clusters of similar members, such as the seeds of a task.

    The interval is Wilson's for the effective number of outcomes: their number divided by the design effect, which is
    the cluster-robust variance over that of independent outcomes, at least 1, and adjusted for few clusters (Korn and
    Graubard 1998). If all outcomes are equal, or there is only one cluster, their similarity can't be estimated, and
    each cluster counts as one outcome. With one outcome per cluster it is :func:`wilson`. Raises ``ValueError`` for no
    outcomes.
    """
    found = [(sum(each), len(each)) for each in clusters if each]
    successes, n, groups = sum(won for won, _ in found), sum(size for _, size in found), len(found)
    plain = wilson(successes, n)
    if groups == n:
        return plain
    p = successes / n
    if groups < 2 or p in {0.0, 1.0}:
        effective = float(groups)
    else:
        robust = groups / (groups - 1) * sum((won - size * p) ** 2 for won, size in found) / n**2
        effective = n / max(robust / (p * (1 - p) / (n - 1)), 1.0)
        effective *= (_t95(n - 1) / _t95(groups - 1)) ** 2
    low, high = _bounds(Mean(p, effective), Z95)
    return Share(successes, n, low if successes else 0.0, high if successes < n else 1.0)


def _t95(freedom: int) -> float:
    """The quantile of Student's t at the normal quantile ``Z95``, by its expansion (Abramowitz and Stegun 26.7.5)."""
    z = Z95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / (freedom * freedom) + third / (freedom * freedom * freedom)


@dataclass(frozen=True, slots=True)
class Difference:
    """How much higher the second of two means is, with the bounds of an interval for the true difference."""

    value: float
    low: float
    high: float

    @property
    def worse(self) -> bool:
        """Whether the second is lower, as far as the interval can tell."""
        return self.high < 0.0

    @property
    def better(self) -> bool:
        """Whether the second is higher, as far as the interval can tell."""
        return self.low > 0.0


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of ``n`` scores in [0, 1]; ``n`` may be the effective number of a weighted mean."""

    value: float
    n: float


def difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Return by how much the mean score changed, with an interval at 95 % (Newcombe 1998, method 10).

    Scores lie in [0, 1]. Newcombe's interval combines the Wilson intervals of two shares. Graded scores vary no more
    than successes and failures with the same mean, so the interval holds for them too, and is then wide. Raises
    ``ValueError`` for a group without scores, or a score outside [0, 1].
    """
    for scores in (before, after):
        if not scores or not all(0.0 <= score <= 1.0 for score in scores):
            raise ValueError(f"no mean of {len(scores)} scores in [0, 1]: {list(scores)[:5]}")
    first, second = (Mean(math.fsum(scores) / len(scores), len(scores)) for scores in (before, after))
    return difference_of_means(first, second)


def difference_of_means(before: Mean, after: Mean, *, z: float = Z95) -> Difference:
    """Do :func:`difference` given only the mean and number of each group's scores."""
    (p_low, p_high), (q_low, q_high) = _bounds(before, z), _bounds(after, z)
    p, q = before.value, after.value
    low = q - p - math.hypot(q - q_low, p_high - p)
    high = q - p + math.hypot(q_high - q, p - p_low)
    return Difference(q - p, low, high)


def _bounds(mean: Mean, z: float) -> tuple[float, float]:
    p, n = mean.value, mean.n
    if n <= 0 or not 0.0 <= p <= 1.0:
        raise ValueError(f"no mean of {n} scores in [0, 1]: {p}")
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    # Rounding may take the product a hair below zero.
    spread = z * math.sqrt(max(p * (1 - p), 0.0) / n + z * z / (4 * n * n))
    return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)
