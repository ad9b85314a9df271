"""A store in a folder of one machine: rows in SQLite, found by their vectors, shared by any number of processes.

The rows are the truth: what :meth:`add` has returned from is on disk. The index is derived from them, and is
brought up to date at each search by the log of changes, so that what another process wrote is found at once.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from vectorstores._checks import cache_key, check_indexed
from vectorstores._engine import Opened, Query, polled
from vectorstores.base import DEFAULT_INDEXED, Embedder, StoreClosedError, StoreUnavailableError
from vectorstores.embedders import embedder_or_default
from vectorstores.sqlite_faiss import records, rows, schema, snapshot
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.folder import INDEX, prepare
from vectorstores.sqlite_faiss.index import MEMORY, ROLE, Index
from vectorstores.sqlite_faiss.records import append_records, remember
from vectorstores.sqlite_faiss.rows import write_chunks
from vectorstores.sqlite_faiss.snapshot import Place
from vectorstores.sqlite_faiss.upkeep import Upkeep
from vectorstores.sqlite_faiss.writer import Writer
from vectorstores.store import Store

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import Chunk, FloatArray, Page, Record, RecordPage, SearchHit
    from vectorstores.filters import Node

T = TypeVar("T")


class FaissVectorStore(Store):
    """Chunks and records in a folder of this machine, durable when a call returns, for many processes at
    once.

    ``path`` is the folder; it is made when it is missing and ``create`` is set, for this user alone.
    ``embedder=None`` takes all-MiniLM-L6-v2, and :class:`~vectorstores.HashingEmbedder`, with a warning, where no
    extra that can run it is installed. Embeddings are kept by digest of their text, so a text seen before loads no
    model. Files are opened at the first call or by ``async with``, which raise

    - :class:`~vectorstores.StoreUnavailableError`: no store there and ``create=False``, a folder of other
      things, a read-only or a network file system; later also a full disk;
    - :class:`~vectorstores.StoreCorruptError`: the database is damaged, or is none;
    - :class:`~vectorstores.FormatVersionError`, :class:`~vectorstores.EmbedderMismatchError`.

    Later calls raise :class:`~vectorstores.EmbedderMismatchError` too, when another process has moved the store to
    another embedder.

    Searches are exact up to 5,000 chunks in a namespace. Above that, short codes propose candidates that are ranked
    by their vectors; in doubt more are looked at, and a filter that admits few is answered exactly. Codes are made in
    the background by FAISS (the extra ``faiss``); until they are there, and without FAISS, searches are exact, and a
    warning says so when 20,000 chunks are compared one by one. ``indexed`` names the metadata keys whose columns are
    kept with them: a filter by another key is as right, and slower the first time.

    Namespaces that were searched stay in memory, those searched last, up to ``memory`` bytes in all (512 MiB; a chunk
    of 384 dimensions takes 1.6 kB, and 0.1 kB once its namespace is read from its file, which one of 5,000 chunks or
    more has). The one that is searched stays, whatever it takes, and the one whose file is being written. What was let
    go of is read again by the next search of it, a small namespace in a millisecond.

    What was deleted or replaced is found no more when the call returns, and the index file of its namespace, which
    holds its vector, is gone; a later search or closing has it written again. Where the file can't be removed, nothing
    is deleted, and the call raises :class:`~vectorstores.StoreUnavailableError`. A tenth of a second later, or when the
    store is closed, its bytes are overwritten in the database and its write-ahead log too; later where another process
    reads just then, or where the disk refuses, which is logged and tried again.

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
    writer: Writer
    index: Index
    upkeep: Upkeep
    place_of: Callable[[str], Place]


