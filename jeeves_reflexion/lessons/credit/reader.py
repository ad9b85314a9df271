"""Reads the verdicts of the ledger, each once, and only what is new.

How: a cursor stands behind the last page whose verdicts are all old. What comes after it is read again each time, and
counted if it wasn't yet. A record's number may be drawn before it is committed (PostgreSQL does so): it then appears
behind younger ones, but never behind the cursor, because by the time that those are old it was committed or given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import anyio.to_thread

from jeeves_reflexion.lessons.credit.effects import Prior
from jeeves_reflexion.lessons.credit.tally import Credits, Tallies
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, counted, needs_recall, written_at
from jeeves_reflexion.types import JSON
from vectorstores.base import Record, RecordPage, RecordStore

SNAPSHOT: Final = ("credit", "snapshot")
"""Collection and key of the sum that earlier versions wrote down; it names lessons, so forgetting takes it away."""
SETTLE_SECONDS: Final = 300.0

_PAGE: Final = 300  # few enough to be counted in a few milliseconds of the event loop's time
_PRIOR_STEP: Final = 1.02  # the prior is made anew when the verdicts have grown by so much


class VerdictReader:
    """The sum of the verdicts as far as they were read; for one reader at a time."""

    def __init__(self, records: RecordStore, clock: Callable[[], float], settle_seconds: float) -> None:
        if settle_seconds < 0:
            raise ValueError(f"settle_seconds must not be negative, got {settle_seconds}")
        self._records = records
        self._clock = clock
        self._settle = settle_seconds
        self._tallies = Tallies()
        self._cursor: str | None = None
        self._counted: set[str] = set()  # keys of what was counted and stands behind the cursor
        self._read = 0
        self._prior = Prior()
        self._prior_at = 0.0

    async def credits(self) -> Credits:
        """Read what is new and return the sum."""
        after, settled = self._cursor, True
        while True:
            page = await self._records.scan_records(OUTCOMES, after=after, limit=_PAGE)
            await self._count(page)
            if page.next is None:
                return await self._sum()
            old = self._clock() - self._settle
            settled = settled and all(written_at(record) <= old for record in page.records)
            after = page.next
            if settled:
                self._cursor = after
                self._counted.difference_update(record.key for record in page.records)

    async def forget(self, lesson_id: str) -> None:
        """Take a lesson out of the sum."""
        self._tallies.drop(lesson_id)
        await self._records.delete_records(SNAPSHOT[0], [SNAPSHOT[1]])

    async def _count(self, page: RecordPage) -> None:
        new = [record for record in page.records if record.key not in self._counted]
        recalls = {record.key: await self._recall_of(record) for record in new if needs_recall(record)}
        # All of a page at once, so that a cancelled reader leaves none half counted.
        for record, change in [(each, counted(each, recalls.get(each.key))) for each in new]:
            if change is not None:
                self._tallies.add(change)
            self._counted.add(record.key)
            self._read += 1

    async def _recall_of(self, record: Record) -> Mapping[str, JSON] | None:
        found = await self._records.get(RECALLS, record.key)
        return found.value if found is not None and isinstance(found.value, Mapping) else None

    async def _sum(self) -> Credits:
        known = self._tallies.credits(self._prior)
        if self._read < self._prior_at:
            return known
        self._prior_at = max(self._read * _PRIOR_STEP, self._read + 20)
        self._prior = await anyio.to_thread.run_sync(known.own_prior)
        return replace(known, prior=self._prior)
