"""Calls of a store, on connections of one event loop, each lent to one call at a time.

A call runs in a task of its own, which takes a connection, works, and gives it back. So a cancelled caller leaves at
once and nothing is lost by that: its statement is cancelled on the server, the connection is kept, and one that was
being made serves others. Callers with limits shorter than it takes to connect would else never be served again.

No task outlives its work, unlike in ``psycopg_pool``, whose workers outlive their cancellation while they connect: a
program that ended without closing its store then hung for ever.

A COMMIT whose answer is lost may have been made. A write that says the same when it is made again is made again; any
other is an error that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import anyio
import psycopg
from psycopg.pq import TransactionStatus

from vectorstores.base import StoreClosedError, StoreUnavailableError
from vectorstores.postgres.connection import (
    About,
    Connection,
    Patience,
    connect,
    repeated,
    session_settings,
)
from vectorstores.postgres.errors import is_lost, is_unanswered
from vectorstores.postgres.values import context_of

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place, PostgresOptions

T = TypeVar("T")

# A connection that nobody needed for so long is closed.
_MAX_IDLE: Final = 600.0
_ROLLBACK: Final = 15.0
# How long beyond its own limit a statement may stay silent before the connection is given up.
GRACE: Final = 15.0
_UNKNOWN: Final = "whether the write was made is not known: read before trying again"


@dataclass(slots=True)
class Call:
    """How far a call is, and whether its caller has given it up."""

    phase: Literal["waiting", "connecting", "working", "committing", "ending"] = "waiting"
    left: bool = False

    def commit(self) -> None:
        """Enter the phase that a caller waits for even when it is cancelled; raise if it has left before."""
        # asyncio.wait_for(), in which psycopg waits, may lose a cancellation before Python 3.12.
        if self.left:
            raise asyncio.CancelledError
        self.phase = "committing"


Work = Callable[[Connection, Call], Awaitable[T]]


class Pool:
    """A bounded pool, made and used in one event loop. Reads and writes are tried again while that is safe."""

    def __init__(self, place: Place, options: PostgresOptions, about: About) -> None:
        self.place = place
        self.options = options
        self._context = context_of(about.vector_oids)
        self._settings = session_settings(options, about, place.schema)
        self._slots = asyncio.Semaphore(options.pool_size)
        # The one used last is lent first, so that those that are not needed grow old.
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work that changes nothing, again when the connection is lost."""
        patience = Patience(self.place, self.options.retry_for)
        return await repeated(patience, lambda: self._call(lambda connection, _: work(connection)))

    async def write(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        channel: str = "",
        size: int = 1,
        repeatable: bool = False,
    ) -> T:
        """Run work in a transaction, again when it failed for a passing reason; tell those who listen at a channel.

        ``size`` says how many rows it brings; ``repeatable`` that it may be made twice. A
        :class:`StoreUnavailableError` says so where it may have been made.
        """
        unknown = ""

        async def attempt(connection: Connection, call: Call) -> T:
            nonlocal unknown
            try:
                await connection.execute(b"BEGIN")
                result = await work(connection)
                call.commit()
            except BaseException:
                call.phase = "ending"
                await _roll_back(connection)
                raise
            try:
                async with asyncio.timeout(GRACE):
                    await connection.execute(b"COMMIT")
            # Cancelled by the time limit of the whole call: its caller waits for this.
            except (psycopg.Error, TimeoutError, asyncio.CancelledError) as error:
                if not is_unanswered(error):
                    raise
                said = " ".join(str(error).split()) or "no answer in time"
                unknown = f"the connection was lost in a commit ({said}); {_UNKNOWN}"
                if repeatable:
                    raise
                raise StoreUnavailableError(str(self.place)) from error
            if channel:
                await _tell(connection, channel)
            return result

        try:
            patience = Patience(self.place, self.options.retry_for)
            return await repeated(patience, lambda: self._call(attempt, size=size))
        except StoreUnavailableError as error:
            if unknown:
                raise StoreUnavailableError(f"{error}: {unknown}") from error
            raise

    async def _call(self, work: Work[T], *, size: int = 1) -> T:
        """Run work on a connection. ``size`` is how many rows it is about, for its time limit.

        When the caller is cancelled the statement is cancelled behind it, unless that is a COMMIT, which is waited for.
        Raises :class:`StoreUnavailableError` when all connections stay in use, ``TimeoutError``, and psycopg's errors.
        """
        call = Call()
        limit = (self.options.statement_timeout + GRACE) * (1 + size // 2000)
        task = in_background(self._run(call, work, limit))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            call.left = True
            if call.phase in {"waiting", "working"}:
                # psycopg cancels the statement and waits for the answer. Asked again, it closes the connection.
                task.cancel()
            elif call.phase == "committing":
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([task])
            raise
        return task.result()

    async def _run(self, call: Call, work: Work[T], limit: float) -> T:
        connection: Connection | None = None
        await self._wait_for_turn()
        try:
            connection = self._take()
            if connection is None:
                call.phase = "connecting"
                connection = await self._connect()
            if call.left:
                raise asyncio.CancelledError  # the connection serves others
            call.phase = "working"
            async with asyncio.timeout(limit):
                return await work(connection, call)
        except psycopg.Error as error:
            if is_lost(error):
                self._drop_idle()
            raise
        finally:
            call.phase = "ending"
            if connection is not None:
                self._give_back(connection)
            self._slots.release()

    async def _wait_for_turn(self) -> None:
        try:
            async with asyncio.timeout(self.options.checkout_timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise StoreUnavailableError(
                f"{self.place}: pool exhausted: all {self.options.pool_size} connections stayed in use for"
                f" {self.options.checkout_timeout:g} s; raise pool_size or checkout_timeout of PostgresOptions,"
                " or make fewer calls at once"
            ) from None

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
        async with asyncio.timeout(self.options.connect_timeout + 5.0):
            connection = await connect(self.place, self.options, self._context)
            try:
                # One round trip: without parameters several statements may go together.
                await connection.execute(self._settings)
            except BaseException:
                connection.pgconn.finish()
                raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        """Keep a connection for others; close it if it is in the middle of something."""
        if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.pgconn.finish()
        else:
            self._idle.append((connection, time.monotonic()))

    def _drop_idle(self) -> None:
        """Close the idle connections: they may be as dead as one that was just lost."""
        for connection, _ in self._idle:
            connection.pgconn.finish()
        self._idle.clear()

    def close(self) -> None:
        """Close the idle connections now, and those in use when they come back."""
        self._closed = True
        self._drop_idle()


async def _roll_back(connection: Connection) -> None:
    """End a transaction, if there is one, or else the connection, whereupon the server does."""
    if connection.pgconn.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
        try:
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_ROLLBACK):
                    await connection.rollback()
        finally:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.pgconn.finish()


async def _tell(connection: Connection, channel: str) -> None:
    """Wake those who wait for changes, after the commit and not in it.

    A commit that tells holds a lock which lets one through at a time, and its flush to disk with it: 16 writers then
    wrote half as much. This one waits for no disk. That it fails, or is cut short by the time limit of the whole call,
    is no error of the write, which is made.
    """
    told = f'BEGIN; SET LOCAL synchronous_commit = off; NOTIFY "{channel}"; COMMIT'
    with contextlib.suppress(psycopg.Error, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(GRACE):
            await connection.execute(told.encode(), prepare=False)


# An event loop keeps weak references to its tasks.
_tasks: Final[set[asyncio.Task[Any]]] = set()


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that is outside of its starter's cancel scopes, and whose error is told to whoever waits for it."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # else asyncio logs the error of a task that nobody waits for any more


def running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running loop; psycopg knows no other."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise StoreUnavailableError(
            "a PostgreSQL store runs on asyncio only, since its driver psycopg does; here runs another event"
            " loop (trio?): use asyncio, or a folder or memory:// store"
        ) from None
