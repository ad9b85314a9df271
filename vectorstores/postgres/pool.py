"""Connections of one event loop, handed out one call at a time.

Connections are made, and statements run, in tasks of their own, so that a cancelled caller leaves at once and nothing
is lost by that: its statement is cancelled on the server, the connection is kept, and one that was being made serves
others. Callers with limits shorter than it takes to connect would else never be served again.

No task outlives its work, unlike in ``psycopg_pool``, whose workers outlive their cancellation while they connect: a
program that ended without closing its store then hung for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import PipelineStatus, TransactionStatus

from vectorstores.base import StoreClosedError, StoreUnavailableError
from vectorstores.postgres.commits import Commits
from vectorstores.postgres.quiet import quiet
from vectorstores.postgres.session import About, connection_arguments, session_settings
from vectorstores.postgres.values import Context

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.options import PostgresOptions

P = ParamSpec("P")
T = TypeVar("T")
Connection = AsyncConnection[Any]

# A connection that nobody needed for so long is closed.
_MAX_IDLE: Final = 600.0
_ROLLBACK: Final = 15.0
# How long a statement whose caller has left may end by itself. Most do, and to cancel one costs the server a process.
_LEFT_ALONE: Final = 0.1


class NotConnectedError(psycopg.OperationalError):
    """No connection could be made."""


class Pool:
    """A bounded pool. Made and used in one event loop."""

    def __init__(self, place: Place, options: PostgresOptions, about: About) -> None:
        self.place = place
        self.commits = Commits(about)
        self._options = options
        self._arguments = connection_arguments(options, Context(about.vector_oid))
        self._settings = session_settings(options, about, place.schema)
        self._free = options.pool_size
        self._waiters: deque[asyncio.Future[bool]] = deque()
        # The one used last is lent first, so that those that are not needed grow old.
        self._idle: list[tuple[Connection, float]] = []
        self._all: WeakSet[Connection] = WeakSet()
        self._working: dict[Connection, asyncio.Task[Any]] = {}
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
            self.give_back(connection)

    async def take(self) -> Connection:
        """Lend a connection, which must be given back.

        Raises :class:`StoreUnavailableError` when all stay in use, and psycopg's errors when none can be made.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait()
        try:
            lent = self._take()
        except BaseException:
            self._release()
            raise
        if lent is not None:
            return lent
        connecting = in_background(self._connect)
        try:
            return await outcome(connecting)
        except BaseException:
            # Also when it is done: the caller may have been cancelled at that very moment.
            connecting.add_done_callback(self._arrived)
            raise

    def _arrived(self, connecting: asyncio.Task[Connection]) -> None:
        """Keep a connection whose caller has left, or let another caller try if it could not be made."""
        if connecting.cancelled() or connecting.exception() is not None:
            self._release()
        else:
            self.give_back(connecting.result())

    async def run(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work on a connection that is lent. When the caller is cancelled, its statement is cancelled behind it."""
        task = self._working[connection] = in_background(work, connection)
        try:
            return await outcome(task)
        finally:
            if not task.done():
                # psycopg cancels the statement and waits for the answer. Asked again, it closes the connection.
                asyncio.get_running_loop().call_later(_LEFT_ALONE, task.cancel)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for others once its work has ended; close it if that is in the middle of something."""
        task = self._working.pop(connection, None)
        status = connection.pgconn.transaction_status
        if status == TransactionStatus.INTRANS and (task is None or task.done()):
            # Its caller was cancelled between the end of its work and COMMIT.
            task = in_background(roll_back, connection)
        if task is not None and not task.done():
            task.add_done_callback(lambda _: self.give_back(connection))
            return
        if status == TransactionStatus.IDLE and connection.pgconn.pipeline_status == PipelineStatus.OFF:
            self._keep(connection)
        else:
            connection.pgconn.finish()
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
        expiry = loop.call_later(self._options.checkout_timeout, _wake, waiter, False)  # noqa: FBT003
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


async def roll_back(connection: Connection) -> None:
    """End a transaction, if there is one, or else the connection, whereupon the server does."""
    if connection.pgconn.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
        try:
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_ROLLBACK):
                    await connection.rollback()
        finally:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.pgconn.finish()


def in_background(work: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> asyncio.Task[T]:
    """Start a task that is outside of its starter's cancel scopes, and whose error is told to whoever waits for it."""
    task = asyncio.create_task(_quietly(work, *args, **options))
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


async def outcome(task: asyncio.Task[T]) -> T:
    """Wait for a task, which goes on when the waiter is cancelled."""
    # Not asyncio.wait(), which takes twice as long, nor shield(), which logs the error of a task that nobody waits for.
    waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    task.add_done_callback(lambda _: _wake(waiter))
    await waiter
    return task.result()


# An event loop keeps weak references to its tasks.
_tasks: Final[set[asyncio.Task[Any]]] = set()


async def _quietly(work: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    # The work begins here: of a task that is cancelled before, nothing is left that nobody awaited.
    with quiet():
        return await work(*args, **options)


def _ended(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # else asyncio logs the error of a task that nobody waits for any more


def _wake(waiter: asyncio.Future[bool], result: bool = True) -> None:  # noqa: FBT001, FBT002 - for call_later()
    if not waiter.done():
        waiter.set_result(result)


def running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running loop; psycopg knows no other."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise StoreUnavailableError(
            "a PostgreSQL store runs on asyncio only, since its driver psycopg does; here runs another event"
            " loop (trio?): use asyncio, or a folder or memory:// store"
        ) from None
