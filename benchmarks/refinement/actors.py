"""The offline writer, judge and reviser: they work on real texts, and are wrong as often as they are told to be."""

from __future__ import annotations

import random
from collections.abc import Collection

from jeeves_reflexion import Attempt, Evaluation, Revision, RevisionRequest, Session, Task
from jeeves_reflexion.drafts import Strategy

from .problem import Problem
from .rates import THRESHOLD, Eye, Rates, first_state, mended


class Writer:
    """Writes the first draft: an ``Agent``."""

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._text = problem.write(first_state(problem, rates))

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the draft."""
        return Attempt(self._text)


class Judge:
    """Judges drafts of one run: an ``Evaluator``. A text that it sees again is judged anew, with other errors.

    With ``veto`` a draft passes when its score reaches the threshold and nothing seems broken, else by the score alone.
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
        requirements = self._problem.requirements
        return Evaluation(
            score,
            passed=score >= THRESHOLD and all(seen) if self._veto else None,
            criteria_scores={one.name: float(held) for one, held in zip(requirements, seen, strict=True)},
            issues=tuple(
                f"{one.name}: not so: {one.description}"
                for one, held in zip(requirements, seen, strict=True)
                if not held
            ),
        )


class Mender:
    """Revises drafts of one run by the issues that were named: a ``Reviser``."""

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._problem = problem
        self._rates = rates

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        """Return the revised text."""
        issues = request.feedback.issues
        chance = random.Random(f"{self._problem.id}/reviser/{len(request.history)}")
        state = self._problem.state(request.draft.output)
        new = mended(state, places_named(self._problem, issues), self._rates, chance)
        way: Strategy = "full_rewrite" if request.failed == "incremental" else "incremental"
        return Revision(self._problem.write(new), way, addressed=issues)


def places_named(problem: Problem, issues: Collection[str]) -> frozenset[int]:
    """Return which requirements are named by issues, each of which begins with a requirement's name and a colon."""
    named = {issue.partition(":")[0].strip() for issue in issues}
    return frozenset(place for place, name in enumerate(problem.names) if name in named)
