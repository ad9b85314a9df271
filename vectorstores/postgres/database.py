"""The database of a store: opened once for all event loops, with a pool of connections for each."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import psycopg

from vectorstores._engine import EmbeddingCache, Opened
from vectorstores.base import Embedder, StoreClosedError
from vectorstores.embedders import embedder_or_default
from vectorstores.postgres import security
from vectorstores.postgres.address import Place, PostgresOptions
from vectorstores.postgres.connection import Patience, connect, on_connection, repeated, resolve
from vectorstores.postgres.pool import Pool, in_background, running_loop
from vectorstores.postgres.schema import prepare
from vectorstores.postgres.search import Searches

if TYPE_CHECKING:
    from vectorstores.postgres.connection import About

# The seconds between two checks whether the store was closed, while there are no notifications.
_LISTEN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """What opening the store has read."""

    opened: Opened
    about: About
    place: Place


class Database(EmbeddingCache):
    """One schema of a database. Each event loop has a pool of its own."""

    def __init__(
        self,
        conninfo: str,
        schema: str,
        embedder: Embedder | None,
        *,
        indexed: Sequence[str],
        create: bool,
        options: PostgresOptions,
    ) -> None:
        super().__init__()
        self._schema, self._embedder, self._options = schema, embedder, options
        self._resolve = partial(resolve, conninfo, schema, create=create)
        self._prepare = partial(prepare, indexed=indexed, create=create)
        self._known: Known | None = None
        # In tasks of their own: otherwise callers whose time limit is too short would begin it anew each time.
        self._learning: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self.searches = Searches()
        self._closed = False
        self._process = os.getpid()

    async def open(self) -> Opened:
        """Open the store unless it is open already."""
        loop = running_loop()
        if self._known is None and not self._closed and os.getpid() == self._process:
            learning = self._learning.get(loop)
            if learning is None or learning.done():
                learning = self._learning[loop] = in_background(self._learn(loop))
            await asyncio.wait([learning])
            learning.result()
        return self.known.opened

    async def _learn(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            place = await anyio.to_thread.run_sync(self._resolve)
            opened = await anyio.to_thread.run_sync(lambda: Opened.by(embedder_or_default(self._embedder)))
            work = partial(self._prepare, place=place, opened=opened)
            about = await on_connection(place, self._options, work)
            if self._known is None:  # another loop may have been faster
                self._known = Known(opened, about, place)
        finally:
            self._learning.pop(loop, None)

    @property
    def known(self) -> Known:
        """What opening the store has read. Raises :class:`StoreClosedError` unless it is open."""
        if self._closed:
            raise StoreClosedError("the PostgreSQL store was closed; open it again to use it")
        if os.getpid() != self._process:
            raise StoreClosedError("the PostgreSQL store was made before a fork; open it in this process")
        if self._known is None:
            raise StoreClosedError("the PostgreSQL store is not open")
        return self._known

    @property
    def pool(self) -> Pool:
        """The pool of the running event loop."""
        known, loop = self.known, running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._close_pools([each for each in list(self._pools) if each.is_closed()])
            pool = self._pools[loop] = Pool(known.place, self._options, known.about)
        return pool

    async def close(self) -> None:
        """Close the store: idle connections now, and those in use when their calls end."""
        self._closed = True
        if os.getpid() == self._process:
            self._close_pools(list(self._pools))

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

    async def secure(self, role: str, namespaces: Sequence[str]) -> None:
        """Let a role work in these namespaces only."""
        work = partial(security.secure, place=self.known.place, role=role, namespaces=namespaces)
        await on_connection(self.known.place, self._options, work)

    def channel(self, namespace: str) -> str:
        """Return the channel of a namespace's writes. A digest, so that the channel does not reveal the name."""
        named = f"{self._schema}\0{namespace}".encode("utf-8", "surrogatepass")
        return f"vectorstores_{hashlib.sha256(named).hexdigest()[:32]}"

    async def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        """Yield once listening has begun, and then after each write to a namespace."""
        place, options = self.known.place, self._options
        listening = partial(connect, place, options, f'LISTEN "{self.channel(namespace)}"'.encode())
        while True:
            connection = await repeated(Patience(place, options.retry_for), listening)
            try:
                yield  # whatever was written while nobody listened
                while self.known:  # which raises if the store was closed
                    if [told async for told in connection.notifies(timeout=_LISTEN, stop_after=1)]:
                        yield
            except psycopg.Error as error:
                await Patience(place, options.retry_for).wait(error)
            finally:
                connection.pgconn.finish()
