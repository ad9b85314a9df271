"""Reads the verdicts of the ledger, each once, and only what is new.

How: a cursor stands behind the last page whose verdicts are all old. What comes after it is read again each time, and
counted if it wasn't yet. A record's number may be drawn before it is committed (PostgreSQL does so): it then appears
behind younger ones, but never behind the cursor, because by the time that those are old it was committed or given up.
A snapshot of the sum up to the cursor, in the same store, spares a new process the beginning.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import anyio.to_thread

from jeeves_reflexion.lessons.credit.effects import Prior
from jeeves_reflexion.lessons.credit.striking import swap
from jeeves_reflexion.lessons.credit.tally import Counted, Credits, Tallies
from jeeves_reflexion.lessons.credit.verdicts import OUTCOMES, RECALLS, counted, needs_recall, written_at
from jeeves_reflexion.types import JSON
from vectorstores.base import ConflictError, Record, RecordPage, RecordStore

CREDIT: Final = "credit"
SNAPSHOT: Final = "snapshot"
SETTLE_SECONDS: Final = 300.0
SNAPSHOT_EVERY: Final = 5000
"""So many verdicts are added up before the sum is written down."""

_PAGE: Final = 300  # few enough to be counted in a few milliseconds of the event loop's time
_FORMAT: Final = 1
_PRIOR_STEP: Final = 1.02  # the prior is made anew when the verdicts have grown by so much

_logger = logging.getLogger("jeeves_reflexion")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading stands: behind the page of ``keys`` after ``before``, in front of what comes after ``next``."""

    next: str | None = None
    before: str | None = None
    size: int = 0
    digest: str = ""


class Reading:
    """The sum of the verdicts as far as they were read; for one reader at a time."""

    def __init__(self, records: RecordStore, clock: Callable[[], float], settle_seconds: float) -> None:
        if settle_seconds < 0:
            raise ValueError(f"settle_seconds must not be negative, got {settle_seconds}")
        self._records = records
        self._clock = clock
        self._settle = settle_seconds
        self._tallies = Tallies()
        self._place = _Place()
        self._window: dict[str, Counted | None] = {}
        self._begun = False
        self._settled = self._saved = self._read = 0
        self._version: int | None = None
        self._prior = Prior()
        self._prior_at = 0.0

    async def credits(self) -> Credits:
        """Read what is new and return the sum."""
        if not self._begun:
            await self._begin()
        place, settled = self._place.next, True
        while True:
            page = await self._records.scan_records(OUTCOMES, after=place, limit=_PAGE)
            await self._count(page)
            settled = settled and self._may_settle(page)
            if settled:
                self._move(page)
            if page.next is None:
                break
            place = page.next
        if self._settled - self._saved >= SNAPSHOT_EVERY:
            await self._save()
        return await self._sum()

    async def forget(self, lesson_id: str) -> None:
        """Take a lesson out of the sum, and out of the snapshot."""

        def without(value: JSON) -> JSON | None:
            if not isinstance(value, Mapping):
                return None
            rows = cast("Sequence[Sequence[JSON]]", value["tallies"])
            kept = [row for row in rows if row[0] != lesson_id]
            return {**value, "tallies": kept} if len(kept) != len(rows) else None

        self._tallies.drop(lesson_id)
        if await swap(self._records, CREDIT, SNAPSHOT, without):
            self._version = None

    async def _count(self, page: RecordPage) -> None:
        new = [record for record in page.records if record.key not in self._window]
        recalls = {record.key: await self._recall_of(record) for record in new if needs_recall(record)}
        # All of a page at once, so that a cancelled reader leaves none half counted.
        for record, change in [(each, counted(each, recalls.get(each.key))) for each in new]:
            if change is not None:
                self._tallies.add(change)
            self._window[record.key] = change
            self._read += 1

    async def _recall_of(self, record: Record) -> Mapping[str, JSON] | None:
        found = await self._records.get(RECALLS, record.key)
        return found.value if found is not None and isinstance(found.value, Mapping) else None

    def _may_settle(self, page: RecordPage) -> bool:
        old = self._clock() - self._settle
        return page.next is not None and all(written_at(record) <= old for record in page.records)

    def _move(self, page: RecordPage) -> None:
        keys = [record.key for record in page.records]
        self._place = _Place(page.next, self._place.next, len(keys), _digest(keys))
        self._settled += len(keys)
        for key in keys:
            del self._window[key]

    async def _sum(self) -> Credits:
        known = self._tallies.credits(self._prior)
        if self._read < self._prior_at:
            return known
        self._prior_at = max(self._read * _PRIOR_STEP, self._read + 20)
        self._prior = await anyio.to_thread.run_sync(known.own_prior)
        return replace(known, prior=self._prior)

    # -- the snapshot --------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        record = await self._records.get(CREDIT, SNAPSHOT)
        self._begun = True
        if record is None:
            return
        self._version = record.version
        try:
            value = cast("Mapping[str, JSON]", record.value)
            if value["format"] != _FORMAT:
                return
            place = _Place(*cast("tuple[str, str | None, int, str]", value["place"]))
            tallies, size = Tallies.from_json(value["tallies"]), cast("int", value["read"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _logger.warning("the snapshot of the credits can't be read (%r): they are counted anew", error)
            return
        # Numbers of records are the store's own: after a move or a restored backup they may mean others.
        page = await self._records.scan_records(OUTCOMES, after=place.before, limit=place.size)
        if _digest([each.key for each in page.records]) != place.digest:
            _logger.warning("the snapshot of the credits is not of this ledger: they are counted anew")
            return
        self._tallies, self._place = tallies, place
        self._settled = self._saved = self._read = size

    async def _save(self) -> None:
        place, settled = self._place, self._settled
        value: JSON = {
            "format": _FORMAT,
            "at": self._clock(),
            "read": settled,
            "place": [place.next, place.before, place.size, place.digest],
            "tallies": self._tallies.without(filter(None, self._window.values())).as_json(),
        }
        self._saved = settled
        try:
            record = await self._records.compare_and_swap(CREDIT, SNAPSHOT, value, version=self._version)
            self._version = record.version
        except ConflictError:
            # Another process wrote one, which serves as well; the next one of ours replaces it.
            record_now = await self._records.get(CREDIT, SNAPSHOT)
            self._version = None if record_now is None else record_now.version


def _digest(keys: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()
