"""What an arm came to, beside another over the same problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.refinement.figures import Mean, mean_of, mean_over, share_of
from benchmarks.refinement.record import Record, good
from jeeves_reflexion.statistics import Share


@dataclass(frozen=True, slots=True)
class Outcome:
    """The runs of one arm.

    ``quality`` is the true quality of what was returned, ``met`` the share that is truly good enough, ``fooled`` the
    share that the judge passed and that is not. ``difference`` is in quality, paired by problem, to the arm that it is
    held against; ``tokens`` are those of a run.
    """

    name: str
    quality: Mean
    met: Share
    fooled: Share
    revisions: float
    tokens: float = 0.0
    difference: Mean | None = None


def outcome_of(name: str, records: Sequence[Record], against: Sequence[float] = ()) -> Outcome:
    """Count the runs of an arm; ``against`` are the qualities of another over the same problems, in the same order.

    Raises ``ValueError`` where there are no runs, or not as many as those to compare with.
    """
    met = share_of(good(record.best.quality) for record in records)
    fooled = share_of(record.best.satisfactory and not good(record.best.quality) for record in records)
    if met is None or fooled is None:
        raise ValueError("an arm without runs has no outcome")
    pairs = zip(records, against, strict=True) if against else ()
    gaps = [record.best.quality - other for record, other in pairs]
    return Outcome(
        name=name,
        quality=mean_over(records, lambda record: record.best.quality),
        met=met,
        fooled=fooled,
        revisions=mean_over(records, lambda record: len(record.drafts) - 1).value,
        tokens=mean_over(records, lambda record: record.tokens).value,
        difference=mean_of(gaps) if gaps else None,
    )


def first_drafts(records: Sequence[Record]) -> Outcome:
    """Return what the first drafts of some runs came to, had nobody judged them."""
    met = share_of(good(record.first.quality) for record in records)
    nobody = share_of(False for _ in records)
    if met is None or nobody is None:
        raise ValueError("an arm without runs has no outcome")
    return Outcome(
        name="first draft alone",
        quality=mean_over(records, lambda record: record.first.quality),
        met=met,
        fooled=nobody,
        revisions=0.0,
        tokens=mean_over(records, lambda record: record.tokens_to_write).value,
    )


def qualities(records: Sequence[Record]) -> list[float]:
    """Return the true quality of what each run returned."""
    return [record.best.quality for record in records]
