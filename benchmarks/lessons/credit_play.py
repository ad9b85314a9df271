"""Simulates lessons of known effect, each recalled alone at recurring tasks, and withheld at random by the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from jeeves_reflexion.lessons.credit.effects import Cell, Stratum, Withholding, fifth_of

Numbers: TypeAlias = np.ndarray[Any, Any]

FIFTHS: Final = 5


@dataclass(frozen=True, slots=True)
class Mix:
    """A lesson's tasks: how many, how hard, and how often each was tried before the lesson existed.

    ``spread`` has the parameters of the beta distribution from which each task's chance of success is drawn.
    """

    tasks: int = 20
    spread: tuple[float, float] = (2.0, 2.0)
    tried: int = 0


MIXES: Final[Mapping[str, Mix]] = {
    "alike": Mix(),
    "different": Mix(spread=(0.3, 0.3)),
    "apart": Mix(spread=(0.15, 0.15)),
    "apart, 100 tasks": Mix(100, (0.15, 0.15)),
    "apart, tried 10 times before": Mix(spread=(0.15, 0.15), tried=10),
}


@dataclass(frozen=True, slots=True)
class Chances:
    """The chance of success of each lesson's tasks (rows: lessons), without the lesson and with it."""

    without: Numbers
    having: Numbers


def chances(rng: np.random.Generator, mix: Mix, effects: Numbers) -> Chances:
    """Draw tasks on which lessons have these effects.

    A helpful lesson turns a share of failures into successes, a harmful one a share of successes into failures, the
    same share at all tasks of a lesson.
    """
    without = rng.beta(*mix.spread, (len(effects), mix.tasks)).clip(0.001, 0.999)
    effect = effects[:, None]
    saved = np.minimum(effect.clip(0) / (1 - without).mean(1, keepdims=True), 1)
    lost = np.minimum((-effect).clip(0) / without.mean(1, keepdims=True), 1)
    return Chances(without, without + (1 - without) * saved - without * lost)


class Play:
    """Recalls all lessons repeatedly, and records scores by stratum and by task, as the ledger would."""

    def __init__(
        self, rng: np.random.Generator, given: Chances, drawing: Withholding, tried: int = 0
    ) -> None:
        self._rng, self._given, self._drawing = rng, given, drawing
        self.lessons, tasks = given.without.shape
        self._rows = np.arange(self.lessons)
        self.recalls = 0
        self._shares: list[float] = []
        # By stratum, fifth, and whether the lesson lacked: the number of recalls and the sum of scores.
        self._cells = np.zeros((self.lessons, 16, FIFTHS, 2, 2))
        self._tried = np.full((self.lessons, tasks), float(tried))
        self._scores = rng.binomial(tried, given.without).astype(float)

    def recall(self, helps: Numbers) -> None:
        """Recall each lesson once, at a random task; those shown to help are withheld with the floor share."""
        rng, rows = self._rng, self._rows
        task = rng.integers(self._tried.shape[1], size=self.lessons)
        share = np.where(helps, self._drawing.floor, self._drawing.share_for(self.recalls))
        lacks = rng.random(self.lessons) < share
        chance = np.where(lacks, self._given.without[rows, task], self._given.having[rows, task])
        score = (rng.random(self.lessons) < chance).astype(float)
        mean = (self._scores.sum(1) + 0.5) / (self._tried.sum(1) + 1)
        expected = (self._scores[rows, task] + mean) / (self._tried[rows, task] + 1)
        fifth = np.minimum((expected * FIFTHS).astype(int), FIFTHS - 1)
        different, which = np.unique(share, return_inverse=True)
        stratum = np.array([self._stratum(each) for each in different.tolist()])[which]
        at = (rows, stratum, fifth, lacks.astype(int))
        self._cells[(*at, 0)] += 1
        self._cells[(*at, 1)] += score
        self._tried[rows, task] += 1
        self._scores[rows, task] += score
        self.recalls += 1

    def cells(self, lesson: int, *, by_fifth: bool = True) -> dict[Stratum, Cell]:
        """Return the cells of a lesson; without fifths, as if nothing were known about the tasks."""
        found: dict[Stratum, Cell] = {}
        mine = self._cells[lesson] if by_fifth else self._cells[lesson].sum(1, keepdims=True)
        for share, fifth in np.argwhere(mine[:, :, :, 0].sum(2)).tolist():
            (n, total), (n_without, total_without) = mine[share, fifth].tolist()
            part = fifth_of((fifth + 0.5) / FIFTHS) if by_fifth else ()
            found[self._shares[share], *part] = Cell(int(n), total, int(n_without), total_without)
        return found

    def _stratum(self, share: float) -> int:
        if share not in self._shares:
            self._shares.append(share)
        return self._shares.index(share)
