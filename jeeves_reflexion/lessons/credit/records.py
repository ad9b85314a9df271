"""Records that several writers change at once: reading all of them, changing one, and striking a lesson from them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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
        for record in page.records:
            yield record
        if page.next is None:
            return
        after = page.next


async def swap(
    records: RecordStore, collection: str, key: str, change: Callable[[JSON], JSON | None]
) -> bool:
    """Change a record, again and again while others change it too; returns whether it was changed.

    ``change`` gets the value and returns the new one, None to leave it. A record that isn't there is left so.
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


async def strike(records: RecordStore, collection: str, lesson_id: str, parts: Sequence[str]) -> int:
    """Take a lesson out of the lists ``parts`` of every entry of a collection; returns out of how many."""

    def without(value: JSON) -> JSON | None:
        if not isinstance(value, Mapping):
            return None
        found = [(part, value.get(part)) for part in parts]
        lists = {part: items for part, items in found if isinstance(items, list | tuple)}
        kept = {part: [item for item in items if _id_of(item) != lesson_id] for part, items in lists.items()}
        changed = {part: items for part, items in kept.items() if len(items) != len(lists[part])}
        return {**value, **changed} if changed else None

    struck = number = 0
    async for record in each_record(records, collection):
        number += 1
        if number % _IN_A_TURN == 0:
            await anyio.lowlevel.checkpoint()  # a store in memory lets nobody else have a turn
        if without(record.value) is not None:
            struck += await swap(records, collection, record.key, without)
    return struck


def _id_of(item: JSON) -> JSON:
    return item.get("lesson_id") if isinstance(item, Mapping) else item
