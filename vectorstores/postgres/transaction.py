"""Calls that are tried again while that is safe, and writes that happen once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeAlias, TypeVar

import anyio
import psycopg

from vectorstores.base import StoreUnavailableError, VectorStoreError
from vectorstores.postgres.commits import Mark, StillOpenError, was_committed
from vectorstores.postgres.connection import start_again, unreachable
from vectorstores.postgres.errors import is_coming, is_lost, is_passing, translated
from vectorstores.postgres.pool import NotConnectedError, roll_back
from vectorstores.postgres.quiet import quiet

if TYPE_CHECKING:
    from vectorstores.postgres.options import PostgresOptions
    from vectorstores.postgres.pool import Connection, Pool

T = TypeVar("T")
Kind: TypeAlias = Literal["chunks", "records"]
Work: TypeAlias = Callable[["Connection"], Awaitable[T]]

_FIRST_WAIT: Final = 0.03
_LONGEST_WAIT: Final = 2.0
# For a server that answers that it is about to be there.
_COMING_WAIT: Final = 0.5
# How long beyond its own limit a statement may stay silent before the connection is given up.
_GRACE: Final = 15.0
# How long a server is given to begin starting, however little time is left.
_LEAST: Final = 1.0
# Said of a write whose COMMIT was sent and never answered.
_UNKNOWN: Final = "whether the write was made is not known; read before trying again"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What a write did: its result, whether there is anything to commit, and a channel and payload to tell it by."""

    result: T
    changed: bool = True
    told: tuple[str, str] | None = None


@dataclass(slots=True)
class _Doubt(Generic[T]):
    """A write whose COMMIT was sent and not answered."""

    mark: Mark
    result: T


class Runner:
    """Runs work on a connection of a pool."""

    def __init__(self, pool: Pool, options: PostgresOptions) -> None:
        self._pool = pool
        self._options = options

    async def read(self, work: Work[T]) -> T:
        """Run work that changes nothing, again when the connection is lost."""
        try:
            return await self._read_once(work)
        except (psycopg.Error, TimeoutError) as error:
            return await self._insist(lambda: self._read_once(work), error)

    async def _read_once(self, work: Work[T]) -> T:
        async def look(connection: Connection) -> T:
            async with asyncio.timeout(self._options.statement_timeout + _GRACE):
                return await work(connection)

        connection = await self._pool.take()
        try:
            return await self._pool.run(connection, look)
        finally:
            self._pool.give_back(connection)

    async def write(self, work: Work[Change[T]], *, copies: bool = False, size: int = 1) -> T:
        """Run work in a transaction, again when it failed for a passing reason: it happens once or not at all.

        When the connection is lost while the server commits, the server is asked whether it did. ``copies`` says
        that the work uses COPY, ``size`` how many rows it brings.
        """
        doubt: _Doubt[T] | None = None
        patience = (self._options.statement_timeout + _GRACE) * (1 + size // 2000)

        async def prepare(connection: Connection) -> tuple[T, Mark | None]:
            nonlocal doubt
            async with asyncio.timeout(patience):
                if doubt is not None:
                    if await was_committed(connection, doubt.mark):
                        return doubt.result, None
                    doubt = None
                change, mark = await self._prepare(connection, work, copies=copies)
                return change.result, mark

        async def once() -> T:
            nonlocal doubt
            async with self._pool.connection() as connection:
                result, mark = await self._pool.run(connection, prepare)
                if mark is None:
                    return result
                doubt = _Doubt(mark, result)
                # From here on the outcome is the server's: a cancelled caller waits for the answer.
                try:
                    with anyio.CancelScope(shield=True), anyio.fail_after(_GRACE):
                        await connection.execute(b"COMMIT")
                except psycopg.Error as error:
                    if not is_lost(error):
                        doubt = None  # the server has said no
                    raise
                return result

        try:
            return await self._insist(once)
        except StoreUnavailableError as error:
            # As a mere DatabaseError comes what says so itself.
            if doubt is None or type(error.__cause__) is psycopg.DatabaseError:
                raise
            raise StoreUnavailableError(f"{error}; {_UNKNOWN}") from error

    async def _prepare(
        self, connection: Connection, work: Work[Change[T]], *, copies: bool
    ) -> tuple[Change[T], Mark | None]:
        """Run work up to its commit; return what it did, and by what the commit is known, if there is one."""
        try:
            # In a pipeline, statements that don't wait for each other share a round trip; COPY can't be in one.
            async with contextlib.nullcontext() if copies else connection.pipeline():
                await connection.execute(b"BEGIN")
                change = await work(connection)
                if not change.changed:
                    # Not ROLLBACK, at which psycopg forgets the statements that are prepared.
                    await connection.execute(b"COMMIT")
                    return change, None
                return change, await self._pool.commits.mark(connection, change.told)
        except BaseException:
            await roll_back(connection)
            raise

    async def _insist(
        self, once: Callable[[], Awaitable[T]], failed: psycopg.Error | TimeoutError | None = None
    ) -> T:
        """Try until it works; ``failed`` is how a first attempt went."""
        deadline = time.monotonic() + self._options.retry_for
        pause = _FIRST_WAIT
        while True:
            if failed is None:
                try:
                    with quiet():
                        return await once()
                except (psycopg.Error, TimeoutError) as error:
                    failed = error
            trouble = await self._start_again(failed, deadline)
            pause = self._pause_after(failed, pause, deadline, trouble)
            failed = None
            # Apart from each other: those who failed together would otherwise meet again.
            await anyio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret

    async def _start_again(
        self, error: psycopg.Error | TimeoutError, deadline: float
    ) -> StoreUnavailableError | None:
        """See that an embedded server that was not there is being started; return why it can't be."""
        if not isinstance(error, NotConnectedError) or is_coming(error):
            return None
        return await start_again(self._pool.place, max(deadline - time.monotonic(), _LEAST))

    def _pause_after(
        self,
        error: psycopg.Error | TimeoutError,
        pause: float,
        deadline: float,
        trouble: StoreUnavailableError | None,
    ) -> float:
        """Return how long to wait before the next attempt; raise if there is to be none."""
        passing = isinstance(error, TimeoutError | StillOpenError) or is_passing(error)
        if not passing or time.monotonic() + pause > deadline:
            raise trouble or self._told(error) from error
        if is_lost(error):
            self._pool.drop_idle()
        if is_lost(error) and not isinstance(error, NotConnectedError):
            # There is a server, which ended a connection: the next one is likely to do.
            return _FIRST_WAIT
        return min(2 * pause, _COMING_WAIT if is_coming(error) else _LONGEST_WAIT)

    def _told(self, error: psycopg.Error | TimeoutError) -> VectorStoreError:
        if isinstance(error, NotConnectedError):
            return unreachable(self._pool.place, error)
        if isinstance(error, psycopg.Error):
            return translated(error, self._pool.place)
        return StoreUnavailableError(f"{self._pool.place}: the server did not answer in time; is it running?")
