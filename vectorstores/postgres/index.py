"""Indexes that are made while others write, by one process at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio
import psycopg
from psycopg import errors as pg
from psycopg import sql

from vectorstores.postgres.errors import translated
from vectorstores.postgres.session import rows

if TYPE_CHECKING:
    from vectorstores.postgres.pool import Pool
    from vectorstores.postgres.session import Connection

# Kilobytes for the graph of an index over vectors, which is far slower to make where it does not fit. Taken as needed,
# and no bound for an administrator who allows more.
_MEMORY: Final = 1_048_576
_LOOK_AGAIN: Final = 0.2


async def make_index(
    pool: Pool, name: str, statement: sql.Composed, wanted: Callable[[Connection], Awaitable[bool]]
) -> None:
    """Make an index unless it is there or no longer ``wanted``; where another process makes it, wait for that.

    Raises :class:`StoreUnavailableError` if the server can't.
    """
    try:
        # Connections of its own: their settings and the lock go with them.
        async with await pool.connect() as connection, await pool.connect() as guard:
            # Whoever waits for a lock of the server keeps such a build from its end: we ask, and come back.
            while not await _is_there(connection, pool.place.schema, name) and await wanted(connection):
                await guard.execute(b"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
                if await is_building(guard, pool.place.schema):
                    await guard.rollback()
                    await anyio.sleep(_LOOK_AGAIN)
                elif not await _is_there(connection, pool.place.schema, name) and await wanted(connection):
                    await _build(connection, name, statement)
    except psycopg.Error as error:
        raise translated(error, pool.place) from error


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


async def _build(connection: Connection, name: str, statement: sql.Composed) -> None:
    # What a build that was stopped has left serves nobody.
    drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name))
    await connection.execute(b"SET statement_timeout = 0")
    await connection.execute(
        b"SELECT set_config('maintenance_work_mem', greatest(setting::bigint, %b::bigint) || 'kB', false)"
        b" FROM pg_settings WHERE name = 'maintenance_work_mem'",
        (_MEMORY,),
    )
    await connection.execute(drop)
    try:
        await connection.execute(statement)
    except (pg.DiskFull, pg.OutOfMemory):
        # Processes that build together share their memory by /dev/shm, of which a container has 64 MB unless it is
        # given more. One alone needs none.
        await connection.execute(drop)
        await connection.execute(b"SET max_parallel_maintenance_workers = 0")
        await connection.execute(statement)


async def _is_there(connection: Connection, schema: str, name: str) -> bool:
    statement = (
        b"SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n"
        b" ON n.oid = c.relnamespace WHERE n.nspname = %b AND c.relname = %b AND i.indisvalid"
    )
    return bool(await rows(connection, statement, (schema, name)))
