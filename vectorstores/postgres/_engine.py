"""The backend of a PostgreSQL store."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread
import psycopg

from vectorstores._engine import EmbeddingCache, Engine, Opened, Query
from vectorstores.base import Embedder, RecordPage, StoreClosedError
from vectorstores.embedders import embedder_or_default
from vectorstores.postgres import chunks, security
from vectorstores.postgres.address import Place, PostgresOptions
from vectorstores.postgres.connection import (
    About,
    Connection,
    Patience,
    connect,
    on_connection,
    repeated,
    resolve,
)
from vectorstores.postgres.filters import compile_filter
from vectorstores.postgres.pool import Pool, in_background, running_loop
from vectorstores.postgres.schema import prepare
from vectorstores.postgres.search import Searches
from vectorstores.postgres.values import refuse_records, refuse_rows

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import Chunk, FloatArray, Page, Record, SearchHit
    from vectorstores.filters import Node
    from vectorstores.postgres.filters import Where

T = TypeVar("T")

# The seconds between two checks whether the store was closed, while there are no notifications.
_LISTEN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of a store."""

    conninfo: str
    schema: str
    indexed: tuple[str, ...]
    create: bool
    options: PostgresOptions


@dataclass(frozen=True, slots=True)
class _Known:
    """What opening the store has read."""

    opened: Opened
    about: About
    place: Place
    searches: Searches


class PostgresEngine(EmbeddingCache, Engine):
    """Rows of all namespaces in one schema of a database. Each event loop has a pool of its own."""

    def __init__(self, settings: Settings, embedder: Embedder | None) -> None:
        super().__init__()
        self._settings = settings
        self._embedder = embedder
        self._known: _Known | None = None
        # In tasks of their own: otherwise callers whose time limit is too short would begin it anew each time.
        self._learning: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._closed = False
        self._process = os.getpid()

    async def open(self) -> Opened:
        loop = running_loop()
        self._check_usable()
        if self._known is None:
            learning = self._learning.get(loop)
            if learning is None or learning.done():
                learning = self._learning[loop] = in_background(self._open(loop))
            await asyncio.wait([learning])
            learning.result()
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

    async def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            known = await self._learn()
            if self._known is None:  # another loop may have been faster
                self._known = known
        finally:
            self._learning.pop(loop, None)

    async def _learn(self) -> _Known:
        settings = self._settings
        place = await anyio.to_thread.run_sync(
            partial(resolve, settings.conninfo, settings.schema, create=settings.create)
        )
        opened = await anyio.to_thread.run_sync(lambda: Opened.by(embedder_or_default(self._embedder)))
        about = await on_connection(
            place,
            settings.options,
            partial(prepare, place=place, opened=opened, indexed=settings.indexed, create=settings.create),
        )
        return _Known(opened, about, place, Searches(about))

    @property
    def pool(self) -> Pool:
        """The pool of the running event loop."""
        known, loop = self._ready(), running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._close_pools([each for each in list(self._pools) if each.is_closed()])
            pool = self._pools[loop] = Pool(known.place, self._settings.options, known.about)
        return pool

    def _close_pools(self, loops: Sequence[asyncio.AbstractEventLoop]) -> None:
        here: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            here = asyncio.get_running_loop()
        for loop in loops:
            pool = self._pools.pop(loop, None)
            if pool is not None and (loop is here or loop.is_closed()):
                pool.close()
            elif pool is not None:
                # The loop runs in another thread, where its connections must be closed.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(pool.close)

    async def close(self) -> None:
        self._closed = True
        if os.getpid() == self._process:
            self._close_pools(list(self._pools))

    async def secure(self, role: str, namespaces: Sequence[str]) -> None:
        """Let a role work in these namespaces only."""
        place = self._ready().place
        await on_connection(
            place,
            self._settings.options,
            lambda connection: security.secure(connection, place, role, namespaces),
        )

    async def _write(self, function: Callable[..., Awaitable[T]], namespace: str, *arguments: object) -> T:
        """Call a writing function with a connection and these arguments, in a transaction."""
        return await self.pool.write(
            lambda connection: function(connection, namespace, *arguments), channel=self._channel(namespace)
        )

    async def _read(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Call a reading function with a connection and these arguments."""
        return await self.pool.read(lambda connection: function(connection, *arguments))

    async def write(
        self,
        namespace: str,
        rows: Sequence[Row],
        records: Sequence[RecordRow],
        embeddings: Mapping[bytes, FloatArray],
    ) -> None:
        about = self._ready().about
        await anyio.to_thread.run_sync(refuse_rows, rows) if len(rows) > 100 else refuse_rows(rows)
        refuse_records(records)

        async def work(connection: Connection) -> None:
            await chunks.write_chunks(connection, namespace, rows, about)
            await chunks.append_records(connection, namespace, records)

        repeatable = not any(record.must_be_new for record in records)
        channel = self._channel(namespace)
        await self.pool.write(work, channel=channel, size=len(rows), repeatable=repeatable)
        await self.remember(embeddings)

    async def delete(self, namespace: str, ids: Sequence[str], records: Sequence[RecordRow]) -> int:
        refuse_records(records)
        return await self._write(chunks.delete_chunks, namespace, ids, records, self._ready().about)

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        return await self._read(self._ready().searches.search, namespace, query, self._where(query.where))

    def _where(self, node: Node | None) -> Where:
        return compile_filter(node, self._ready().about.columns)

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        return await self._read(chunks.chunks_by_id, namespace, ids, self._ready().about if vectors else None)

    async def count(self, namespace: str, where: Node | None) -> int:
        return await self._read(chunks.count_chunks, namespace, self._where(where))

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        return await self._read(chunks.scan_chunks, namespace, self._where(where), after, limit)

    async def append_once(self, namespace: str, record: RecordRow) -> bool:
        refuse_records([record])
        return await self._write(chunks.append_record, namespace, record)

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None:
        if "\0" in collection + key:
            return None
        return await self._read(chunks.get_record, namespace, collection, key)

    async def swap_record(self, namespace: str, record: RecordRow, version: int | None) -> Record:
        refuse_records([record])
        return await self._write(chunks.swap_record, namespace, record, version)

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        if "\0" in collection:
            return RecordPage((), None)
        return await self._read(chunks.scan_records, namespace, collection, after, limit)

    async def delete_records(self, namespace: str, collection: str, keys: Sequence[str]) -> int:
        if "\0" in collection:
            return 0
        return await self._write(chunks.delete_records, namespace, collection, keys, self._ready().about)

    def _channel(self, namespace: str) -> str:
        """Return the channel of a namespace's writes. A digest, so that the channel does not reveal the name."""
        named = f"{self._settings.schema}\0{namespace}".encode("utf-8", "surrogatepass")
        return f"vectorstores_{hashlib.sha256(named).hexdigest()[:32]}"

    async def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        place, options = self._ready().place, self._settings.options
        listen = f'LISTEN "{self._channel(namespace)}"'.encode()

        async def listening() -> Connection:
            made = await connect(place, options)
            try:
                await made.execute(listen)
            except BaseException:
                made.pgconn.finish()
                raise
            return made

        while True:
            connection = await repeated(Patience(place, options.retry_for), listening)
            try:
                yield  # whatever was written while nobody listened
                while True:
                    self._check_usable()
                    if [told async for told in connection.notifies(timeout=_LISTEN, stop_after=1)]:
                        yield
            except psycopg.Error as error:
                await Patience(place, options.retry_for).wait(error)
            finally:
                connection.pgconn.finish()
