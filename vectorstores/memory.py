"""A store in memory with exact search: the reference for the tests of the other stores."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.lowlevel
import anyio.to_thread
import numpy as np

from vectorstores._engine import (
    EmbeddingCache,
    Engine,
    Opened,
    Query,
    conflict_message,
    polled,
    taken_message,
)
from vectorstores.base import (
    JSON,
    Chunk,
    ConflictError,
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
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import FloatArray
    from vectorstores.filters import Node

T = TypeVar("T")

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

    def admitted_by(self, where: Node) -> bool:
        if self.known is None:
            self.known = self.metadata_object()
        return where.matches(self.known)

    def metadata_object(self) -> dict[str, JSON]:
        metadata: dict[str, JSON] = json.loads(self.metadata)
        return metadata

    def chunk(self) -> Chunk:
        return Chunk(self.content, self.id, self.metadata_object(), self.embed_text)


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


class _MemoryEngine(EmbeddingCache, Engine):
    def __init__(self, embedder: Embedder | None) -> None:
        super().__init__()
        self._embedder = embedder
        self._opened: Opened | None = None
        self._closed = False
        self._spaces: dict[str, _Space] = {}
        self._next_row = 1
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

    async def _run(self, work: Callable[[], T], size: int) -> T:
        await anyio.lowlevel.checkpoint()
        # If a worker thread holds the lock, waiting for it here would block the event loop.
        if size <= _INLINE and self._lock.acquire(blocking=False):
            try:
                return work()
            finally:
                self._lock.release()
        return await anyio.to_thread.run_sync(self._locked, work)

    async def _write(self, work: Callable[[], T], size: int) -> T:
        result = await self._run(work, size)
        self._writes += 1
        return result

    def _locked(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()

    def _space(self, namespace: str) -> _Space:
        if self._opened is None or self._closed:
            raise StoreClosedError("the store in memory was closed; what it held is gone")
        if (space := self._spaces.get(namespace)) is None:
            space = self._spaces[namespace] = _Space(Matrix(self._opened.dim))
        return space

    async def write(
        self,
        namespace: str,
        rows: Sequence[Row],
        records: Sequence[RecordRow],
        embeddings: Mapping[bytes, FloatArray],
    ) -> None:
        def work() -> None:
            space = self._space(namespace)
            self._check_new(space, records)
            placed: list[tuple[int, FloatArray]] = []
            for row in rows:
                number = space.rows.get(row.id)
                if number is None:
                    number = space.rows[row.id] = self._take_row()
                space.entries[number] = _Entry(row.id, row.content, row.embed_text, row.metadata)
                placed.append((number, row.vector))
            placed.sort(key=lambda pair: pair[0])
            if placed:
                space.matrix.put(
                    np.array([number for number, _ in placed], dtype=np.int64),
                    np.stack([vector for _, vector in placed]),
                )
            for record in records:
                self._append(space, record)

        await self._write(work, len(rows))
        await self.remember(embeddings)

    def _take_row(self) -> int:
        row = self._next_row
        self._next_row += 1
        return row

    @staticmethod
    def _check_new(space: _Space, records: Sequence[RecordRow]) -> None:
        keys: set[tuple[str, str]] = set()
        for record in records:
            place = (record.collection, record.key)
            if record.must_be_new and (
                place in keys or record.key in space.records.get(record.collection, {})
            ):
                raise ConflictError(taken_message(record))
            keys.add(place)

    def _append(self, space: _Space, record: RecordRow) -> bool:
        kept = space.records.setdefault(record.collection, {})
        if record.key in kept:
            return False
        kept[record.key] = _Kept(self._take_row(), record.value, 1)
        return True

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        def work() -> int:
            space = self._space(namespace)
            self._check_new(space, records)
            deleted = [space.rows.pop(id) for id in ids if id in space.rows]
            for row in deleted:
                del space.entries[row]
            space.matrix.remove(np.array(deleted, dtype=np.int64))
            if space.matrix.dead > len(space.matrix):
                space.matrix = space.matrix.packed()
            for record in records:
                self._append(space, record)
            return len(deleted)

        return await self._write(work, len(ids))

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        def work() -> list[SearchHit]:
            space = self._space(namespace)
            mask = None
            if query.where is not None:
                admitted = [row for row, entry in space.entries.items() if entry.admitted_by(query.where)]
                mask = np.zeros(len(space.matrix.rows), dtype=np.bool_)
                mask[space.matrix.find(np.array(admitted, dtype=np.int64))] = True
            hits = space.matrix.search(query, mask)
            return [SearchHit(space.entries[row].chunk(), score) for row, score in hits]

        return await self._run(work, len(self._space(namespace).entries))

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        def work() -> list[Chunk]:
            space = self._space(namespace)
            rows = [space.rows[id] for id in ids if id in space.rows]
            chunks = [space.entries[row].chunk() for row in rows]
            if not vectors:
                return chunks
            kept = space.matrix.gather(space.matrix.find(np.array(rows, dtype=np.int64)))
            return [replace(chunk, vector=vector) for chunk, vector in zip(chunks, kept, strict=True)]

        return await self._run(work, len(ids))

    async def count(self, namespace: str, where: Node | None) -> int:
        def work() -> int:
            entries = self._space(namespace).entries
            return (
                len(entries) if where is None else sum(entry.admitted_by(where) for entry in entries.values())
            )

        return await self._run(work, len(self._space(namespace).entries))

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        def work() -> Page:
            chunks: list[Chunk] = []
            last = after
            for row, entry in self._space(namespace).entries.items():
                if row <= after or (where is not None and not entry.admitted_by(where)):
                    continue
                if len(chunks) == limit:
                    return Page(tuple(chunks), str(last))
                chunks.append(entry.chunk())
                last = row
            return Page(tuple(chunks), None)

        return await self._run(work, len(self._space(namespace).entries))

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        return await self._write(lambda: self._append(self._space(namespace), record), 1)

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        def work() -> Record | None:
            kept = self._space(namespace).records.get(collection, {}).get(key)
            return None if kept is None else Record(collection, key, json.loads(kept.value), kept.version)

        return await self._run(work, 1)

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        def work() -> Record:
            space = self._space(namespace)
            kept = space.records.get(record.collection, {}).get(record.key)
            if (None if kept is None else kept.version) != version:
                raise ConflictError(conflict_message(record, version, None if kept is None else kept.version))
            if kept is None:
                self._append(space, record)
            else:
                kept.value, kept.version = record.value, kept.version + 1
            now = 1 if kept is None else kept.version
            return Record(record.collection, record.key, json.loads(record.value), now)

        return await self._write(work, 1)

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        def work() -> RecordPage:
            kept = self._space(namespace).records.get(collection, {})
            rest = [(key, r) for key, r in kept.items() if r.row > after]
            some = rest[:limit]
            records = tuple(Record(collection, key, json.loads(r.value), r.version) for key, r in some)
            return RecordPage(records, str(some[-1][1].row) if len(rest) > limit else None)

        return await self._run(work, 1)

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        def work() -> int:
            kept = self._space(namespace).records.get(collection, {})
            return sum(kept.pop(key, None) is not None for key in keys)

        return await self._write(work, len(keys))

    def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        async def mark() -> int:
            self._space(namespace)  # raises if the store was closed
            return self._writes

        return polled(mark)
