"""Figures of a ranked list and their intervals: nDCG, recall, precision, reciprocal rank; a bootstrap over clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from benchmarks.lessons.retrieval_data import BEARS

RESAMPLES: Final = 2000
DEPTH: Final = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """One recall: the grades and similarities of what was offered, best first, and the grades of all that could be."""

    query: str
    cluster: str
    offered: tuple[int, ...]
    possible: tuple[int, ...]
    similarities: tuple[float, ...] = ()

    def above(self, floor: float) -> Asked:
        """Return what a similarity floor leaves of a recall that was ordered by similarity."""
        kept = sum(similarity >= floor for similarity in self.similarities)
        return replace(self, offered=self.offered[:kept], similarities=self.similarities[:kept])

    @property
    def answerable(self) -> bool:
        """Whether the library had anything that bears on the task."""
        return any(grade >= BEARS for grade in self.possible)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % bootstrap interval; NaN where nothing could be measured."""

    value: float
    low: float
    high: float


def ndcg(asked: Asked) -> float:
    """Normalised discounted cumulative gain at 5, gains 2^grade - 1 (Järvelin, Kekäläinen 2002)."""
    best = _dcg(sorted(asked.possible, reverse=True))
    return _dcg(asked.offered) / best if best else math.nan


def recall(asked: Asked, depth: int = DEPTH) -> float:
    """Relevant ones among the first, of as many as could be there: min(depth, relevant)."""
    relevant = sum(grade >= BEARS for grade in asked.possible)
    found = sum(grade >= BEARS for grade in asked.offered[:depth])
    return found / min(depth, relevant) if relevant else math.nan


def first(asked: Asked) -> float:
    """1 if the first one offered is relevant, else 0."""
    return recall(asked, 1)


def reciprocal_rank(asked: Asked) -> float:
    """1 / the place of the first relevant one, 0 where none is offered; NaN if there is none to offer."""
    if not asked.answerable:
        return math.nan
    return next((1 / at for at, grade in enumerate(asked.offered, 1) if grade >= BEARS), 0.0)


def precision(asked: Asked) -> float:
    """The share of relevant ones among those offered; NaN if none was."""
    offered = asked.offered[:DEPTH]
    return sum(grade >= BEARS for grade in offered) / len(offered) if offered else math.nan


def empty(asked: Asked) -> float:
    """1 if nothing was offered."""
    return float(not asked.offered)


FIGURES: Final = {
    "nDCG@5": ndcg,
    "recall@1": first,
    "recall@5": recall,
    "MRR": reciprocal_rank,
    "precision": precision,
    "empty": empty,
}


def estimates(asked: Sequence[Asked]) -> dict[str, Estimate]:
    """Return all figures with their intervals."""
    return {name: _estimate(_summed(asked, name)) for name in FIGURES}


def differences(asked: Sequence[Asked], beside: Sequence[Asked]) -> dict[str, Estimate]:
    """Return by how much the figures of one way to recall exceed those of another, over the same queries."""
    if [each.query for each in asked] != [each.query for each in beside]:
        raise ValueError("paired figures need the same queries in the same order")
    return {name: _estimate(_summed(asked, name), _summed(beside, name)) for name in FIGURES}


def shares(won: Mapping[str, Sequence[bool]], beside: Mapping[str, Sequence[bool]]) -> Estimate:
    """Return by how much the share of games won exceeds that of another way; a game is a cluster of its seeds."""
    mine, other = ({game: (float(sum(w)), len(w)) for game, w in each.items()} for each in (won, beside))
    return _estimate(mine, other)


def _dcg(grades: Sequence[int]) -> float:
    return math.fsum((2**grade - 1) / math.log2(at + 1) for at, grade in enumerate(grades[:DEPTH], 1))


def _summed(asked: Sequence[Asked], name: str) -> Mapping[str, tuple[float, int]]:
    """Sum and number of a figure's values by cluster; queries for which it is not defined count in neither."""
    sums: dict[str, tuple[float, int]] = {}
    for each in asked:
        value = FIGURES[name](each)
        total, number = sums.get(each.cluster, (0.0, 0))
        known = not math.isnan(value)
        sums[each.cluster] = (total + value * known if known else total, number + known)
    return sums


def _estimate(
    sums: Mapping[str, tuple[float, int]], beside: Mapping[str, tuple[float, int]] | None = None
) -> Estimate:
    clusters = sorted(sums)
    rng = np.random.default_rng(0)  # the same draws for all figures, so that differences are paired
    drawn = rng.integers(len(clusters), size=(RESAMPLES, len(clusters)))
    every = np.arange(len(clusters))[None, :]
    value, samples = _mean(sums, clusters, every)[0], _mean(sums, clusters, drawn)
    if beside is not None:
        value, samples = (
            value - _mean(beside, clusters, every)[0],
            samples - _mean(beside, clusters, drawn),
        )
    if math.isnan(value):
        return Estimate(math.nan, math.nan, math.nan)
    low, high = np.nanpercentile(samples, [2.5, 97.5])
    return Estimate(float(value), float(low), float(high))


def _mean(
    sums: Mapping[str, tuple[float, int]], clusters: Sequence[str], drawn: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    totals = np.array([sums[name][0] for name in clusters])
    numbers = np.array([sums[name][1] for name in clusters], dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[drawn].sum(axis=1) / numbers[drawn].sum(axis=1))
