"""Task notes in the memory of this process."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Final

import anyio.lowlevel

from jeeves_reflexion.tasknotes.records import page_of
from jeeves_reflexion.tasknotes.versioned import VersionedReflectionStore
from jeeves_reflexion.types import JSON
from vectorstores.base import ConflictError, Record, RecordPage

_FIRST: Final = 1


class InMemoryReflectionStore(VersionedReflectionStore):
    """Task notes that are gone with this object; safe for tasks and threads at once."""

    def __init__(self) -> None:
        self._kept = _MemoryRecords()
        super().__init__(self._kept)

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    @property
    def size(self) -> int:
        """The number of tasks that have notes."""
        return self._kept.size

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()


class _MemoryRecords:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}

    @property
    def size(self) -> int:
        with self._lock:
            return len(self._records)

    def clear(self) -> None:
        with self._lock:
            self._records.clear()

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        await anyio.lowlevel.checkpoint()
        with self._lock:
            new = Record(collection, key, copy.deepcopy(value), _FIRST)
            return self._records.setdefault((collection, key), new) is new

    async def get(self, collection: str, key: str) -> Record | None:
        await anyio.lowlevel.checkpoint()
        with self._lock:
            return self._records.get((collection, key))

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        await anyio.lowlevel.checkpoint()
        with self._lock:
            found = self._records.get((collection, key))
            if (None if found is None else found.version) != version:
                raise ConflictError(f"record {collection}/{key} is not at version {version}")
            record = Record(collection, key, copy.deepcopy(value), _FIRST if version is None else version + 1)
            self._records[collection, key] = record
            return record

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        await anyio.lowlevel.checkpoint()
        with self._lock:
            found = [record for record in self._records.values() if record.collection == collection]
        return page_of(found, after, limit)

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        await anyio.lowlevel.checkpoint()
        with self._lock:
            return sum(self._records.pop((collection, key), None) is not None for key in dict.fromkeys(keys))
