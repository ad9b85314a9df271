"""Calls of a store: read, and write in a transaction that happens once.

A write notes itself in the table ``commits``: each connection has a row there with the number of its last write, set
by the same transaction. So when the connection is lost while the server commits, the note tells whether it did. A
transaction's own number would not: a server that dies forgets numbers of transactions that left nothing on its disk,
and gives them anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

import psycopg

from vectorstores.base import StoreUnavailableError
from vectorstores.postgres import removal
from vectorstores.postgres.connection import Patience, repeated
from vectorstores.postgres.errors import is_lost
from vectorstores.postgres.pool import GRACE, Call, Pool, roll_back
from vectorstores.postgres.session import About, Connection, rows

T = TypeVar("T")

_TELL: Final = b"SELECT pg_notify(%b, %b)"
_NOTE: Final = (
    b"WITH noted AS (INSERT INTO commits (connection, number) VALUES (%b::uuid, %b::bigint)"
    b" ON CONFLICT (connection) DO UPDATE SET number = excluded.number, at = excluded.at) "
)
# Waits until the transaction that wrote the note has ended, if it is still open, and a standby refuses it: who is told
# by it knows what became of the write.
_ASK: Final = (
    b"INSERT INTO commits (connection, number) VALUES (%b::uuid, 0)"
    b" ON CONFLICT (connection) DO UPDATE SET number = commits.number RETURNING number"
)
_UNKNOWN: Final = "whether the write was made is not known; read before trying again"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What a write did: its result, whether there is anything to commit, and a channel and payload to tell it by."""

    result: T
    changed: bool = True
    told: tuple[str, str] | None = None


@dataclass(slots=True)
class _Note:
    """A connection's row in ``commits``: its key, and the number of its last write."""

    connection: UUID = field(default_factory=uuid4)
    number: int = 0


@dataclass(slots=True)
class _Doubt(Generic[T]):
    """A write whose COMMIT was sent and not answered: its note, and its result if it was made."""

    connection: UUID
    number: int
    result: T


class Transactions:
    """Reads and writes on the connections of a pool, tried again while that is safe."""

    def __init__(self, pool: Pool, about: About) -> None:
        self.pool = pool
        self._noted = about.noted
        self._sweep = removal.COMMITS.statement(about)
        self._swept = False
        self._notes: WeakKeyDictionary[Connection, _Note] = WeakKeyDictionary()

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run work that changes nothing, again when the connection is lost."""
        patience = Patience(self.pool.place, self.pool.options.retry_for)
        return await repeated(patience, lambda: self.pool.call(lambda connection, _: work(connection)))

    async def write(
        self, work: Callable[[Connection], Awaitable[Change[T]]], *, size: int = 1, pipeline: bool = True
    ) -> T:
        """Run work in a transaction, again when it failed for a passing reason: it happens once or not at all.

        ``size`` says how many rows it brings. In a pipeline, statements that don't wait for each other share a round
        trip; work that may have to undo one of its statements can't be in one.
        """
        doubt: _Doubt[T] | None = None

        async def attempt(connection: Connection, call: Call) -> T:
            nonlocal doubt
            if doubt is not None:
                if await self._was_made(connection, doubt):
                    return doubt.result
                doubt = None
            try:
                change = await (
                    self._piped(connection, work) if pipeline else self._prepared(connection, work)
                )
                if not change.changed:
                    return change.result
                call.commit()
            except BaseException:
                call.phase = "ending"
                await roll_back(connection)
                raise
            note = self._notes[connection]
            doubt = _Doubt(note.connection, note.number, change.result)
            try:
                async with asyncio.timeout(GRACE):
                    await connection.execute(b"COMMIT")
            except psycopg.Error as error:
                if not is_lost(error):
                    doubt = None  # the server has said no
                raise
            return change.result

        patience = Patience(self.pool.place, self.pool.options.retry_for)
        try:
            return await repeated(patience, lambda: self.pool.call(attempt, size=size))
        except StoreUnavailableError as error:
            if doubt is None:
                raise
            raise StoreUnavailableError(f"{error}; {_UNKNOWN}") from error

    async def _piped(
        self, connection: Connection, work: Callable[[Connection], Awaitable[Change[T]]]
    ) -> Change[T]:
        async with connection.pipeline():
            return await self._prepared(connection, work)

    async def _prepared(
        self, connection: Connection, work: Callable[[Connection], Awaitable[Change[T]]]
    ) -> Change[T]:
        """Do all of a transaction but its end, and note it; end it where it changed nothing."""
        await connection.execute(b"BEGIN")
        change = await work(connection)
        if not change.changed:
            # Not ROLLBACK, at which psycopg forgets the statements that are prepared.
            await connection.execute(b"COMMIT")
            return change
        note = self._notes.setdefault(connection, _Note())
        note.number += 1
        if not self._noted:
            if change.told is not None:
                await connection.execute(_TELL, change.told, prepare=True)
            return change
        if not self._swept:
            self._swept = True
            await connection.execute(self._sweep)
        tell, told = (b"SELECT 1", ()) if change.told is None else (_TELL, change.told)
        await connection.execute(_NOTE + tell, (note.connection, note.number, *told), prepare=True)
        return change

    async def _was_made(self, connection: Connection, doubt: _Doubt[T]) -> bool:
        if not self._noted:
            raise psycopg.DatabaseError(
                "the connection was lost while a write was committed, which left no note"
            )
        ((number,),) = await rows(connection, _ASK, (doubt.connection,))
        return bool(number >= doubt.number)
