"""A world in which it is known what each lesson does: topics of lessons, tasks of unequal difficulty."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["helpful", "useless", "harmful"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
EFFECT: Final[Mapping[Kind, float]] = {"helpful": 0.2, "useless": 0.0, "harmful": -0.2}

_PER_TEN: Final[tuple[Kind, ...]] = ("helpful",) * 2 + ("useless",) * 6 + ("harmful",) * 2
_BASE: Final = 0.5
_DIFFICULTY: Final = 0.25  # tasks lie within so much of the base
_NEARNESS: Final = 0.1  # how unequally near the lessons of a topic are to its tasks
_JITTER: Final = 0.1
_LEAST: Final = 0.02


@dataclass(frozen=True, slots=True)
class Taught:
    """A lesson of the world: what it does, and how near it is to the tasks of its topic."""

    id: str
    kind: Kind
    near: float

    @property
    def effect(self) -> float:
        """By how much it changes the chance of success."""
        return EFFECT[self.kind]


@dataclass(frozen=True)
class World:
    """``lessons`` in topics of ten, of which two help, two harm and six do nothing."""

    seed: int
    lessons: int = 200

    def __post_init__(self) -> None:
        if self.lessons < 10 or self.lessons % 10:
            raise ValueError(f"lessons come in tens, not {self.lessons}")

    @cached_property
    def topics(self) -> tuple[tuple[Taught, ...], ...]:
        """The lessons by topic."""
        rng = random.Random(f"world {self.seed}")
        topics = []
        for topic in range(self.lessons // 10):
            kinds = list(_PER_TEN)
            rng.shuffle(kinds)
            topics.append(
                tuple(
                    Taught(f"{topic:03d}-{n}", kind, rng.uniform(-_NEARNESS, _NEARNESS))
                    for n, kind in enumerate(kinds)
                )
            )
        return tuple(topics)

    def task(self, number: int) -> Posed:
        """Return a task: the same whichever way it is tried."""
        rng = random.Random(f"task {self.seed} {number}")
        topic = rng.choice(self.topics)
        found = {lesson.id: 0.7 + lesson.near + rng.gauss(0.0, _JITTER) for lesson in topic}
        return Posed(topic, _BASE + rng.uniform(-_DIFFICULTY, _DIFFICULTY), found, rng.random())


@dataclass(frozen=True, slots=True)
class Posed:
    """One task: the lessons of its topic, how likely it is solved without any, and how near each lesson is to it."""

    topic: tuple[Taught, ...]
    base: float
    similarity: Mapping[str, float]
    luck: float

    def chance(self, offered: Sequence[Taught]) -> float:
        """Return the chance to solve it with these lessons."""
        return min(max(self.base + sum(each.effect for each in offered), _LEAST), 1 - _LEAST)

    def solved(self, offered: Sequence[Taught]) -> bool:
        """Whether it is solved with these lessons; its luck is the same for all who try."""
        return self.luck < self.chance(offered)
