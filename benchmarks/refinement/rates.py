"""How often writer, judge and reviser are wrong, and the dice for it.

Every throw belongs to a key (problem, role, how many times before), so a run comes out the same in whatever order and
in however many processes runs are made.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from .problem import Problem, State

THRESHOLD = 0.8
"""The quality that is good enough, for the loop by its judge's score and for the oracle by the truth."""

BREAKING = 0.25
"""On the grid, a reviser that fails to mend with probability r breaks what it should leave alone with r times this."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities of error, each for one requirement in one call.

    ``right``: the writer gets it right. ``miss``: the judge does not see that it is broken; ``alarm``: the judge says
    that it is broken, and it isn't. ``fixed``: the share of requirements on which the judge's errors don't change from
    look to look. ``fail``: the reviser works on it, rightly or not, and it comes out wrong; ``breaks``: the reviser is
    not told of it, and it breaks. ``noise`` is the standard deviation of what is added to the judge's score.
    """

    right: float = 0.6
    miss: float = 0.0
    alarm: float = 0.0
    noise: float = 0.02
    fixed: float = 0.0
    fail: float = 0.0
    breaks: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], not {getattr(self, name)!r}")


def at(judge: float, reviser: float, *, right: float = 0.6, noise: float = 0.02) -> Rates:
    """Return the rates of a place on the grid."""
    return Rates(right, judge, judge, noise, 0.0, reviser, reviser * BREAKING)


def first_state(problem: Problem, rates: Rates) -> State:
    """Throw the state of the writer's first draft; the same for all rates of judge and reviser."""
    chance = random.Random(f"{problem.id}/writer")
    return tuple(chance.random() < rates.right for _ in problem.requirements)


class Eye:
    """How one judge sees states of one problem."""

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._problem = problem
        self._rates = rates
        chance = random.Random(f"{problem.id}/fixed")
        self._fixed = [(chance.random() < rates.fixed, chance.random()) for _ in problem.requirements]

    def sees(self, place: int, holds: bool, chance: random.Random) -> bool:  # noqa: FBT001
        """Return whether a requirement seems to hold."""
        throw = chance.random()
        always, fixed = self._fixed[place]
        wrong = (fixed if always else throw) < (self._rates.alarm if holds else self._rates.miss)
        return holds != wrong

    def look(self, state: State, chance: random.Random) -> tuple[State, float]:
        """Return what seems to hold, and the score: the weighted share of that, with noise, within 0 and 1."""
        seen = tuple(self.sees(place, holds, chance) for place, holds in enumerate(state))
        score = self._problem.worth(seen) + chance.gauss(0.0, self._rates.noise)
        return seen, min(max(score, 0.0), 1.0)


def mended(state: State, named: Collection[int], rates: Rates, chance: random.Random) -> State:
    """Throw what becomes of a state when a reviser is told of some requirements."""
    throws = [chance.random() for _ in state]
    return tuple(
        throws[place] >= rates.fail if place in named else holds and throws[place] >= rates.breaks
        for place, holds in enumerate(state)
    )
