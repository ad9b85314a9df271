"""The rule alone: how soon it retires a lesson of known effect, over more recalls than a world gives each lesson."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.lessons.credit_play import LOOK_EVERY, Shares
from benchmarks.lessons.credit_world import EFFECT, KINDS, Kind
from jeeves_reflexion.lessons.credit.effects import Cell, Stratum, Withholding, judge

RECALLS: Final = 1600
_EASIEST, _HARDEST = 0.75, 0.25


@dataclass(frozen=True, slots=True)
class Soon:
    """After how many recalls each of some lessons of one kind was retired; None: not within :data:`RECALLS`."""

    kind: Kind
    shares: Shares
    retired_at: tuple[int | None, ...]


def how_soon(shares: Shares, lessons: int, *, recalls: int = RECALLS) -> list[Soon]:
    """Recall lessons of each kind so often, each alone, and look at them every :data:`LOOK_EVERY` recalls."""
    return [
        Soon(kind, shares, tuple(_one(kind, shares, recalls, seed) for seed in range(lessons)))
        for kind in KINDS
    ]


def _one(kind: Kind, shares: Shares, recalls: int, seed: int) -> int | None:
    rng = random.Random(f"rule {kind} {shares} {seed}")
    drawing = Withholding(shares.share, early=shares.early or None)
    cells: dict[Stratum, Cell] = {}
    known = 0  # when it was looked at last
    for recall in range(1, recalls + 1):
        share = drawing.share_for(known)
        lacks = rng.random() < share
        chance = rng.uniform(_HARDEST, _EASIEST) + (0.0 if lacks else EFFECT[kind])
        cells[share,] = with_score(cells.get((share,), Cell()), float(rng.random() < chance), lacks=lacks)
        if recall % LOOK_EVERY == 0:
            known = recall
            if judge(cells).kind == "retire":
                return recall
    return None


def with_score(cell: Cell, score: float, *, lacks: bool) -> Cell:
    """Return the cell with one more attempt, that had the lesson or lacked it."""
    if lacks:
        return replace(cell, n_without=cell.n_without + 1, sum_without=cell.sum_without + score)
    return replace(cell, n_with=cell.n_with + 1, sum_with=cell.sum_with + score)
