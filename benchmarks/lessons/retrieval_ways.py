"""The ways to recall that are compared, each beside the default."""

from __future__ import annotations

from typing import Final

from benchmarks.lessons.retrieval_recall import Way, same_kind_first
from jeeves_reflexion.lessons.recalling import Picking

DEFAULT: Final = Way("nearest")
_HYBRID: Final = Picking(strategy="hybrid")
_SEED002: Final = Picking(strategy="structured_reflections")

STRATEGIES: Final = (
    DEFAULT,
    Way("hybrid", picking=_HYBRID),
    Way("seed002", picking=_SEED002),
    Way("seed002, kind of task unknown", picking=_SEED002, kinds=False),
    Way("same kind first, then nearest", picking=Picking(strategy=same_kind_first)),
    Way("nearest, key lesson", key="lesson"),
    Way("nearest, key both", key="both"),
    Way("hybrid, key lesson", key="lesson", picking=_HYBRID),
    Way("hybrid, key both", key="both", picking=_HYBRID),
)
LIKENESSES: Final = tuple(
    Way(f"max_likeness {most}", picking=Picking(max_likeness=most)) for most in (1.0, 0.85, 0.7, 0.6, 0.4)
)
POOLS: Final = tuple(
    Way(f"{name}, pool {pool} k", picking=picking, pool=pool)
    for name, picking in (("nearest", Picking()), ("hybrid", _HYBRID), ("seed002", _SEED002))
    for pool in (1, 2, 4, 8)
)
FLOORS: Final = (-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
EVERYTHING: Final = Way("no floor", floor=-1.0)

PLAYED: Final = (
    DEFAULT,
    Way("hybrid", picking=_HYBRID),
    Way("seed002", picking=_SEED002),
    Way("same kind first, then nearest", picking=Picking(strategy=same_kind_first)),
    Way("nearest, key lesson", key="lesson"),
    Way("nearest, key both", key="both"),
    Way("floor 0.6", floor=0.6),
    Way("floor 0.8", floor=0.8),
    Way("floor 0.9", floor=0.9),
    Way("max_likeness 0.6", picking=Picking(max_likeness=0.6)),
    Way("max_likeness 1.0", picking=Picking(max_likeness=1.0)),
)
