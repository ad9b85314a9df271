"""The offline writer, judge and reviser: they read and write texts, with given error rates.

Every random number has a key (problem, role, number of earlier draws), so a run is the same whatever the order of runs
and the number of processes.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from jeeves_reflexion import Attempt, Evaluation, Revision, RevisionRequest, Session, Task
from jeeves_reflexion.drafts import Strategy

from .problem import Problem, State

THRESHOLD = 0.8
"""The quality that is good enough, for the loop by the judge's score and for the oracle by the true quality."""

BREAKING = 0.25
"""On the grid, a reviser that fails with probability r breaks other requirements with probability r times this."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities, each for one requirement in one call.

    ``right``: the writer satisfies it. ``miss``: the judge overlooks that it is broken. ``alarm``: the judge wrongly
    says that it is broken. ``fixed``: the share of requirements on which the judge always makes the same error.
    ``fail``: the reviser works on it, and it is broken afterwards. ``breaks``: the reviser is not told of it, and
    breaks it. ``noise`` is the standard deviation of the noise in the judge's score.
    """

    right: float = 0.6
    miss: float = 0.0
    alarm: float = 0.0
    noise: float = 0.02
    fixed: float = 0.0
    fail: float = 0.0
    breaks: float = 0.0


def at(judge: float, reviser: float) -> Rates:
    """Return the rates of a place on the grid."""
    return Rates(miss=judge, alarm=judge, fail=reviser, breaks=reviser * BREAKING)


def first_state(problem: Problem, rates: Rates) -> State:
    """Draw the state of the writer's first draft, the same for all rates of judge and reviser."""
    chance = random.Random(f"{problem.id}/writer")
    return tuple(chance.random() < rates.right for _ in problem.weights)


class Eye:
    """One judge's perception of the states of one problem."""

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._problem = problem
        self._rates = rates
        chance = random.Random(f"{problem.id}/fixed")
        self._fixed = [(chance.random() < rates.fixed, chance.random()) for _ in problem.weights]

    def look(self, state: State, chance: random.Random) -> tuple[State, float]:
        """Return what seems to hold, and the score: its weighted share with noise, between 0 and 1."""
        seen = tuple(self._sees(place, holds, chance.random()) for place, holds in enumerate(state))
        score = self._problem.worth(seen) + chance.gauss(0.0, self._rates.noise)
        return seen, min(max(score, 0.0), 1.0)

    def _sees(self, place: int, holds: bool, throw: float) -> bool:  # noqa: FBT001
        always, fixed = self._fixed[place]
        wrong = (fixed if always else throw) < (self._rates.alarm if holds else self._rates.miss)
        return holds != wrong


def mended(state: State, named: Collection[int], rates: Rates, chance: random.Random) -> State:
    """Draw the state after a reviser was told of some requirements."""
    throws = [chance.random() for _ in state]
    return tuple(
        throws[place] >= rates.fail if place in named else holds and throws[place] >= rates.breaks
        for place, holds in enumerate(state)
    )


class Writer:
    """Writes the first draft: an ``Agent``."""

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._text = problem.write(first_state(problem, rates))

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the draft."""
        return Attempt(self._text)


class Judge:
    """Judges drafts of one run: an ``Evaluator``. It judges the same text again with other errors.

    With ``veto`` a draft passes if its score reaches the threshold and nothing seems broken, else by the score alone.
    """

    def __init__(self, problem: Problem, rates: Rates, *, veto: bool = True) -> None:
        self._problem = problem
        self._eye = Eye(problem, rates)
        self._veto = veto
        self._looks = 0

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict: the score, and an issue for each requirement that seems broken."""
        self._looks += 1
        chance = random.Random(f"{self._problem.id}/judge/{self._looks}")
        seen, score = self._eye.look(self._problem.state(attempt.output), chance)
        held = dict(zip(self._problem.names, seen, strict=True))
        return Evaluation(
            score,
            passed=score >= THRESHOLD and all(seen) if self._veto else None,
            criteria_scores={name: float(holds) for name, holds in held.items()},
            issues=tuple(f"{name}: it is not kept" for name, holds in held.items() if not holds),
        )


class Mender:
    """Revises drafts of one run by the named issues: a ``Reviser``."""

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._problem = problem
        self._rates = rates

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        """Return the revised text."""
        problem, issues = self._problem, request.feedback.issues
        chance = random.Random(f"{problem.id}/reviser/{len(request.history)}")
        state = problem.state(request.draft.output)
        new = mended(state, problem.places_named(issues), self._rates, chance)
        way: Strategy = "full_rewrite" if request.failed == "incremental" else "incremental"
        return Revision(problem.write(new), way, addressed=issues)
