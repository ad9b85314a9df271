"""A store in a folder of one machine: rows in SQLite, found through FAISS, shared by any number of processes.

The rows are the truth: what :meth:`add` has returned from is on disk. The index is derived from them, and is
brought up to date at each search by the log of changes, so that what another process wrote is found at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from vectorstores import _rows, _schema
from vectorstores._cache import EmbeddingCache
from vectorstores._checks import cache_key
from vectorstores._engine import Opened, Query
from vectorstores._flat import require_faiss
from vectorstores._folder import SNAPSHOTS, prepare
from vectorstores._index import Indexes
from vectorstores._sqlite import Database
from vectorstores.base import Embedder, StoreClosedError
from vectorstores.embedders import default_embedder
from vectorstores.store import Store

if TYPE_CHECKING:
    import sqlite3

    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import Chunk, FloatArray, Page, Record, RecordPage, SearchHit
    from vectorstores.filters import Node

T = TypeVar("T")


class FaissVectorStore(Store):
    """Chunks and records in a folder of this machine, durable when a call returns, for many processes at
    once.

    ``path`` is the folder; it is made when it is missing and ``create`` is set, for this user alone.
    ``embedder=None`` takes the default, :class:`~vectorstores.SentenceTransformerEmbedder`. Embeddings are
    kept by digest of their text, so a text seen before loads no model. Files are opened at the first call or
    by ``async with``, which raise

    - :class:`~vectorstores.StoreUnavailableError`: no store there and ``create=False``, a folder of other
      things, a read-only or a network file system; later also a full disk;
    - :class:`~vectorstores.StoreCorruptError`: the database is damaged, or is none;
    - :class:`~vectorstores.FormatVersionError`, :class:`~vectorstores.EmbedderMismatchError`;
    - :class:`~vectorstores.MissingDependencyError`: FAISS, or the default embedder, is not installed.

    After a fork the child must open a store of its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        namespace: str,
        create: bool = True,
    ) -> None:
        super().__init__(_FaissEngine(Path(path), embedder, create=create), namespace)


@dataclass(frozen=True, slots=True)
class _State:
    opened: Opened
    database: Database
    indexes: Indexes
    cache: EmbeddingCache


class _FaissEngine:
    def __init__(self, folder: Path, embedder: Embedder | None, *, create: bool) -> None:
        self._folder = folder
        self._embedder = embedder
        self._create = create
        self._state: _State | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    async def open(self) -> Opened:
        if self._state is None and not self._closed:
            await anyio.to_thread.run_sync(self._open)
        return self._ready().opened

    def _ready(self) -> _State:
        if self._closed or self._state is None:
            raise StoreClosedError(f"the store at {self._folder} was closed; open it again to use it")
        if os.getpid() != self._process:
            raise StoreClosedError(
                f"the store at {self._folder} was opened before a fork; open it in this process"
            )
        return self._state

    def _open(self) -> None:
        with self._lock:
            if self._state is not None or self._closed:
                return
            require_faiss()
            embedder = default_embedder() if self._embedder is None else self._embedder
            about = (embedder.id, repr(embedder), embedder.dim)

            def build(path: Path) -> None:
                _schema.build(path, *about)

            path = prepare(self._folder, create=self._create, build=build)
            database = Database(path)
            try:
                store = database.read(lambda connection: _schema.check(connection, path, *about))
            except BaseException:
                database.close()
                raise
            opened = Opened(embedder, embedder.id, embedder.dim)
            indexes = Indexes(database, store, opened.dim, self._folder / SNAPSHOTS)
            self._process = os.getpid()
            self._state = _State(opened, database, indexes, EmbeddingCache(opened.dim))

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            state, self._state = self._state, None
        if state is not None and os.getpid() == self._process:
            state.indexes.close()
            state.database.close()

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await anyio.to_thread.run_sync(self._ready().database.write, work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await anyio.to_thread.run_sync(self._ready().database.read, work)

    async def cached(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        cache = self._ready().cache
        return await self._read(lambda connection: cache.read(connection, keys))

    async def remember(self, embeddings: Mapping[bytes, FloatArray]) -> None:
        cache = self._ready().cache
        await self._write(lambda connection: cache.write(connection, embeddings))

    async def write(
        self,
        namespace: str,
        rows: Sequence[Row],
        records: Sequence[RecordRow],
        embeddings: Mapping[bytes, FloatArray],
    ) -> None:
        state = self._ready()

        def work(connection: sqlite3.Connection) -> bool:
            replaced = _rows.write_chunks(connection, namespace, rows)
            for record in records:
                _rows.append_record(connection, namespace, record)
            self._forget(state, connection, replaced)
            state.cache.write(connection, embeddings)
            return bool(replaced)

        def run() -> None:
            if state.database.write(work):
                self._scrub(state, namespace)

        await anyio.to_thread.run_sync(run)

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        state = self._ready()

        def work(connection: sqlite3.Connection) -> int:
            gone = _rows.delete_chunks(connection, namespace, ids)
            for record in records:
                _rows.append_record(connection, namespace, record)
            self._forget(state, connection, gone)
            return len(gone)

        def run() -> int:
            count = state.database.write(work)
            if count:
                self._scrub(state, namespace)
            return count

        return await anyio.to_thread.run_sync(run)

    @staticmethod
    def _scrub(state: _State, namespace: str) -> None:
        state.database.scrub()
        state.indexes.forget(namespace)

    @staticmethod
    def _forget(state: _State, connection: sqlite3.Connection, texts: Sequence[str]) -> None:
        state.cache.purge(connection, (cache_key(state.opened.embedder_id, text) for text in texts))

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        return await anyio.to_thread.run_sync(self._ready().indexes.search, namespace, query)

    async def get(self, namespace: str, ids: Sequence[str]) -> list[Chunk]:
        return await self._read(lambda connection: _rows.chunks_by_id(connection, namespace, ids))

    async def count(self, namespace: str, where: Node | None) -> int:
        return await self._read(lambda connection: _rows.count_chunks(connection, namespace, where))

    async def update(self, namespace: str, id: str, patch: str) -> bool:
        return await self._write(lambda connection: _rows.patch_metadata(connection, namespace, id, patch))

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        return await self._read(
            lambda connection: _rows.scan_chunks(connection, namespace, where, after, limit)
        )

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        return await self._write(lambda connection: _rows.append_record(connection, namespace, record))

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        return await self._read(lambda connection: _rows.get_record(connection, namespace, collection, key))

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        return await self._write(lambda connection: _rows.swap_record(connection, namespace, record, version))

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        return await self._read(
            lambda connection: _rows.scan_records(connection, namespace, collection, after, limit)
        )

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        return await self._write(
            lambda connection: _rows.delete_records(connection, namespace, collection, keys)
        )
