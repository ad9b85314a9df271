"""Indexes that are made while others write, by one process at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import psycopg
from psycopg import errors as pg
from psycopg import sql

from vectorstores.postgres.columns import index_name
from vectorstores.postgres.errors import translated

if TYPE_CHECKING:
    from vectorstores.postgres.pool import Connection, Pool

# Kilobytes for the graph of an index over vectors, which is far slower to make where it does not fit. Taken as needed,
# and no bound for an administrator who allows more.
_MEMORY: Final = 1_048_576
_LOOK_AGAIN: Final = 0.2


@dataclass(frozen=True, slots=True)
class Building:
    """An index to be made: its name and the statement, with CONCURRENTLY."""

    name: str
    statement: sql.Composed

    @classmethod
    def of_vectors(cls, generation: int, statement: sql.Composed) -> Self:
        """Return the index over a column of vectors."""
        return cls(index_name(generation), statement)


async def make_index(pool: Pool, building: Building, wanted: Callable[[Connection], Awaitable[bool]]) -> None:
    """Make an index unless it is there or no longer ``wanted``; where another process makes it, wait for that.

    Raises :class:`StoreUnavailableError` if the server can't.
    """
    schema = pool.place.schema
    async with pool.connection() as connection, pool.connection() as guard:
        try:
            # Whoever waits for a lock of the server keeps such a build from its end: we ask, and come back.
            while not await _is_there(connection, schema, building.name) and await wanted(connection):
                await guard.execute(b"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
                if await is_building(guard, schema):
                    await guard.rollback()
                    await anyio.sleep(_LOOK_AGAIN)
                else:
                    await _build(connection, building, schema, wanted)
        except psycopg.Error as error:
            raise translated(error, pool.place) from error
        finally:
            # Their settings and the lock go with them.
            connection.pgconn.finish()
            guard.pgconn.finish()


async def is_building(connection: Connection, schema: str) -> bool:
    """Say whether a process makes an index; if not, none begins before this transaction ends."""
    try:
        async with connection.transaction():
            # Only who owns the tables may take it, and neither a secured role nor a change of scopes waits for it.
            await connection.execute(
                sql.SQL("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE NOWAIT").format(
                    sql.Identifier(schema, "scopes")
                )
            )
    except pg.LockNotAvailable:
        return True
    return False


async def _build(
    connection: Connection, building: Building, schema: str, wanted: Callable[[Connection], Awaitable[bool]]
) -> None:
    if await _is_there(connection, schema, building.name) or not await wanted(connection):
        return
    await connection.execute(b"SET statement_timeout = 0")
    await give_memory(connection)
    await _drop(connection, building)
    try:
        await connection.execute(building.statement)
    except (pg.DiskFull, pg.OutOfMemory):
        # Processes that build together share their memory by /dev/shm, of which a container has 64 MB unless it is
        # given more. One alone needs none.
        await _drop(connection, building)
        await connection.execute(b"SET max_parallel_maintenance_workers = 0")
        await connection.execute(building.statement)


async def _drop(connection: Connection, building: Building) -> None:
    """Drop what a build that was stopped has left, which serves nobody."""
    await connection.execute(
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(building.name))
    )


async def give_memory(connection: Connection) -> None:
    """Allow this connection the memory to make an index of vectors: 1 GB, or more where the server is set to more."""
    await connection.execute(
        b"SELECT set_config('maintenance_work_mem', greatest(setting::bigint, %b::bigint) || 'kB', false)"
        b" FROM pg_settings WHERE name = 'maintenance_work_mem'",
        (_MEMORY,),
    )


async def _is_there(connection: Connection, schema: str, name: str) -> bool:
    cursor = await connection.execute(
        b"SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        b" JOIN pg_namespace n ON n.oid = c.relnamespace"
        b" WHERE n.nspname = %b AND c.relname = %b AND i.indisvalid",
        (schema, name),
    )
    found: Any = await cursor.fetchone()
    return bool(found[0])
