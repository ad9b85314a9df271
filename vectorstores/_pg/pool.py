"""Connections of one event loop, handed out one call at a time.

No task runs in the background, unlike in ``psycopg_pool``, whose workers outlive their cancellation while they connect:
a program that ended without closing its store then hung for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import anyio
import psycopg
from psycopg import AsyncConnection
from psycopg.pq import PipelineStatus, TransactionStatus

from vectorstores._pg.commits import Commits
from vectorstores._pg.session import About, connection_arguments, session_settings
from vectorstores._pg.wire import Context
from vectorstores.base import StoreClosedError, StoreUnavailableError

if TYPE_CHECKING:
    from vectorstores._pg.address import Place
    from vectorstores._pg.settings import PostgresOptions

Connection = AsyncConnection[Any]

# A connection that nobody needed for so long is closed.
_MAX_IDLE: Final = 600.0


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made."""


class Pool:
    """A bounded pool. Made and used in one event loop."""

    def __init__(self, place: Place, options: PostgresOptions, about: About) -> None:
        self.place = place
        self.commits = Commits(noted=about.noted)
        self._options = options
        self._arguments = connection_arguments(options, Context(about.vector_oid))
        self._settings = session_settings(options, about, place.schema)
        self._free = options.pool_size
        self._waiters: deque[asyncio.Future[bool]] = deque()
        # The one used last is lent first, so that those that are not needed grow old.
        self._idle: list[tuple[Connection, float]] = []
        self._all: WeakSet[Connection] = WeakSet()
        self._closed = False

    def close(self) -> None:
        """Close the idle connections now, and those in use when they come back."""
        self._closed = True
        self.drop_idle()

    def abandon(self) -> None:
        """Close the connections of an event loop that has ended."""
        self._closed = True
        for connection in list(self._all):
            connection.pgconn.finish()

    def drop_idle(self) -> None:
        """Close the idle connections: they may be as dead as the one that was just lost."""
        for connection, _ in self._idle:
            connection.pgconn.finish()
        self._idle.clear()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection. It comes back clean, or is closed, however the block ends.

        Raises as :meth:`take` does.
        """
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give_back(connection)

    async def take(self) -> Connection:
        """Lend a connection, which must be given back.

        Raises :class:`StoreUnavailableError` when all stay in use, and psycopg's errors when none can be made.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait()
        try:
            return self._take() or await self._connect()
        except BaseException:
            self._release()
            raise

    async def give_back(self, connection: Connection) -> None:
        """Keep a connection for others, or close it if it is in the middle of something."""
        try:
            status = connection.pgconn.transaction_status
            if status == TransactionStatus.IDLE and connection.pgconn.pipeline_status == PipelineStatus.OFF:
                self._keep(connection)
            else:
                await self._discard(connection)
        finally:
            self._release()

    def _release(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return
        self._free += 1

    async def _wait(self) -> None:
        # Not asyncio's semaphore and timeout: a call that has to wait costs half as much so, and many do.
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        expiry = loop.call_later(self._options.checkout_timeout, _expire, waiter)
        try:
            lent = await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.result():
                self._release()
            raise
        finally:
            expiry.cancel()
        if not lent:
            raise StoreUnavailableError(
                f"{self.place}: pool exhausted: all {self._options.pool_size} connections stayed in use for"
                f" {self._options.checkout_timeout:g} s; raise pool_size or checkout_timeout of PostgresOptions,"
                " or make fewer calls at once"
            )

    def _take(self) -> Connection | None:
        if self._closed:
            raise StoreClosedError(f"the store at {self.place} was closed; open it again to use it")
        oldest = time.monotonic() - _MAX_IDLE
        while len(self._idle) > 1 and self._idle[0][1] < oldest:
            self._idle.pop(0)[0].pgconn.finish()
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self) -> Connection:
        async with asyncio.timeout(self._options.connect_timeout + 5.0):
            try:
                connection = await AsyncConnection.connect(self.place.conninfo, **self._arguments)
            except psycopg.OperationalError as error:
                raise NotConnectedError(str(error)) from error
            self._all.add(connection)
            try:
                # One round trip: without parameters several statements may go together.
                await connection.execute(self._settings)
            except BaseException:
                connection.pgconn.finish()
                raise
        return connection

    def _keep(self, connection: Connection) -> None:
        if self._closed:
            connection.pgconn.finish()
        elif not connection.closed:
            self._idle.append((connection, time.monotonic()))

    async def _discard(self, connection: Connection) -> None:
        # A call was cancelled in the middle: the server is told to stop, and nobody waits for its answer.
        with anyio.CancelScope(shield=True):
            if connection.info.transaction_status == TransactionStatus.ACTIVE:
                with contextlib.suppress(psycopg.Error):
                    await connection.cancel_safe(timeout=2.0)
        connection.pgconn.finish()


def _expire(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


def running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running loop; psycopg knows no other."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise StoreUnavailableError(
            "a PostgreSQL store runs on asyncio only, since its driver psycopg does; here runs another event"
            " loop (trio?): use asyncio, or a folder or memory:// store"
        ) from None
