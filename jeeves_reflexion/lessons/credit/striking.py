"""Changes of records against others who change the same ones, and striking a lesson from them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio.lowlevel

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.types import JSON
from vectorstores.base import ConflictError, Record, RecordStore

_TRIES: Final = 50
_PAGE: Final = 100
_IN_A_TURN: Final = 25  # few enough to be looked through in a millisecond or two of the event loop's time


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
        return _without(value, lesson_id, parts)

    struck, after = 0, None
    while True:
        page = await records.scan_records(collection, after=after, limit=_PAGE)
        for start in range(0, len(page.records), _IN_A_TURN):
            await anyio.lowlevel.checkpoint()  # a store in memory lets nobody else have a turn
            for record in _that_have(page.records[start : start + _IN_A_TURN], without):
                struck += await swap(records, collection, record.key, without)
        if page.next is None:
            return struck
        after = page.next


def _that_have(records: Sequence[Record], without: Callable[[JSON], JSON | None]) -> list[Record]:
    return [record for record in records if without(record.value) is not None]


def _without(value: JSON, lesson_id: str, parts: Sequence[str]) -> JSON | None:
    if not isinstance(value, Mapping):
        return None
    changed: dict[str, JSON] = {}
    for part in parts:
        items = value.get(part)
        if isinstance(items, Sequence) and not isinstance(items, str):
            kept = [item for item in items if _id_of(item) != lesson_id]
            if len(kept) != len(items):
                changed[part] = kept
    return {**value, **changed} if changed else None


def _id_of(item: JSON) -> JSON:
    return item.get("lesson_id") if isinstance(item, Mapping) else item
