"""What the stores of records that hold task notes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jeeves_reflexion.types import JSON
from vectorstores.base import ConflictError, Record, RecordPage


class AppendsBySwapping(Protocol):
    """Adds a record as the first version of its key, which is a swap for none."""

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        """Write a record if it is at this version."""
        ...

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        """Write a record that is not there yet; return whether it was not."""
        try:
            await self.compare_and_swap(collection, key, value, version=None)
        except ConflictError:
            return False
        return True


def page_of(records: Sequence[Record], after: str | None, limit: int) -> RecordPage:
    """Return a page of records that are all at hand; ``after`` counts those before it."""
    start = int(after or 0)
    end = start + limit
    return RecordPage(tuple(records[start:end]), str(end) if end < len(records) else None)
