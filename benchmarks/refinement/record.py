"""What one run of the loop came to, as the oracle sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jeeves_reflexion import Refined

from .actors import places_named
from .problem import Problem, State
from .rates import THRESHOLD

IMPROVEMENT = 0.05
"""The gain that is worth two more revisions: the loop's own ``improvement_threshold``."""

_DIGITS = 9


def good(quality: float) -> bool:
    """Whether a quality is good enough."""
    return round(quality - THRESHOLD, _DIGITS) >= 0


@dataclass(frozen=True, slots=True)
class Judged:
    """One draft: what truly holds, what the judge named (places of requirements), and what the loop made of it.

    ``base`` is the number of the draft that it was revised from, from 1; ``None`` for the first.
    """

    state: State
    quality: float
    named: frozenset[int] = frozenset()
    satisfactory: bool = False
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One run.

    ``returned`` is the number of the draft that the loop handed over, from 1. ``spread`` is the highest less the
    lowest of five scores for the first draft. ``further`` is what two more revisions would add to the true quality of
    the returned draft, on the mean.
    """

    problem: str
    drafts: tuple[Judged, ...]
    returned: int
    reason: str
    spread: float = 0.0
    further: float = 0.0

    @property
    def first(self) -> Judged:
        """The first draft."""
        return self.drafts[0]

    @property
    def best(self) -> Judged:
        """The draft that was returned."""
        return self.drafts[self.returned - 1]


def record_of(problem: Problem, refined: Refined, *, spread: float = 0.0, further: float = 0.0) -> Record:
    """Look at a run with the oracle's eyes."""
    drafts = []
    for draft in refined.drafts:
        state = problem.state(draft.output)
        named = places_named(problem, draft.evaluation.issues)
        drafts.append(Judged(state, problem.worth(state), named, draft.satisfactory, draft.base))
    return Record(
        problem=problem.id,
        drafts=tuple(drafts),
        returned=refined.best.number,
        reason=refined.reason.value,
        spread=spread,
        further=further,
    )


def spread_of(scores: Sequence[float]) -> float:
    """Return the highest score less the lowest."""
    return max(scores) - min(scores)
