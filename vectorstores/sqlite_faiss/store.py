"""A store in a folder of one machine, shared by any number of processes.

The rows in SQLite are authoritative and are on disk when :meth:`add` returns. The index is derived from them. Each
search first brings it up to date from the log of changes, so it finds what another process has just written.
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

from vectorstores._checks import cache_key, check_indexed, check_whole
from vectorstores._engine import Opened, Query, Write, polled
from vectorstores.base import DEFAULT_INDEXED, Embedder, StoreClosedError, StoreUnavailableError
from vectorstores.embedders import embedder_or_default
from vectorstores.sqlite_faiss import records, rows, schema, snapshot
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.folder import INDEX, prepare
from vectorstores.sqlite_faiss.index import MEMORY, ROLE, Index
from vectorstores.sqlite_faiss.snapshot import Place
from vectorstores.sqlite_faiss.upkeep import Upkeep
from vectorstores.sqlite_faiss.writer import Writer
from vectorstores.store import Store

if TYPE_CHECKING:
    from vectorstores.base import Chunk, FloatArray, Page, Record, RecordPage, SearchHit
    from vectorstores.filters import Node

T = TypeVar("T")


class FaissVectorStore(Store):
    """Chunks and records in a folder of this machine, durable when a call returns, for many processes at once.

    ``path`` is the folder. With ``create``, a missing folder is made, readable by this user only.
    ``embedder=None`` means all-MiniLM-L6-v2 or, with a warning, :class:`~vectorstores.HashingEmbedder` where no extra
    that can run it is installed. Embeddings are cached by a digest of their text, so a known text loads no model.
    Files are opened at the first call or by ``async with``, which raise

    - :class:`~vectorstores.StoreUnavailableError`: no store and ``create=False``, a folder with other files, a
      read-only or a network file system; later also a full disk;
    - :class:`~vectorstores.StoreCorruptError`: the database is damaged, or the file is not a database;
    - :class:`~vectorstores.FormatVersionError`, :class:`~vectorstores.EmbedderMismatchError`.

    Later calls also raise :class:`~vectorstores.EmbedderMismatchError` if another process has moved the store to
    another embedder.

    Searches are exact up to 5,000 chunks in a namespace. Above that, short codes propose candidates, which are ranked
    by their vectors; in doubt more are compared, and a filter that admits few chunks is answered exactly. FAISS (the
    extra ``faiss``) makes the codes in the background. Until then, and without FAISS, searches are exact; a warning
    appears when 20,000 chunks are compared one by one. ``indexed`` names the metadata keys whose columns are stored in
    the index files; a filter by another key is equally correct, but slower the first time.

    The namespaces searched last stay in memory, up to ``memory`` bytes in all (512 MiB; a chunk of 384 dimensions
    takes 1.6 kB, or 0.1 kB once its namespace is read from an index file, which is written from 5,000 chunks on). The
    namespace being searched and the one whose file is being written stay even beyond the limit. A namespace that was
    dropped is read again by its next search, a small one in a millisecond.

    When a call that deletes or replaces chunks returns, searches no longer find the old ones, and the index file of
    their namespace, which contains their vectors, is removed; a later search or :meth:`close` writes a new one. If the
    file can't be removed, nothing is deleted, and the call raises :class:`~vectorstores.StoreUnavailableError`. A tenth
    of a second later, or when the store is closed, the old bytes are overwritten in the database and its write-ahead
    log too. If another process is reading then, or the disk refuses, this is logged and tried again later.

    Rows have checksums: a damaged row raises :class:`~vectorstores.StoreCorruptError`, which names it.

    After a fork the child process must open a store of its own.
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
        engine = _FaissEngine(
            Path(path),
            embedder,
            create=create,
            indexed=check_indexed(indexed),
            memory=check_whole("memory", memory, least=0),
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
            opened = Opened.by(embedder_or_default(self._embedder))
            path = prepare(self._folder, opened.about, create=self._create)
            database = Database(path, ("read", ROLE, "write"))
            try:
                about = database.read(lambda connection: schema.about(connection, path))
                opened.check(about, self._folder)
                snapshot.clean(self._folder / INDEX)
            except BaseException:
                database.close()
                raise
            database.store = about["store"]
            place_of = partial(Place, self._folder / INDEX, about["store"], dim=opened.dim)
            index = Index(place_of, self._indexed, self._memory)
            upkeep, writer = Upkeep(database, place_of, index), Writer(database)
            # A process that was killed may have left deleted bytes in the log.
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
                # Closing the database waits for running searches, which use the index.
                state.database.close()
                state.index.clear()

    # ---- writes

    async def write(self, namespace: str, write: Write) -> int:
        state = self._ready()

        def work(connection: sqlite3.Connection) -> int:
            existed, old_texts = rows.write_chunks(connection, namespace, write.rows)
            deleted = rows.delete_chunks(connection, namespace, write.ids)
            written = records.write_records(connection, namespace, write.records)
            dropped = sum(
                records.delete_records(connection, namespace, collection, keys)
                for collection, keys in write.dropped.items()
            )
            _forget(connection, state, namespace, [*old_texts, *deleted])
            if existed or write.ids or write.dropped or any(record.expected for record in write.records):
                state.writer.scrub_soon()
            return written if write.counted else len(deleted) + dropped

        return await state.writer(work)

    async def remember(self, embeddings: Mapping[bytes, FloatArray]) -> None:
        # Not awaited: a search must not wait for the writes of other processes.
        self._ready().writer.hand_over(partial(records.remember, embeddings=embeddings))

    # ---- reads

    async def _read(self, work: Callable[..., T], *arguments: object, role: str = "read") -> T:
        """Run work that reads, with the connection of a role and these arguments."""
        database = self._ready().database
        return await anyio.to_thread.run_sync(
            database.read, lambda connection: work(connection, *arguments), role
        )

    async def cached(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        return await self._read(records.cached, keys, self._ready().opened.dim)

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        state = self._ready()
        hits = await self._read(state.index.search, namespace, query, role=ROLE)
        state.upkeep.look_after(namespace)
        return hits

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        return await self._read(
            rows.chunks_by_id, namespace, ids, self._ready().opened.dim if vectors else None
        )

    async def count(self, namespace: str, where: Node | None) -> int:
        if where is not None:
            return await self._read(self._ready().index.count, namespace, where, role=ROLE)
        return await self._read(rows.count_chunks, namespace)

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        return await self._read(rows.scan_chunks, namespace, where, after, limit)

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        return await self._read(records.get_record, namespace, collection, key)

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        return await self._read(records.scan_records, namespace, collection, after, limit)

    def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        # SQLite counts here the commits by all other connections; the one that reads never writes.
        return polled(
            lambda: self._read(lambda connection: connection.execute("PRAGMA data_version").fetchone())
        )


def _forget(connection: sqlite3.Connection, state: _State, namespace: str, texts: Sequence[str]) -> None:
    """Delete the cached embeddings of texts that are being deleted or replaced, and the index file with their vectors.

    The file is removed before the transaction commits, so that it can't survive a crash. Without it, the rows are read.
    """
    if not texts:
        return
    keys = [(cache_key(state.opened.embedder_id, text),) for text in texts]
    connection.executemany("DELETE FROM embeddings WHERE key = ?", keys)
    path = state.place_of(namespace).path
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} contains what was to be deleted and can't be removed: {error}; nothing of the call was stored"
        ) from error
