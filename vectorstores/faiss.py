"""A store in a folder of one machine: rows in SQLite, found through FAISS, shared by any number of processes.

The rows are the truth: what :meth:`add` has returned from is on disk. The index is derived from them, and is
brought up to date at each search by the log of changes, so that what another process wrote is found at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.lowlevel
import anyio.to_thread

from vectorstores import _mapped, _putting, _records, _rows, _schema
from vectorstores._cache import EmbeddingCache
from vectorstores._checks import cache_key, check_indexed
from vectorstores._codes import require_faiss
from vectorstores._combine import Failure
from vectorstores._engine import Opened, Query
from vectorstores._folder import DATABASE, SNAPSHOTS, prepare
from vectorstores._index import Indexes
from vectorstores._mapped import Place
from vectorstores._spaces import MEMORY
from vectorstores._sqlite import Database, concerns_all
from vectorstores._writes import Together
from vectorstores.base import DEFAULT_INDEXED, Embedder, StoreClosedError, VectorStoreError
from vectorstores.embedders import default_embedder
from vectorstores.store import Store

if TYPE_CHECKING:
    import sqlite3

    from vectorstores._checks import RecordRow, Row
    from vectorstores._rows import Gone
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

    Later calls raise :class:`~vectorstores.EmbedderMismatchError` too, when another process has moved the store to
    another embedder.

    Searches are exact up to 5,000 chunks in a namespace. Above that, short codes propose candidates that are ranked
    by their vectors; in doubt more are looked at, and a filter that admits few is answered exactly. Codes are made in
    the background; until they are there, searches are exact. ``indexed`` names the metadata keys whose columns are
    kept with them: a filter by another key is as right, and slower the first time.

    Namespaces that were searched stay in memory, those searched last, up to ``memory`` bytes in all (512 MiB; a chunk
    of 384 dimensions takes 1.6 kB, and 0.1 kB once its namespace is read from its files, which one of 5,000 chunks or
    more has). While files are being written it may be twice that. What was let go of is read again by the next search
    of it, a small namespace in a millisecond.

    What was deleted or replaced is found no more when the call returns, and its vector is overwritten in the index. A
    tenth of a second later, or when the store is closed, its bytes are overwritten in the database and its write-ahead
    log too; later where another process reads just then, or where the disk refuses, which is logged and tried again
    after the next write and at the next opening.

    Rows carry checksums: one whose bytes are not what was stored raises :class:`~vectorstores.StoreCorruptError`
    naming it.

    After a fork the child must open a store of its own.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | None = None,
        namespace: str,
        create: bool = True,
        indexed: Sequence[str] = DEFAULT_INDEXED,
        memory: int = MEMORY,
    ) -> None:
        if isinstance(memory, bool) or not isinstance(memory, int):
            raise TypeError(f"memory must be a whole number of bytes, got {memory!r}")
        if memory < 0:
            raise ValueError(f"memory must not be negative, got {memory!r}")
        engine = _FaissEngine(
            Path(path), embedder, create=create, indexed=check_indexed(indexed), memory=memory
        )
        super().__init__(engine, namespace)


@dataclass(frozen=True, slots=True)
class _State:
    opened: Opened
    database: Database
    indexes: Indexes
    cache: EmbeddingCache


@dataclass(slots=True, eq=False)
class _Write:
    work: Callable[[sqlite3.Connection], Any] | None
    """What to do; None for putting ``rows`` into the namespace and nothing else."""
    namespace: str | None = None
    """Where what ``work`` returns as gone has to be taken out of the files."""
    rows: Sequence[Row] = ()


class _FaissEngine:
    def __init__(
        self, folder: Path, embedder: Embedder | None, *, create: bool, indexed: tuple[str, ...], memory: int
    ) -> None:
        self._folder = folder
        self._memory = memory
        self._indexed = indexed
        self._writes: Together[_Write] = Together(self._commit, "vectorstores-writes")
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
                if not database.read(_schema.extended):
                    database.write(_schema.extend)
                database.alone(_putting.make_ready)
                _mapped.clean(self._folder / SNAPSHOTS)
            except BaseException:
                database.close()
                raise
            database.store = store
            opened = Opened(embedder, embedder.id, embedder.dim)

            def place_of(namespace: str) -> Place:
                lock = self._folder / f"{DATABASE}.index.lock"
                return Place(self._folder / SNAPSHOTS, lock, store, namespace, opened.dim)

            indexes = Indexes(database, place_of, opened.dim, self._indexed, self._memory)
            indexes.forget_leftovers()
            self._process = os.getpid()
            self._state = _State(opened, database, indexes, EmbeddingCache(opened.dim))

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            state, self._state = self._state, None
        if state is not None and os.getpid() == self._process:
            try:
                self._writes.close()
                state.indexes.close()
            finally:
                state.database.close()

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._ready()
        result: T = await self._writes(_Write(work))
        return result

    def _commit(self, writes: Sequence[_Write]) -> list[Any]:
        state = self._ready()
        outcomes: list[Any] = []
        groups = _grouped(writes)
        if len(groups) == 1 and self._put_at_once(state, groups[0]):
            state.indexes.forget({})
            return [[]] * len(writes)
        together = [self._work(state, group) for group in groups]
        for group, outcome in zip(groups, state.database.write_all(together), strict=True):
            if len(group) > 1 and isinstance(outcome, Failure) and not concerns_all(outcome.error):
                # One of them spoils the statements of all: alone, only that one fails.
                outcomes += state.database.write_all([self._work(state, [write]) for write in group])
            else:
                outcomes.append(outcome)
                outcomes.extend([outcome if isinstance(outcome, Failure) else []] * (len(group) - 1))
        gone: dict[str, dict[int, int]] = {}
        for write, outcome in zip(writes, outcomes, strict=True):
            if outcome and write.namespace is not None and not isinstance(outcome, Failure):
                gone.setdefault(write.namespace, {}).update((each.row, each.seq) for each in outcome)
        # Durable by now, so nothing here may say that it was not.
        state.indexes.forget(gone)
        return outcomes

    @staticmethod
    def _put_at_once(state: _State, group: Sequence[_Write]) -> bool:
        """Put rows that are new, if that is all that there is to do; False if it is not, and nothing was done."""
        namespace = group[0].namespace
        rows = [row for write in group for row in write.rows]
        if group[0].work is not None or namespace is None or len(rows) > _putting.MOST:
            return False
        values = _putting.values_of(namespace, rows, state.database.store)
        try:
            done: bool = state.database.alone(lambda connection: _putting.put(connection, values))
        except VectorStoreError as error:
            if len(group) == 1 or concerns_all(error):
                raise
            return False
        return done

    def _work(self, state: _State, group: Sequence[_Write]) -> Callable[[sqlite3.Connection], Any]:
        """Return the work of one write, or of several that only put rows into one namespace."""
        first = group[0]
        if first.work is not None:
            return first.work
        assert first.namespace is not None  # noqa: S101 - that of the rows
        rows = first.rows if len(group) == 1 else [row for write in group for row in write.rows]
        return partial(self._put, state, first.namespace, rows)

    def _put(
        self, state: _State, namespace: str, rows: Sequence[Row], connection: sqlite3.Connection
    ) -> list[Gone]:
        replaced = _rows.write_chunks(connection, namespace, rows)
        if replaced:
            self._forget(state, connection, replaced)
        return replaced

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
        if rows and not records and not embeddings:
            await self._writes(_Write(None, namespace, rows))
            return
        state = self._ready()

        def work(connection: sqlite3.Connection) -> list[Gone]:
            replaced = self._put(state, namespace, rows, connection)
            _records.append_records(connection, namespace, records)
            state.cache.write(connection, embeddings)
            return replaced

        await self._writes(_Write(work, namespace))

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        state = self._ready()

        def work(connection: sqlite3.Connection) -> list[Gone]:
            gone = _rows.delete_chunks(connection, namespace, ids)
            _records.append_records(connection, namespace, records)
            self._forget(state, connection, gone)
            return gone

        gone: list[Gone] = await self._writes(_Write(work, namespace))
        return len(gone)

    @staticmethod
    def _forget(state: _State, connection: sqlite3.Connection, gone: Sequence[Gone]) -> None:
        state.cache.purge(connection, (cache_key(state.opened.embedder_id, each.text) for each in gone))

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        indexes = self._ready().indexes
        if indexes.is_quick(namespace, query):
            await anyio.lowlevel.checkpoint()
            hits = self._ready().indexes.search_at_once(namespace, query)
            if hits is not None:
                return hits
        return await anyio.to_thread.run_sync(indexes.search, namespace, query)

    async def get(self, namespace: str, ids: Sequence[str]) -> list[Chunk]:
        return await self._read(lambda connection: _rows.chunks_by_id(connection, namespace, ids))

    async def count(self, namespace: str, where: Node | None) -> int:
        return await anyio.to_thread.run_sync(self._ready().indexes.count, namespace, where)

    async def update(self, namespace: str, id: str, patch: str) -> bool:
        return await self._write(lambda connection: _rows.patch_metadata(connection, namespace, id, patch))

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        return await anyio.to_thread.run_sync(self._ready().indexes.scan, namespace, where, after, limit)

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        return await self._write(lambda connection: _records.append_record(connection, namespace, record))

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        return await self._read(
            lambda connection: _records.get_record(connection, namespace, collection, key)
        )

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        return await self._write(
            lambda connection: _records.swap_record(connection, namespace, record, version)
        )

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        return await self._read(
            lambda connection: _records.scan_records(connection, namespace, collection, after, limit)
        )

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        return await self._write(
            lambda connection: _records.delete_records(connection, namespace, collection, keys)
        )


def _grouped(writes: Sequence[_Write]) -> list[list[_Write]]:
    """Put neighbours together that only put rows, all different ones, into the same namespace."""
    groups: list[list[_Write]] = []
    ids: set[str] = set()
    namespace: str | None = None
    for write in writes:
        own = {row.id for row in write.rows} if write.work is None else set()
        if own and namespace == write.namespace and ids.isdisjoint(own):
            groups[-1].append(write)
            ids |= own
        else:
            groups.append([write])
            ids = own
            namespace = write.namespace if own else None
    return groups
