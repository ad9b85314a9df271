"""Records that several writers change at once: how to read all of them, and how to change one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio.lowlevel

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.types import JSON
from vectorstores.base import ConflictError, Record, RecordStore

_TRIES: Final = 50
_PAGE: Final = 100
_IN_A_TURN: Final = 25  # few enough to be looked through in a millisecond or two of the event loop's time


async def each_record(records: RecordStore, collection: str) -> AsyncIterator[Record]:
    """Yield the records of a collection in their order, page by page."""
    after = None
    while True:
        page = await records.scan_records(collection, after=after, limit=_PAGE)
        for number, record in enumerate(page.records, 1):
            yield record
            if number % _IN_A_TURN == 0:
                await anyio.lowlevel.checkpoint()  # a store in memory never suspends by itself
        if page.next is None:
            return
        after = page.next


async def swap(
    records: RecordStore, collection: str, key: str, change: Callable[[JSON], JSON | None]
) -> bool:
    """Change a record, and try again if another writer changes it meanwhile; returns whether it was changed.

    ``change`` takes the value and returns the new one, or None to leave it. A missing record is left alone.
    """
    for _ in range(_TRIES):
        record = await records.get(collection, key)
        new = None if record is None else change(record.value)
        if record is None or new is None:
            return False
        with contextlib.suppress(ConflictError):
            await records.compare_and_swap(collection, key, new, version=record.version)
            return True
    raise LessonStoreError(f"the record {collection}/{key} kept changing while it was written; try again")
