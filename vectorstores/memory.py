"""A store in memory with exact search: the reference for the tests of the other stores."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import anyio.lowlevel
import anyio.to_thread
import numpy as np

from vectorstores._engine import (
    EmbeddingCache,
    Engine,
    Opened,
    Query,
    Write,
    conflict,
    polled,
)
from vectorstores.base import (
    JSON,
    Chunk,
    Embedder,
    Page,
    Record,
    RecordPage,
    SearchHit,
    StoreClosedError,
    new_id,
)
from vectorstores.embedders import embedder_or_default
from vectorstores.matrix import Matrix
from vectorstores.store import Store

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow
    from vectorstores.base import FloatArray
    from vectorstores.filters import Node

    P = ParamSpec("P")
    T = TypeVar("T")
    _Work: TypeAlias = Callable[Concatenate["_MemoryEngine", str, P], T]
    _Operation: TypeAlias = Callable[Concatenate["_MemoryEngine", str, P], Coroutine[Any, Any, T]]

# Up to this many chunks, a search takes less time than the switch to a worker thread and back.
_INLINE: Final = 1000


class InMemoryVectorStore(Store):
    """Chunks and records in the memory of this process, searched exactly, and lost when the store is closed.

    ``embedder=None`` means all-MiniLM-L6-v2 or, with a warning, :class:`~vectorstores.HashingEmbedder` where no extra
    that can run it is installed. ``namespace=None`` makes a namespace with a random name.
    """

    def __init__(self, embedder: Embedder | None = None, *, namespace: str | None = None) -> None:
        super().__init__(_MemoryEngine(embedder), new_id() if namespace is None else namespace)


@dataclass(slots=True)
class _Entry:
    id: str
    content: str
    embed_text: str | None
    metadata: str
    # Parsed once for all filters. A reader gets its own copy, which it may change.
    known: Mapping[str, JSON] | None = None

    def chunk(self) -> Chunk:
        return Chunk(self.content, self.id, json.loads(self.metadata), self.embed_text)


@dataclass(slots=True)
class _Kept:
    row: int
    value: str
    version: int


@dataclass(slots=True)
class _Space:
    """One namespace. ``entries`` and ``records`` are in the order of the rows, because row numbers only grow."""

    matrix: Matrix
    entries: dict[int, _Entry] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    records: dict[str, dict[str, _Kept]] = field(default_factory=dict)

    def admitted(self, where: Node | None, after: int = 0) -> Iterator[int]:
        """Yield the rows that follow ``after`` and that the filter admits."""
        for row, entry in self.entries.items():
            if row > after and where is not None and entry.known is None:
                entry.known = json.loads(entry.metadata)
            if row > after and (where is None or where.matches(entry.known or {})):
                yield row


def _locked(*, whole: bool = False) -> Callable[[_Work[P, T]], _Operation[P, T]]:
    """Make a coroutine of a method, which runs under the lock: here if it handles few items, else in a thread.

    A ``whole`` one handles all chunks of its namespace, any other those of the lists and the write that it gets.
    """

    def decorate(work: _Work[P, T]) -> _Operation[P, T]:
        async def run(self: _MemoryEngine, namespace: str, /, *args: P.args, **options: P.kwargs) -> T:
            def locked() -> T:
                with self._lock:
                    return work(self, namespace, *args, **options)

            size = len(self._space(namespace).entries) if whole else 1
            for each in args:
                if isinstance(each, list | Write):
                    size = max(size, each.size if isinstance(each, Write) else len(each))
            await anyio.lowlevel.checkpoint()
            # If a worker thread holds the lock, waiting for it here would block the event loop.
            if size <= _INLINE and self._lock.acquire(blocking=False):
                try:
                    return work(self, namespace, *args, **options)
                finally:
                    self._lock.release()
            return await anyio.to_thread.run_sync(locked)

        return run

    return decorate


class _MemoryEngine(EmbeddingCache, Engine):
    def __init__(self, embedder: Embedder | None) -> None:
        super().__init__()
        self._embedder = embedder
        self._opened: Opened | None = None
        self._closed = False
        self._spaces: dict[str, _Space] = {}
        self._new_rows = itertools.count(1)
        self._writes = 0
        self._lock = threading.Lock()

    async def open(self) -> Opened:
        if self._closed:
            raise StoreClosedError("the store in memory was closed; what it held is gone")
        if self._opened is None:
            # Both may read files.
            self._opened = await anyio.to_thread.run_sync(
                lambda: Opened.by(embedder_or_default(self._embedder))
            )
        return self._opened

    async def close(self) -> None:
        self._closed = True
        self._spaces.clear()

    def _space(self, namespace: str) -> _Space:
        if self._opened is None or self._closed:
            raise StoreClosedError("the store in memory was closed; what it held is gone")
        if (space := self._spaces.get(namespace)) is None:
            space = self._spaces[namespace] = _Space(Matrix(self._opened.dim))
        return space

    @_locked()
    def write(self, namespace: str, write: Write) -> int:
        space = self._space(namespace)
        written = self._write_records(space, write.records)
        placed: list[tuple[int, FloatArray]] = []
        for row in write.rows:
            number = space.rows.get(row.id)
            if number is None:
                number = space.rows[row.id] = next(self._new_rows)
            space.entries[number] = _Entry(row.id, row.content, row.embed_text, row.metadata)
            placed.append((number, row.vector))
        placed.sort(key=lambda pair: pair[0])
        if placed:
            space.matrix.put(
                np.array([number for number, _ in placed], dtype=np.int64),
                np.stack([vector for _, vector in placed]),
            )
        deleted = [space.rows.pop(id) for id in write.ids if id in space.rows]
        for number in deleted:
            del space.entries[number]
        if deleted:
            space.matrix.remove(np.array(deleted, dtype=np.int64))
        if space.matrix.dead > len(space.matrix):
            old, space.matrix = space.matrix, Matrix(space.matrix.dim)
            places = np.flatnonzero(old.alive)
            space.matrix.put(old.rows[places], old.gather(places))
        dropped = 0
        for collection, keys in write.dropped.items():
            kept = space.records.get(collection, {})
            dropped += sum(kept.pop(key, None) is not None for key in keys)
        self._writes += 1
        return written if write.counted else len(deleted) + dropped

    def _write_records(self, space: _Space, records: Sequence[RecordRow]) -> int:
        """Write the records, or none if one does not have its expected version, and return how many were written."""
        new: dict[tuple[str, str], _Kept] = {}
        for record in records:
            place = (record.collection, record.key)
            kept = new.get(place) or space.records.get(record.collection, {}).get(record.key)
            version = 0 if kept is None else kept.version
            if record.expected not in (None, version):
                raise conflict(record, version)
            if kept is None or record.expected is not None:
                row = next(self._new_rows) if kept is None else kept.row
                new[place] = _Kept(row, record.value, version + 1)
        for (collection, key), kept in new.items():
            space.records.setdefault(collection, {})[key] = kept
        return len(new)

    @_locked(whole=True)
    def search(self, namespace: str, query: Query) -> list[SearchHit]:
        space = self._space(namespace)
        mask = None
        if query.where is not None:
            mask = np.zeros(len(space.matrix.rows), dtype=np.bool_)
            mask[space.matrix.find(np.array(list(space.admitted(query.where)), dtype=np.int64))] = True
        hits = space.matrix.search(query, mask)
        return [SearchHit(space.entries[row].chunk(), score) for row, score in hits]

    @_locked()
    def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        space = self._space(namespace)
        rows = [space.rows[id] for id in ids if id in space.rows]
        chunks = [space.entries[row].chunk() for row in rows]
        if not vectors:
            return chunks
        kept = space.matrix.gather(space.matrix.find(np.array(rows, dtype=np.int64)))
        return [replace(chunk, vector=vector) for chunk, vector in zip(chunks, kept, strict=True)]

    @_locked(whole=True)
    def count(self, namespace: str, where: Node | None) -> int:
        space = self._space(namespace)
        return len(space.entries) if where is None else sum(1 for _ in space.admitted(where))

    @_locked(whole=True)
    def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        space = self._space(namespace)
        rows = list(itertools.islice(space.admitted(where, after), limit + 1))
        chunks = tuple(space.entries[row].chunk() for row in rows[:limit])
        return Page(chunks, str(rows[limit - 1]) if len(rows) > limit else None)

    @_locked()
    def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        kept = self._space(namespace).records.get(collection, {}).get(key)
        return None if kept is None else Record(collection, key, json.loads(kept.value), kept.version)

    @_locked()
    def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        kept = self._space(namespace).records.get(collection, {})
        rest = [(key, r) for key, r in kept.items() if r.row > after]
        some = rest[:limit]
        records = tuple(Record(collection, key, json.loads(r.value), r.version) for key, r in some)
        return RecordPage(records, str(some[-1][1].row) if len(rest) > limit else None)

    def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        async def mark() -> int:
            self._space(namespace)  # raises if the store was closed
            return self._writes

        return polled(mark)
