"""What is written through a shelf is told at once to those who keep something of a store in memory."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Final, Protocol

from vectorstores.base import Chunk, RecordWrite, VectorStore


class Listener(Protocol):
    """Whoever is told."""

    def written(self, chunks: Sequence[Chunk]) -> None:
        """Take note of chunks that are stored now; called on the event loop."""
        ...

    def deleted(self, ids: Sequence[str]) -> None:
        """Take note of the ids of chunks that are gone."""
        ...


_LISTENING: Final[weakref.WeakKeyDictionary[VectorStore, weakref.WeakSet[Listener]]] = (
    weakref.WeakKeyDictionary()
)


class Telling:
    """A store that tells the listeners of the store below, of this process, what is added and deleted through it.

    Everything else of the store below is its own.
    """

    def __init__(self, store: VectorStore, listener: Listener) -> None:
        self._store = store
        self._listeners = _listeners(store)
        self._listeners.add(listener)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def add(self, chunks: Sequence[Chunk], *, records: Sequence[RecordWrite] = ()) -> list[str]:
        """Add to the store below, and tell."""
        ids = await self._store.add(chunks, records=records)
        for each in self._listeners:
            each.written(chunks)
        return ids

    async def delete(self, ids: Sequence[str], *, records: Sequence[RecordWrite] = ()) -> int:
        """Delete from the store below, and tell."""
        gone = await self._store.delete(ids, records=records)
        for each in self._listeners:
            each.deleted(ids)
        return gone


def _listeners(store: VectorStore) -> weakref.WeakSet[Listener]:
    """Those that are told of writes to a store; of one that can't be a key, each has its own writes alone."""
    try:
        return _LISTENING.setdefault(store, weakref.WeakSet())
    except TypeError:
        return weakref.WeakSet()
