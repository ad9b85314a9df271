"""Calls of a store: read, and write in a transaction that happens once.

A write notes itself in the table ``commits``: each connection has a row there with the number of its last write, set
by the same transaction. So when the connection is lost while the server commits, the note tells whether it did. A
transaction's own number would not: a server that dies forgets numbers of transactions that left nothing on its disk,
and gives them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from uuid import UUID

import psycopg

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres.connection import Connection, Patience, repeated, rows
from vectorstores.postgres.errors import is_lost
from vectorstores.postgres.pool import GRACE, Call, Pool, roll_back

T = TypeVar("T")

_NOTE: Final = (
    b"INSERT INTO commits (connection, number) VALUES (%b::uuid, %b::bigint)"
    b" ON CONFLICT (connection) DO UPDATE SET number = excluded.number, at = excluded.at"
)
# Waits until the transaction that wrote the note has ended, if it is still open, and a standby refuses it: who is told
# by it knows what became of the write.
_ASK: Final = (
    b"INSERT INTO commits (connection, number) VALUES (%b::uuid, 0)"
    b" ON CONFLICT (connection) DO UPDATE SET number = commits.number RETURNING number"
)
# Longer than any call is tried again. Nobody asks for these any more, whosever they are.
_SWEEP: Final = (
    b"DELETE FROM commits WHERE connection IN (SELECT connection FROM commits WHERE at < now() - interval '1 day'"
    b" ORDER BY connection FOR UPDATE SKIP LOCKED)"
)
_UNKNOWN: Final = "whether the write was made is not known; read before trying again"


@dataclass(slots=True)
class _Doubt(Generic[T]):
    """A write whose COMMIT was sent and not answered: its note, and its result if it was made."""

    connection: UUID
    number: int
    result: T


class Transactions:
    """Reads and writes on the connections of a pool, tried again while that is safe."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._swept = False

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work that changes nothing, again when the connection is lost."""
        patience = Patience(self._pool.place, self._pool.options.retry_for)
        return await repeated(patience, lambda: self._pool.call(lambda connection, _: work(connection)))

    async def write(self, work: Callable[[Connection], Awaitable[T]], *, size: int = 1) -> T:
        """Run work in a transaction, again when it failed for a passing reason: it happens once or not at all.

        ``size`` says how many rows it brings.
        """
        doubt: _Doubt[T] | None = None

        async def attempt(connection: Connection, call: Call) -> T:
            nonlocal doubt
            if doubt is not None:
                ((number,),) = await rows(connection, _ASK, (doubt.connection,))
                if number >= doubt.number:
                    return doubt.result
                doubt = None
            try:
                result = await self._worked(connection, work)
                call.phase = "committing"
            except BaseException:
                call.phase = "ending"
                await roll_back(connection)
                raise
            doubt = _Doubt(connection.key, connection.writes, result)
            try:
                async with asyncio.timeout(GRACE):
                    await connection.execute(b"COMMIT")
            except psycopg.Error as error:
                if not is_lost(error):
                    doubt = None  # the server has said no
                raise
            return result

        patience = Patience(self._pool.place, self._pool.options.retry_for)
        try:
            return await repeated(patience, lambda: self._pool.call(attempt, size=size))
        except StoreUnavailableError as error:
            if doubt is None:
                raise
            raise StoreUnavailableError(f"{error}; {_UNKNOWN}") from error

    async def _worked(self, connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do all of a transaction but its end."""
        await connection.execute(b"BEGIN")
        result = await work(connection)
        if not self._swept:
            self._swept = True
            await connection.execute(_SWEEP)
        connection.writes += 1
        await connection.execute(_NOTE, (connection.key, connection.writes), prepare=True)
        return result
