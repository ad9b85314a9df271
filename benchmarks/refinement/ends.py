"""Why long runs end, and whether that was right, by reason: what the checks of convergence are worth (S05)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.refinement.figures import Mean, mean_over, share_of, stopped_well
from benchmarks.refinement.grid import Job, records_of
from benchmarks.refinement.play import Play
from benchmarks.refinement.rates import at
from benchmarks.refinement.spread import Spread
from benchmarks.refinement.tasks import Key
from jeeves_reflexion.statistics import Share

LONG = 8
"""Revisions that such a run may take: with three, scores hardly ever have the time to stand still."""

END_ERRORS = (0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class End:
    """The runs that ended for one reason, at one error of judge and reviser."""

    error: float
    reason: str
    right: Share
    quality: Mean
    revisions: Mean


def ends(keys: Sequence[Key], spread: Spread) -> list[End]:
    """Make long runs and sort them by how they ended, the most frequent reason first."""
    jobs = [Job(tuple(keys), at(error, error), Play(max_revisions=LONG)) for error in END_ERRORS]
    found = []
    for error, records in zip(END_ERRORS, spread(records_of, jobs), strict=True):
        for reason in {record.reason for record in records}:
            some = [record for record in records if record.reason == reason]
            right = share_of(map(stopped_well, some))
            if right is not None:
                quality = mean_over(some, lambda record: record.best.quality)
                revisions = mean_over(some, lambda record: len(record.drafts) - 1)
                found.append(End(error, reason, right, quality, revisions))
    return sorted(found, key=lambda end: (end.error, -end.right.n, end.reason))
