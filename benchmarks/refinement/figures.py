"""The five figures of the success criteria, and two more, from the records of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jeeves_reflexion.statistics import Share

from ..report import share_of
from .play import IMPROVEMENT, Record

WITHIN = 3
"""Revisions within which a run should become satisfactory."""

NEAR = 0.1
"""The largest difference allowed between scores of the same text."""


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
    # The requirements give no share here; nine texts in ten is our choice.
    Bound("S04", f"5 scores of the same text lie within {NEAR}", 0.90, "consistent"),
    Bound("S05", "stopping was right", 0.90, "stopped"),
)


Figures: TypeAlias = Mapping[str, Share | None]
"""Shares by name; None if there was nothing to count."""


def holds(share: Share | None, least: float) -> bool:
    """Return whether the whole interval is above a bound."""
    return share is not None and share.low > least


def figures(records: Sequence[Record]) -> Figures:
    """Return all figures of some runs by name."""
    pairs = [
        (record.drafts[draft.base - 1], draft)
        for record in records
        for draft in record.drafts
        if draft.base is not None
    ]
    counted: dict[str, Iterable[bool]] = {
        "better": (record.gain > 0 for record in records),
        "better_where_short": (record.gain > 0 for record in records if not record.drafts[0].good),
        "satisfactory": (record.best.good and record.returned <= WITHIN + 1 for record in records),
        "resolved": (new.state[place] for old, new in pairs for place in old.named if not old.state[place]),
        "consistent": (record.spread <= NEAR for record in records),
        # The text is truly good enough, or two more revisions would not have been worth it.
        "stopped": (record.best.good or record.further < IMPROVEMENT for record in records),
        # An earlier draft was truly good enough, and the loop did not know.
        "went_on_past_good": (any(draft.good for draft in record.drafts[:-1]) for record in records),
    }
    return {name: share_of(values) for name, values in counted.items()}
