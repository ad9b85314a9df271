"""The backend of a PostgreSQL store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
from psycopg import errors as pg

from vectorstores._checks import cache_key
from vectorstores._engine import Opened, Query
from vectorstores.base import Embedder, RecordPage, StoreClosedError, StoreUnavailableError
from vectorstores.embedders import embedder_or_default
from vectorstores.postgres import cache, changes, chunks, records, security
from vectorstores.postgres.address import Place, embedded_folder
from vectorstores.postgres.connection import on_connection, resolve
from vectorstores.postgres.errors import translated
from vectorstores.postgres.filters import compile_filter
from vectorstores.postgres.options import PostgresOptions
from vectorstores.postgres.pool import Pool, in_background, running_loop
from vectorstores.postgres.schema import Wanted, prepare
from vectorstores.postgres.search import Searches
from vectorstores.postgres.session import About, Connection
from vectorstores.postgres.transaction import Change, Transactions
from vectorstores.postgres.values import refuse_json, refuse_records, refuse_rows

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import Chunk, FloatArray, Page, Record, SearchHit
    from vectorstores.filters import Node
    from vectorstores.postgres.changes import Kind
    from vectorstores.postgres.filters import Where

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a store was made with."""

    conninfo: str
    schema: str
    indexed: tuple[str, ...]
    create: bool
    options: PostgresOptions


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of the store, once."""

    opened: Opened
    about: About
    place: Place
    searches: Searches


@dataclass(slots=True)
class _Loop:
    """What belongs to one event loop."""

    opening: asyncio.Task[None] | None = None
    transactions: Transactions | None = None


class PostgresEngine:
    """Rows of all namespaces in one schema of a database. Each event loop gets a pool of its own."""

    def __init__(self, settings: Settings, embedder: Embedder | None) -> None:
        self._settings = settings
        self._embedder = embedder
        self._known: _Known | None = None
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._closed = False
        self._process = os.getpid()

    async def open(self) -> Opened:
        """See :class:`~vectorstores._engine.Engine`."""
        loop = running_loop()
        self._check_usable()
        state = self._loops.setdefault(loop, _Loop())
        if state.transactions is None:
            if state.opening is None or state.opening.done():
                # In a task of its own: callers with limits shorter than this takes would else begin it anew each time.
                state.opening = in_background(self._connect(state))
            opening = state.opening
            await asyncio.wait([opening])
            opening.result()
        return self._ready().opened

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosedError("the PostgreSQL store was closed; open it again to use it")
        if os.getpid() != self._process:
            raise StoreClosedError("the PostgreSQL store was made before a fork; open it in this process")

    def _ready(self) -> _Known:
        self._check_usable()
        if self._known is None:
            raise StoreClosedError("the PostgreSQL store is not open")
        return self._known

    def _transactions(self) -> Transactions:
        state = self._loops.get(running_loop())
        if state is None or state.transactions is None:
            raise StoreClosedError("the PostgreSQL store was closed; open it again to use it")
        return state.transactions

    async def _connect(self, state: _Loop) -> None:
        self._forget_ended_loops()
        if self._known is None:
            self._known = await self._learn()
        known = self._known
        self._check_usable()
        state.transactions = Transactions(Pool(known.place, self._settings.options, known.about), known.about)

    def _forget_ended_loops(self) -> None:
        for loop in [loop for loop in self._loops if loop.is_closed()]:
            transactions = self._loops.pop(loop).transactions
            if transactions is not None:
                transactions.pool.abandon()

    async def _learn(self) -> _Known:
        settings = self._settings
        place = await anyio.to_thread.run_sync(
            partial(resolve, settings.conninfo, settings.schema, create=settings.create)
        )
        if place is None:
            raise StoreUnavailableError(
                f"there is no PostgreSQL store in {embedded_folder(settings.conninfo)}, and create=False"
            )
        embedder, wanted = await anyio.to_thread.run_sync(self._describe)
        about = await on_connection(
            place, settings.options, lambda connection: prepare(connection, place, wanted)
        )
        opened = Opened(embedder, wanted.embedder_id, wanted.dim)
        return _Known(opened, about, place, Searches(about, settings.options))

    def _describe(self) -> tuple[Embedder, Wanted]:
        embedder = embedder_or_default(self._embedder)
        settings = self._settings
        return embedder, Wanted(embedder.id, repr(embedder), embedder.dim, settings.indexed, settings.create)

    async def close(self) -> None:
        """See :class:`~vectorstores._engine.Engine`."""
        self._closed = True
        if os.getpid() != self._process:
            return
        self._forget_ended_loops()
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for loop in list(self._loops):
            transactions = self._loops.pop(loop).transactions
            if transactions is None:
                continue
            if loop is here:
                transactions.pool.close()
            else:
                # Another thread's loop: its connections must be closed in it.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(transactions.pool.close)

    def changes(self, namespace: str) -> AsyncIterator[changes.Change]:
        """Yield the changes of an open store as they are committed."""
        known = self._ready()
        return changes.follow(
            known.place, self._settings.options, known.about.store, namespace, lambda: self._closed
        )

    async def secure(self, role: str, namespaces: Sequence[str]) -> None:
        """Let a role work in these namespaces alone."""
        place = self._ready().place
        await on_connection(
            place,
            self._settings.options,
            lambda connection: security.secure(connection, place, role, namespaces),
        )

    async def _read(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Call a function that reads with a connection and these arguments."""
        return await self._transactions().read(lambda connection: function(connection, *arguments))

    async def _write(
        self,
        namespace: str,
        kind: Kind,
        work: Callable[[Connection], Awaitable[T]],
        *,
        size: int = 1,
        always: bool = False,
    ) -> T:
        """Run work in a transaction, and tell of it. A false result says that nothing changed, unless ``always``."""
        store = self._ready().about.store
        told = (changes.channel(store), changes.payload(store, namespace, kind))

        async def change(connection: Connection) -> Change[T]:
            result = await work(connection)
            return Change(result, always or bool(result), told)

        return await self._transactions().write(change, size=size)

    async def cached(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """See :class:`~vectorstores._engine.Engine`."""
        return await self._read(cache.read, keys, self._ready().about)

    async def remember(self, embeddings: Mapping[bytes, FloatArray]) -> None:
        """See :class:`~vectorstores._engine.Engine`."""
        known = self._ready()

        async def work(connection: Connection) -> None:
            try:
                await cache.write(connection, embeddings, known.about)
            except pg.ReadOnlySqlTransaction as error:
                # Not tried again, as other writes are until a standby is promoted: an answer waits for this.
                raise translated(error, known.place) from error

        # No transaction: a part of them is as good, and nobody asks what became of it.
        await self._read(work)

    async def write(
        self,
        namespace: str,
        rows: Sequence[Row],
        records: Sequence[RecordRow],
        embeddings: Mapping[bytes, FloatArray],
    ) -> None:
        """See :class:`~vectorstores._engine.Engine`."""
        known = self._ready()
        await anyio.to_thread.run_sync(refuse_rows, rows) if len(rows) > 100 else refuse_rows(rows)
        refuse_records(records)

        async def work(connection: Connection) -> None:
            gone = await chunks.write_chunks(connection, namespace, rows, known.about) if rows else []
            await self._complete(connection, namespace, records, gone)
            await cache.write(connection, embeddings, known.about)

        kind: Kind = "chunks" if rows else "records"
        await self._write(namespace, kind, work, size=len(rows), always=True)
        known.searches.changed(namespace, len(rows))

    async def _complete(
        self, connection: Connection, namespace: str, rows: Sequence[RecordRow], gone: Sequence[str]
    ) -> None:
        """Append the records that go with a change, and forget the embeddings of texts that are gone."""
        known = self._ready()
        await records.append_records(connection, namespace, rows)
        keys = [cache_key(known.opened.embedder_id, text) for text in gone]
        await cache.purge(connection, keys, known.about)

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        """See :class:`~vectorstores._engine.Engine`."""
        known = self._ready()
        refuse_records(records)

        async def work(connection: Connection) -> int:
            gone = await chunks.delete_chunks(connection, namespace, ids, known.about) if ids else []
            await self._complete(connection, namespace, records, gone)
            return len(gone)

        kind: Kind = "chunks" if ids else "records"
        count = await self._write(namespace, kind, work, always=bool(records))
        known.searches.changed(namespace, count)
        return count

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        """See :class:`~vectorstores._engine.Engine`."""
        return await self._read(self._ready().searches.search, namespace, query, self._where(query.where))

    def _where(self, node: Node | None) -> Where:
        return compile_filter(node, self._ready().about.columns)

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        """See :class:`~vectorstores._engine.Engine`."""
        return await self._read(chunks.chunks_by_id, namespace, ids, self._ready().about if vectors else None)

    async def count(self, namespace: str, where: Node | None) -> int:
        """See :class:`~vectorstores._engine.Engine`."""
        return await self._read(chunks.count_chunks, namespace, self._where(where))

    async def update(self, namespace: str, id: str, patch: str) -> bool:
        """See :class:`~vectorstores._engine.Engine`."""
        known = self._ready()
        refuse_json(patch, f"patch of {id!r:.100}")
        work = partial(chunks.patch_metadata, namespace=namespace, id=id, patch=patch, about=known.about)
        done = "\0" not in id and await self._write(namespace, "chunks", work)
        known.searches.changed(namespace, int(done))
        return done

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        """See :class:`~vectorstores._engine.Engine`."""
        return await self._read(chunks.scan_chunks, namespace, self._where(where), after, limit)

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        """See :class:`~vectorstores._engine.Engine`."""
        refuse_records([record])
        work = partial(records.append_record, namespace=namespace, record=record)
        return await self._write(namespace, "records", work)

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        """See :class:`~vectorstores._engine.Engine`."""
        if "\0" in collection + key:
            return None
        return await self._read(records.get_record, namespace, collection, key)

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        """See :class:`~vectorstores._engine.Engine`."""
        refuse_records([record])
        work = partial(records.swap_record, namespace=namespace, record=record, version=version)
        return await self._write(namespace, "records", work)

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        """See :class:`~vectorstores._engine.Engine`."""
        if "\0" in collection:
            return RecordPage((), None)
        return await self._read(records.scan_records, namespace, collection, after, limit)

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        """See :class:`~vectorstores._engine.Engine`."""
        if "\0" in collection:
            return 0
        about = self._ready().about
        work = partial(
            records.delete_records, namespace=namespace, collection=collection, keys=keys, about=about
        )
        return await self._write(namespace, "records", work)
