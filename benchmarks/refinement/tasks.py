"""Problems by number and seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from . import repair, reports, writing
from .problem import Problem

Key: TypeAlias = tuple[int, int]
"""The seed and the number of a problem."""

FAMILIES: dict[str, Callable[[str, random.Random], Problem]] = {
    writing.FAMILY: writing.make,
    repair.FAMILY: repair.make,
    reports.FAMILY: reports.make,
}


def problem_of(key: Key) -> Problem:
    """Make the problem of a key: the families take turns, and no two keys share a problem."""
    seed, number = key
    family = list(FAMILIES)[number % len(FAMILIES)]
    name = f"{family}-{seed}-{number}"
    return FAMILIES[family](name, random.Random(name))


def keys(tasks: int, seeds: tuple[int, ...]) -> list[Key]:
    """Return the keys of ``tasks`` problems for each seed."""
    return [(seed, number) for seed in seeds for number in range(tasks)]
