"""One run of the loop with offline actors, and its true quality."""

from __future__ import annotations

import random
from dataclasses import dataclass

from jeeves_reflexion import Attempt, Evaluation, Evaluator, Refinement, RefinementOptions, Task
from jeeves_reflexion.callables import side_by_side
from jeeves_reflexion.evaluators.panel import median_of
from jeeves_reflexion.refinement.convergence import Convergence

from .actors import THRESHOLD, Eye, Judge, Mender, Rates, Writer, mended
from .problem import Problem, State

IMPROVEMENT = 0.05
"""The gain that is worth two more revisions: the loop's own ``improvement_threshold``."""

LOOKS = 5
"""How often the same text is judged for the figure of consistency."""

FURTHER = 2
"""How many more revisions are tried to decide whether stopping was right."""

CONTINUATIONS = 24
"""How often they are tried, for the mean."""

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Play:
    """How a run is made. The defaults are those of the pattern.

    ``panel`` is the number of judges; ``max_revisions`` is the pattern's ``max_iterations``; with ``veto`` a draft
    fails if any criterion fails.
    """

    max_revisions: int = 3
    panel: int = 1
    veto: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """One draft: what truly holds, its true quality, and the requirements that the judge named.

    ``base`` is the number (from 1) of the draft from which it was revised; ``None`` for the first.
    """

    state: State
    quality: float
    named: frozenset[int] = frozenset()
    base: int | None = None

    @property
    def good(self) -> bool:
        """Whether it is truly good enough."""
        return round(self.quality - THRESHOLD, _DIGITS) >= 0


@dataclass(frozen=True, slots=True)
class Record:
    """One run.

    ``returned`` is the number (from 1) of the draft that the loop returned. ``spread`` is the difference between the
    highest and the lowest of five scores of the first draft. ``further`` is the mean gain in true quality of two more
    revisions of the returned draft.
    """

    drafts: tuple[Judged, ...]
    returned: int
    spread: float = 0.0
    further: float = 0.0

    @property
    def best(self) -> Judged:
        """The draft that was returned."""
        return self.drafts[self.returned - 1]

    @property
    def gain(self) -> float:
        """By how much the returned draft is truly better than the first."""
        return round(self.best.quality - self.drafts[0].quality, _DIGITS)


async def play(problem: Problem, rates: Rates, how: Play) -> Record:
    """Write, judge and revise one problem, and measure the true quality."""
    loop = Refinement(
        Writer(problem, rates),
        evaluator=_judge(problem, rates, how),
        reviser=Mender(problem, rates),
        max_drafts=how.max_revisions + 1,
        threshold=THRESHOLD,
        options=RefinementOptions(convergence=Convergence(improvement_threshold=IMPROVEMENT)),
    )
    refined = await loop.refine(problem.task)
    drafts = []
    for draft in refined.drafts:
        state = problem.state(draft.output)
        named = problem.places_named(draft.evaluation.issues)
        drafts.append(Judged(state, problem.worth(state), named, draft.base))
    scores = await looks(problem, rates, how, refined.drafts[0].output)
    further = gain_of_more(problem, rates, problem.state(refined.best.output), veto=how.veto)
    spread = round(max(scores) - min(scores), _DIGITS)
    return Record(tuple(drafts), refined.best.number, spread, further)


async def looks(problem: Problem, rates: Rates, how: Play, text: str) -> list[float]:
    """Return five scores of one text by a new judge."""
    judge = _judge(problem, rates, how)
    verdicts = [await judge(problem.task, Attempt(text)) for _ in range(LOOKS)]
    return [verdict.score for verdict in verdicts if verdict.score is not None]


def gain_of_more(problem: Problem, rates: Rates, state: State, *, veto: bool = True) -> float:
    """Return the mean gain in true quality of two more revisions of a text.

    Each try judges the text again and continues as the loop does, from the text that the judge finds better.
    """
    chance = random.Random(f"{problem.id}/further")
    eye = Eye(problem, rates)
    gains = 0.0
    for _ in range(CONTINUATIONS):
        best = state
        seen, score = eye.look(state, chance)
        for _ in range(FURTHER):
            named = [place for place, holds in enumerate(seen) if not holds]
            new = mended(best, named, rates, chance)
            seen_now, score_now = eye.look(new, chance)
            if (veto and all(seen_now), score_now) >= (veto and all(seen), score):
                best, seen, score = new, seen_now, score_now
        gains += problem.worth(best) - problem.worth(state)
    return gains / CONTINUATIONS


def _judge(problem: Problem, rates: Rates, how: Play) -> Evaluator:
    judge = Judge(problem, rates, veto=how.veto)

    async def panel(task: Task, attempt: Attempt) -> Evaluation:
        return median_of(await side_by_side([lambda: judge(task, attempt)] * how.panel))

    return panel
