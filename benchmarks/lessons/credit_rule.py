"""The rule alone: how soon it retires a lesson of known effect, over more recalls than a world gives each lesson."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from benchmarks.lessons.credit_play import LOOK_EVERY
from benchmarks.lessons.credit_world import EFFECT, KINDS, Kind
from jeeves_reflexion.lessons.credit.effects import Cell, judge

RECALLS: Final = 1600
_EASIEST, _HARDEST = 0.75, 0.25


@dataclass(frozen=True, slots=True)
class Soon:
    """After how many recalls each of some lessons of one kind was retired; None: not within :data:`RECALLS`."""

    kind: Kind
    share: float
    retired_at: tuple[int | None, ...]


def how_soon(share: float, lessons: int, *, recalls: int = RECALLS) -> list[Soon]:
    """Recall lessons of each kind so often, each alone, and look at them every :data:`LOOK_EVERY` recalls."""
    return [
        Soon(kind, share, tuple(_one(kind, share, recalls, seed) for seed in range(lessons)))
        for kind in KINDS
    ]


def _one(kind: Kind, share: float, recalls: int, seed: int) -> int | None:
    rng = random.Random(f"rule {kind} {share} {seed}")
    n, total = [0, 0], [0.0, 0.0]
    for recall in range(1, recalls + 1):
        lacks = rng.random() < share
        chance = rng.uniform(_HARDEST, _EASIEST) + (0.0 if lacks else EFFECT[kind])
        n[lacks] += 1
        total[lacks] += rng.random() < chance
        if recall % LOOK_EVERY == 0:
            cell = Cell(n[False], total[False], n[True], total[True])
            if judge({(share,): cell}).kind == "retire":
                return recall
    return None
