"""The five figures of seed 001, section 6, and a few beside them, from the records of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jeeves_reflexion.statistics import Share

from ..report import share_of
from .record import IMPROVEMENT, Judged, Record, good

WITHIN = 3
"""Revisions within which a run should become satisfactory."""

NEAR = 0.1
"""How far apart scores of the same text may lie."""

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Bound:
    """One of the five bounds: its id in the list of requirements, what is counted, and the share wanted."""

    id: str
    title: str
    least: float
    figure: str


BOUNDS = (
    Bound("S01", "the returned text is better than the first draft", 0.80, "better"),
    Bound("S02", f"truly satisfactory within {WITHIN} revisions", 0.70, "satisfactory"),
    Bound("S03", "a real issue is resolved by the next revision", 0.85, "resolved"),
    # The seed gives no share here; nine texts in ten is ours.
    Bound("S04", f"5 scores of the same text lie within {NEAR}", 0.90, "consistent"),
    Bound("S05", "stopping was right", 0.90, "stopped"),
)


Figures: TypeAlias = Mapping[str, Share | None]
"""Shares by what they are of; None where there was nothing to count."""


def holds(share: Share | None, least: float) -> bool:
    """Whether the whole interval lies above a bound."""
    return share is not None and share.low > least


def figures(records: Sequence[Record]) -> Figures:
    """Return all figures of some runs by name."""
    short = [record for record in records if not good(record.first.quality)]
    pairs = [pair for record in records for pair in _pairs(record)]
    counted: dict[str, Iterable[bool]] = {
        "better": (_gain(record) > 0 for record in records),
        "no_worse": (_gain(record) >= 0 for record in records),
        "better_where_short": (_gain(record) > 0 for record in short),
        "satisfactory": (_within(record) and good(record.best.quality) for record in records),
        "resolved": (new.state[place] for old, new in pairs for place in old.named if not old.state[place]),
        "consistent": (round(record.spread - NEAR, _DIGITS) <= 0 for record in records),
        "stopped": (stopped_well(record) for record in records),
        "stopped_by_verdict": (
            stopped_well(record) for record in records if record.reason != "max_iterations"
        ),
        "went_on_past_good": (_went_past(record) for record in records),
        "first_good": (good(record.first.quality) for record in records),
    }
    return {name: share_of(values) for name, values in counted.items()}


def stopped_well(record: Record) -> bool:
    """Whether stopping was right: the quality is truly met, or two more revisions would not have been worth it."""
    return good(record.best.quality) or record.further < IMPROVEMENT


def _gain(record: Record) -> float:
    return round(record.best.quality - record.first.quality, _DIGITS)


def _within(record: Record) -> bool:
    return record.returned <= WITHIN + 1


def _pairs(record: Record) -> list[tuple[Judged, Judged]]:
    """Return each revised draft with the one that it was made of."""
    return [(record.drafts[draft.base - 1], draft) for draft in record.drafts if draft.base is not None]


def _went_past(record: Record) -> bool:
    """Whether a draft before the last was truly good enough, and the loop did not know."""
    return any(good(draft.quality) for draft in record.drafts[:-1])