class _FaissEngine:
    def __init__(
        self, folder: Path, embedder: Embedder | None, *, create: bool, indexed: tuple[str, ...], memory: int
    ) -> None:
        self._folder = folder
        self._memory = memory
        self._indexed = indexed
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
            embedder = embedder_or_default(self._embedder)
            opened = Opened.by(embedder)
            path = prepare(
                self._folder, create=self._create, build=lambda path: schema.build(path, opened.about)
            )
            database = Database(path, ("read", ROLE, "write"))
            try:
                said = database.read(lambda connection: schema.about(connection, path))
                opened.check(said, self._folder)
                snapshot.clean(self._folder / INDEX)
            except BaseException:
                database.close()
                raise
            database.store = store = said["store"]

            def place_of(namespace: str) -> Place:
                return Place(self._folder / INDEX, store, namespace, opened.dim)

            index = Index(database, place_of, self._indexed, self._memory)
            upkeep, writer = Upkeep(database, place_of, index), Writer(database)
            # A process that was killed may have left what it deleted.
            writer.scrub()
            self._process = os.getpid()
            self._state = _State(opened, database, writer, index, upkeep, place_of)

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            state = None if self._closed else self._state
            self._closed = True
        if state is not None and os.getpid() == self._process:
            try:
                state.writer.close()
                state.upkeep.close()
            finally:
                # This waits for the searches that go on, which use what is held.
                state.database.close()
                state.index.clear()

    # ---- writes

    async def _write(self, work: Callable[..., T], *arguments: object) -> T:
        """Call what adds something with a connection and these arguments."""
        return await self._ready().writer(lambda connection: work(connection, *arguments))

    async def _overwrite(self, work: Callable[..., T], *arguments: object) -> T:
        """Call what deletes or replaces something with a connection and these arguments, and take that off the disk."""
        writer = self._ready().writer

        def overwrite(connection: sqlite3.Connection) -> T:
            result = work(connection, *arguments)
            writer.scrub_soon()
            return result

        return await writer(overwrite)

    async def write(
        self,
        namespace: str,
        rows: Sequence[Row],
        records: Sequence[RecordRow],
        embeddings: Mapping[bytes, FloatArray],
    ) -> None:
        state = self._ready()

        def work(connection: sqlite3.Connection) -> None:
            if rows:
                replaces, gone = write_chunks(connection, namespace, rows)
                _forget(connection, state, namespace, gone)
                if replaces:
                    state.writer.scrub_soon()
            append_records(connection, namespace, records)
            remember(connection, embeddings)

        await self._write(work)

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        state = self._ready()

        def work(connection: sqlite3.Connection) -> int:
            gone = rows.delete_chunks(connection, namespace, ids)
            append_records(connection, namespace, records)
            _forget(connection, state, namespace, gone)
            return len(gone)

        return await self._overwrite(work)

    async def remember(self, embeddings: Mapping[bytes, FloatArray]) -> None:
        # Not waited for: the answer to a search is not to wait while another process writes.
        self._ready().writer.hand_over(partial(remember, embeddings=embeddings))

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        return await self._write(records.append_record, namespace, record)

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        return await self._overwrite(records.swap_record, namespace, record, version)

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        return await self._overwrite(records.delete_records, namespace, collection, keys)

    # ---- reads

    async def _read(self, work: Callable[..., T], *arguments: object) -> T:
        """Call what reads with a connection and these arguments."""
        database = self._ready().database
        return await anyio.to_thread.run_sync(database.read, lambda connection: work(connection, *arguments))

    async def cached(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        return await self._read(records.cached, keys, self._ready().opened.dim)

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        state = self._ready()
        hits = await anyio.to_thread.run_sync(state.index.search, namespace, query)
        state.upkeep.look_after(namespace)
        return hits

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        return await self._read(
            rows.chunks_by_id, namespace, ids, self._ready().opened.dim if vectors else None
        )

    async def count(self, namespace: str, where: Node | None) -> int:
        if where is not None:
            return await anyio.to_thread.run_sync(self._ready().index.count, namespace, where)
        return await self._read(rows.count_chunks, namespace)

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        return await self._read(rows.scan_chunks, namespace, where, after, limit)

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        return await self._read(records.get_record, namespace, collection, key)

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        return await self._read(records.scan_records, namespace, collection, after, limit)

    def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        # The connection that reads never writes, so that SQLite counts for it the commits of all others.
        return polled(
            lambda: self._read(lambda connection: connection.execute("PRAGMA data_version").fetchone())
        )


def _forget(connection: sqlite3.Connection, state: _State, namespace: str, texts: Sequence[str]) -> None:
    """Forget the embeddings of texts that are being deleted or replaced, and the file that holds their vectors.

    The file of the index goes before the transaction is committed, so that none is left whatever happens: without it,
    the rows are read.
    """
    if not texts:
        return
    records.forget(connection, (cache_key(state.opened.embedder_id, text) for text in texts))
    path = state.place_of(namespace).path
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} holds what is deleted and can't be removed: {error}; nothing of the call was stored"
        ) from error
