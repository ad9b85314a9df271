"""A pool of connections for one event loop, and the calls that use them, one call to a connection at a time.

A call runs in a task of its own, which takes a connection, works, and gives it back. So a cancelled caller returns at
once: its statement is cancelled on the server, its connection is kept, and a connection that was being opened serves
others. Otherwise callers whose time limit is shorter than a connection takes would never be served.

No task outlives its work. The workers of ``psycopg_pool`` outlive their cancellation while they connect, so a program
that ended without closing its store hung forever.

A COMMIT whose answer is lost may have succeeded. A write that has the same effect when it is made twice is repeated;
any other write raises an error that says that its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import anyio
import psycopg
from pgvector.psycopg.vector import register_vector_info
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.types import TypeInfo
from psycopg.types.string import TextBinaryLoader

from vectorstores.base import StoreClosedError, StoreUnavailableError
from vectorstores.postgres.connection import (
    About,
    Connection,
    Patience,
    connect,
    repeated,
    session_settings,
)
from vectorstores.postgres.connection import rows as rows_of
from vectorstores.postgres.errors import is_lost

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place, PostgresOptions

T = TypeVar("T")

# Seconds after which an unused connection is closed.
_MAX_IDLE: Final = 600.0
_ROLLBACK: Final = 15.0
# Seconds to wait for an answer beyond a statement's own limit, before the connection is given up.
GRACE: Final = 15.0
_UNKNOWN: Final = "whether the write was made is not known: read before trying again"


@dataclass(slots=True)
class Call:
    """The phase of a call, and whether its caller has left."""

    phase: Literal["waiting", "connecting", "working", "committing", "ending"] = "waiting"
    left: bool = False

    def commit(self) -> None:
        """Enter the phase that even a cancelled caller waits for; raise if the caller has already left."""
        # asyncio.wait_for(), in which psycopg waits, may lose a cancellation before Python 3.12.
        if self.left:
            raise asyncio.CancelledError
        self.phase = "committing"


Work = Callable[[Connection, Call], Awaitable[T]]


class Pool:
    """A bounded pool, made and used in one event loop. Reads and writes are retried while that is safe."""

    def __init__(self, place: Place, options: PostgresOptions, about: About) -> None:
        self.place = place
        self.options = options
        # The adapters of these connections; those of the process stay as they are.
        self._context: Any = SimpleNamespace(adapters=AdaptersMap(psycopg.adapters), connection=None)
        register_vector_info(self._context, TypeInfo("vector", *about.vector_oids))
        # JSON is loaded as text and parsed later, so that an error can name the row.
        self._context.adapters.register_loader("json", TextBinaryLoader)
        self._settings = session_settings(options, about, place.schema)
        self._slots = asyncio.Semaphore(options.pool_size)
        # The connection used last is taken first, so that surplus ones grow old.
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work that changes nothing, again if the connection is lost."""
        patience = Patience(self.place, self.options.retry_for)
        return await repeated(patience, lambda: self._call(lambda connection, _: work(connection)))

    async def rows(self, statement: bytes, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that changes nothing."""
        return await self.read(lambda connection: rows_of(connection, statement, parameters))

    async def write(
        self,
        work: Callable[[Connection], Awaitable[T]],
        *,
        channel: str = "",
        size: int = 1,
        repeatable: bool = False,
    ) -> T:
        """Run work in a transaction, again if it failed for a passing reason, and notify a channel.

        ``size`` is the number of rows written; ``repeatable`` says that the work may be done twice. If the outcome is
        unknown, the :class:`StoreUnavailableError` says so.
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
            # The cancellation is the time limit of the whole call: its caller waits for this.
            except (psycopg.Error, TimeoutError, asyncio.CancelledError) as error:
                if isinstance(error, psycopg.Error) and not (
                    is_lost(error) and error.sqlstate in {None, "57P02"}
                ):
                    raise  # the server refused the commit
                said = " ".join(str(error).split()) or "no answer in time"
                unknown = f"the connection was lost in a commit ({said}); {_UNKNOWN}"
                if repeatable:
                    raise
                raise StoreUnavailableError(str(self.place)) from error
            if channel:
                # After the commit and not in it: a commit with a NOTIFY holds a global lock during its flush to disk,
                # and 16 writers then wrote half as much. This one waits for no disk. If it fails, or the time limit of
                # the whole call ends it, the write has still succeeded.
                told = f'BEGIN; SET LOCAL synchronous_commit = off; NOTIFY "{channel}"; COMMIT'
                with contextlib.suppress(psycopg.Error, TimeoutError, asyncio.CancelledError):
                    async with asyncio.timeout(GRACE):
                        await connection.execute(told.encode(), prepare=False)
            return result

        try:
            patience = Patience(self.place, self.options.retry_for)
            return await repeated(patience, lambda: self._call(attempt, size=size))
        except StoreUnavailableError as error:
            if unknown:
                raise StoreUnavailableError(f"{error}: {unknown}") from error
            raise

    async def _call(self, work: Work[T], *, size: int = 1) -> T:
        """Run work on a connection. ``size``, the number of rows, extends the time limit.

        If the caller is cancelled, its statement is cancelled in the background; only a COMMIT is waited for.
        Raises :class:`StoreUnavailableError` if all connections stay in use, ``TimeoutError``, and psycopg's errors.
        """
        call = Call()
        limit = (self.options.statement_timeout + GRACE) * (1 + size // 2000)
        task = in_background(self._run(call, work, limit))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            call.left = True
            if call.phase in {"waiting", "working"}:
                # psycopg cancels the statement and waits for the answer. A second cancellation closes the connection.
                task.cancel()
            elif call.phase == "committing":
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([task])
            raise
        return task.result()

    async def _run(self, call: Call, work: Work[T], limit: float) -> T:
        try:
            async with asyncio.timeout(self.options.checkout_timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise StoreUnavailableError(
                f"{self.place}: pool exhausted: all {self.options.pool_size} connections stayed in use for"
                f" {self.options.checkout_timeout:g} s; raise pool_size or checkout_timeout of PostgresOptions,"
                " or make fewer calls at once"
            ) from None
        connection: Connection | None = None
        try:
            connection = await self._connection(call)
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
                # A connection whose transaction is still open serves nobody else.
                if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
                    connection.pgconn.finish()
                else:
                    self._idle.append((connection, time.monotonic()))
            self._slots.release()

    async def _connection(self, call: Call) -> Connection:
        """Take an idle connection, or make one."""
        if self._closed:
            raise StoreClosedError(f"the store at {self.place} was closed; open it again to use it")
        oldest = time.monotonic() - _MAX_IDLE
        while len(self._idle) > 1 and self._idle[0][1] < oldest:
            self._idle.pop(0)[0].pgconn.finish()
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.closed:
                return connection
        call.phase = "connecting"
        async with asyncio.timeout(self.options.connect_timeout + 5.0):
            return await connect(self.place, self.options, self._settings, self._context)

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
    """Roll back an open transaction; if that fails, close the connection, so that the server rolls back."""
    if connection.pgconn.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
        try:
            with contextlib.suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_ROLLBACK):
                    await connection.rollback()
        finally:
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                connection.pgconn.finish()


# An event loop keeps weak references to its tasks.
_tasks: Final[set[asyncio.Task[Any]]] = set()


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task outside the caller's cancel scopes; whoever awaits it gets its error."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # otherwise asyncio logs the error of a task that nobody awaits any more


def running_loop() -> asyncio.AbstractEventLoop:
    """Return asyncio's running loop; psycopg knows no other."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise StoreUnavailableError(
            "a PostgreSQL store runs on asyncio only, as its driver psycopg does, and this is another event loop"
            " (trio?): use asyncio, or a folder or memory:// store"
        ) from None
