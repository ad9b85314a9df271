"""Intervals for shares of successes."""

from __future__ import annotations

import math
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


def wilson(successes: int, n: int, *, z: float = Z95) -> Share:
    """Return the share with its Wilson score interval (Wilson 1927), by default at 95 %.

    Raises ``ValueError`` for n < 1 or successes outside 0..n: a share of nothing is unknown, not zero.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"no share of {successes} in {n}")
    p = successes / n
    centre = p + z * z / (2 * n)
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the bound is exact, which rounding would miss by a hair.
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == n else (centre + spread) / scale
    return Share(successes, n, low, high)
