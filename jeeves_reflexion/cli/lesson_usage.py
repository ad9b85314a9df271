"""How lessons were used, as far as the ledger's own sums don't say it: recalls, what was withheld, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, Verdict
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import Record, RecordStore

DAY: Final = 86_400.0
_PAGE: Final = 500


@dataclass
class Usage:
    """Counts over a ledger; times are in seconds since 1970, 0: never.

    ``empty`` recalls found nothing to offer, ``whole`` were withheld as a whole. ``offered`` and ``withheld`` count
    lessons, ``scored`` attempts with a score that counts, ``later`` scores that people gave afterwards. ``times`` and
    ``last`` say of each lesson how often and when it was last offered or withheld.
    """

    recalls: int = 0
    empty: int = 0
    whole: int = 0
    offered: int = 0
    withheld: int = 0
    scored: int = 0
    later: int = 0
    latest: float = 0.0
    times: Counter[str] = field(default_factory=Counter)
    last: dict[str, float] = field(default_factory=dict)

    @property
    def share_withheld(self) -> float:
        """The share of lessons that the draw kept back, among those that would have been offered."""
        return self.withheld / max(self.offered + self.withheld, 1)

    def idle_days(self, lesson: Lesson, now: float) -> float:
        """Return the days since a lesson was last recalled, or written if that was later."""
        return max(now - max(self.last.get(lesson.id, 0.0), lesson.provenance.created_at), 0.0) / DAY


async def usage_of(records: RecordStore) -> Usage:
    """Read a ledger from its beginning."""
    usage = Usage()
    async with store_errors("read the ledger"):
        async for record in _each(records, RECALLS):
            _count_recall(usage, record)
        async for record in _each(records, OUTCOMES):
            verdict = Verdict.read(record)
            usage.scored += verdict.before is None and verdict.counts is not None
            usage.later += verdict.kind == "feedback"
    return usage


def _count_recall(usage: Usage, record: Record) -> None:
    entry = cast("Mapping[str, JSON]", record.value)
    offered = _ids(entry.get("offered"))
    # In the first format these did not fit the budget: no draw kept them back.
    withheld = _ids(entry.get("withheld")) if "format" in entry else []
    draw = entry.get("draw")
    usage.recalls += 1
    usage.empty += not offered and not withheld
    usage.whole += isinstance(draw, Mapping) and bool(draw.get("whole"))
    usage.offered += len(offered)
    usage.withheld += len(withheld)
    at = cast("float", entry.get("at") or 0.0)
    usage.latest = max(usage.latest, at)
    for lesson_id in (*offered, *withheld):
        usage.times[lesson_id] += 1
        usage.last[lesson_id] = max(usage.last.get(lesson_id, 0.0), at)


def _ids(items: JSON) -> list[str]:
    return [str(item["lesson_id"]) for item in cast("Sequence[Mapping[str, JSON]]", items or ())]


async def _each(records: RecordStore, collection: str) -> AsyncIterator[Record]:
    after: str | None = None
    while True:
        page = await records.scan_records(collection, after=after, limit=_PAGE)
        for record in page.records:
            yield record
        if page.next is None:
            return
        after = page.next
