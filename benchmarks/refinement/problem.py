"""A task whose quality can be computed: requirements with weights, and texts that name those that they satisfy."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jeeves_reflexion import Task

State: TypeAlias = tuple[bool, ...]
"""Which requirements hold, in the problem's order."""

FEWEST, MOST = 4, 8
"""How many requirements a problem has."""

WEIGHTS = (1.0, 1.5, 2.0)


@dataclass(frozen=True, slots=True)
class Problem:
    """A task with a requirement for each weight. A text satisfies the requirements that it names."""

    id: str
    weights: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the requirements."""
        return tuple(f"r{number}" for number in range(1, len(self.weights) + 1))

    @property
    def task(self) -> Task:
        """The task as the loop sees it: no reference and no weights."""
        return Task(f"Keep {', '.join(self.names)}, and name what you keep.", id=self.id)

    def write(self, state: State) -> str:
        """Return a text that satisfies exactly the requirements of the state."""
        return " ".join(["Kept:", *(name for name, held in zip(self.names, state, strict=True) if held)])

    def state(self, text: str) -> State:
        """Return which requirements a text satisfies."""
        kept = text.split()
        return tuple(name in kept for name in self.names)

    def worth(self, state: State) -> float:
        """Return the true quality, from 0 to 1: the weighted share of the requirements that hold."""
        held = sum(weight for weight, holds in zip(self.weights, state, strict=True) if holds)
        return held / sum(self.weights)

    def places_named(self, issues: Collection[str]) -> frozenset[int]:
        """Return the requirements named by issues, which begin with a requirement's name and a colon."""
        named = {issue.partition(":")[0] for issue in issues}
        return frozenset(place for place, name in enumerate(self.names) if name in named)


def problems(tasks: int, seeds: Sequence[int]) -> tuple[Problem, ...]:
    """Draw that many problems for each seed."""
    return tuple(_problem(f"{seed}-{number}") for seed in seeds for number in range(tasks))


def _problem(id: str) -> Problem:
    chance = random.Random(id)
    return Problem(id, tuple(chance.choices(WEIGHTS, k=chance.randint(FEWEST, MOST))))
