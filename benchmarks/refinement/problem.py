"""A task with a checkable notion of quality: several requirements, each of which holds of a text or doesn't."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jeeves_reflexion import Task
from jeeves_reflexion.text import bullets

State: TypeAlias = tuple[bool, ...]
"""Which requirements hold, in the problem's order."""

FEWEST, MOST = 4, 8
"""How many requirements a problem has."""

WEIGHTS = (1.0, 1.5, 2.0)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a text must do; ``check`` is the oracle's, and ``description`` all that anybody else is told."""

    name: str
    description: str
    check: Callable[[str], bool]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A task, its requirements, and a text for every state of them.

    ``write`` returns a text of which just those requirements hold that the state says: the offline writer and reviser
    use it, and a real model never sees it.
    """

    id: str
    family: str
    prompt: str
    requirements: tuple[Requirement, ...]
    write: Callable[[State], str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the requirements."""
        return tuple(requirement.name for requirement in self.requirements)

    @property
    def task(self) -> Task:
        """The task as the loop sees it: no reference and no checks."""
        return Task(self.prompt, id=self.id, kind=self.family)

    def state(self, text: str) -> State:
        """Return which requirements hold of a text."""
        return tuple(requirement.check(text) for requirement in self.requirements)

    def worth(self, state: State) -> float:
        """Return the weighted share of the requirements that hold: the true quality, from 0 to 1."""
        total = sum(requirement.weight for requirement in self.requirements)
        held = sum(one.weight for one, holds in zip(self.requirements, state, strict=True) if holds)
        return held / total

    def quality(self, text: str) -> float:
        """Return the true quality of a text."""
        return self.worth(self.state(text))


def some_of(pool: Sequence[Requirement], chance: random.Random) -> tuple[Requirement, ...]:
    """Choose 4 to 8 requirements of a pool, in its order, and give each a weight."""
    count = chance.randint(FEWEST, min(MOST, len(pool)))
    chosen = sorted(chance.sample(range(len(pool)), count))
    return tuple(
        Requirement(pool[i].name, pool[i].description, pool[i].check, chance.choice(WEIGHTS)) for i in chosen
    )


def prompt_of(opening: str, requirements: Sequence[Requirement], material: str = "") -> str:
    """Write a task: what to do, each requirement as a line, and the material."""
    parts = [opening, "Requirements:\n" + bullets([one.description for one in requirements])]
    return "\n\n".join([*parts, material] if material else parts)


def broken_in(requirements: Sequence[Requirement], state: State) -> frozenset[str]:
    """Return the names of the requirements that a state says don't hold; those that were not chosen hold."""
    return frozenset(one.name for one, holds in zip(requirements, state, strict=True) if not holds)
