"""A move to another embedder, in PostgreSQL.

The new vectors fill a column of their own beside the old one; a row without a new vector is pending. Other programs
insert and delete meanwhile without knowing of the move, and a trigger empties the new column when the text of a row
changes. Then the index is built concurrently, the rows written meanwhile are filled, and the columns are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from pgvector import Vector
from psycopg import errors as pg
from psycopg import sql

from vectorstores._engine import embed_checked
from vectorstores.base import EmbedderMismatchError, StoreUnavailableError
from vectorstores.migration import Reembedding
from vectorstores.postgres.address import PostgresOptions, split_schema
from vectorstores.postgres.connection import Connection, column_name, on_connection, resolve
from vectorstores.postgres.pool import Pool, running_loop
from vectorstores.postgres.schema import (
    add_column,
    add_index,
    check_owner,
    describe,
    index_name,
    read_meta,
    require_vector,
)
from vectorstores.postgres.security import COLUMN_GRANTS, execute_made

if TYPE_CHECKING:
    from vectorstores._engine import Opened
    from vectorstores.base import FloatArray
    from vectorstores.postgres.address import Place

_Row = tuple[str, int, str]

# Whoever waits for a table lock holds up everybody who comes later, so give up soon and try again.
_LOCK_WAIT: Final = b"SET LOCAL lock_timeout = '2s'"
# Held by the one process that builds an index, since two builds of a table wait for each other and end in a deadlock.
# It stops no reader or writer. The lock on chunks shows a build that the server continues after its client was killed.
_LOCK_BUILD: Final = b"""
    SET LOCAL lock_timeout = '2s'; LOCK TABLE scopes IN SHARE UPDATE EXCLUSIVE MODE;
    SAVEPOINT unlocked; LOCK TABLE chunks IN SHARE UPDATE EXCLUSIVE MODE; ROLLBACK TO unlocked
"""
# Seconds. Somebody else may use the tables.
_RETRY_FOR: Final = 60.0
_NEXT: Final = ["next_embedder", "next_embedder_name", "next_dim", "next_generation"]
# Generations are never reused, so a process that still fills the column of an abandoned move gets an error.
_LAST: Final = "last_generation"
_SET_META: Final = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_TRIGGER: Final = """
    CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog
        AS $$ BEGIN NEW.{column} := NULL; RETURN NEW; END $$;
    CREATE TRIGGER {name} BEFORE UPDATE OF content, embed_text ON chunks FOR EACH ROW
        WHEN (coalesce(OLD.embed_text, OLD.content) IS DISTINCT FROM coalesce(NEW.embed_text, NEW.content))
        EXECUTE FUNCTION {name}();
"""
_DROP_TRIGGER: Final = "DROP TRIGGER IF EXISTS {0} ON chunks; DROP FUNCTION IF EXISTS {0}()"


async def move_database(
    address: str, target: Opened, batch: int, on_progress: Callable[[Reembedding], None]
) -> Reembedding:
    """Do what :func:`vectorstores.reembed` says, as the owner of the tables."""
    running_loop()
    conninfo, schema = split_schema(address)
    place = await anyio.to_thread.run_sync(lambda: resolve(conninfo, schema, create=False))
    # Statements read the whole table and build the index, so a day. One connection builds, another holds the lock.
    options = PostgresOptions(pool_size=2, retry_for=_RETRY_FOR, statement_timeout=86_400.0)

    pool = Pool(place, options, await on_connection(place, options, partial(describe, place=place)))
    try:
        return await _Move(place, target, pool).run(batch, on_progress)
    finally:
        pool.close()


class _Move:
    """A store whose vectors are being replaced."""

    def __init__(self, place: Place, target: Opened, pool: Pool) -> None:
        self._place, self._target, self._pool = place, target, pool
        self._generation, self._column = 0, sql.Identifier(column_name(0))  # until the move is prepared

    async def run(self, batch: int, on_progress: Callable[[Reembedding], None]) -> Reembedding:
        try:
            if await self._pool.write(self._prepare, repeatable=True):
                await self._fill(batch, on_progress)
                while not await self._pool.write(self._build_index, repeatable=True):
                    pass  # another process builds it
                # Again for what was written meanwhile, while that gets less: the exchange embeds the rest under a lock.
                before, filled = math.inf, await self._fill(batch, on_progress)
                while batch < filled < before:
                    before, filled = filled, await self._fill(batch, on_progress)
                await self._pool.write(self._exchange, repeatable=True)
        except EmbedderMismatchError as error:  # the new column is gone
            raise StoreUnavailableError(
                f"{self._place} is no longer being moved to {self._target.embedder_id}: another process began a move"
                " to another embedder; start this one again if you still want it"
            ) from error
        ((total,),) = await self._pool.rows(b"SELECT count(*) FROM chunks")
        return Reembedding(total, total)

    async def _prepare(self, connection: Connection) -> bool:
        """Add the column of new vectors, or resume a move to the same embedder; False if there is nothing to do."""
        await connection.execute(_LOCK_WAIT)
        await check_owner(connection, self._place, lock=True)
        meta, target = await read_meta(connection, self._place), self._target
        resumed = meta.get("next_embedder") == target.embedder_id
        new = 1 + max(int(meta["generation"]), int(meta.get(_LAST, 0)))
        self._generation = int(meta["next_generation"]) if resumed else new
        self._column = sql.Identifier(column_name(self._generation))
        if resumed:
            return True
        if "next_generation" in meta:
            # Remove what a move to a third embedder left.
            left = int(meta["next_generation"])
            await connection.execute(_LOCK_BUILD)
            await connection.execute(sql.SQL(_DROP_TRIGGER).format(_trigger_name(left)))
            await connection.execute(f"ALTER TABLE chunks DROP COLUMN IF EXISTS {column_name(left)}".encode())
            await connection.execute("DELETE FROM meta WHERE key = ANY(%s)", (_NEXT,))
        if meta["embedder"] == target.embedder_id:
            return False
        await connection.execute(add_column(self._generation, target.dim))
        await execute_made(connection, COLUMN_GRANTS, self._place.schema)
        names = {"name": _trigger_name(self._generation), "column": self._column}
        await connection.execute(sql.SQL(_TRIGGER).format(**names))
        number = str(self._generation)
        for item in (*zip(_NEXT, (*target.about.values(), number), strict=True), (_LAST, number)):
            await connection.execute(_SET_META, item)
        return True

    async def _fill(self, batch: int, on_progress: Callable[[Reembedding], None]) -> int:
        """Embed the pending rows, once through the table in the order of the primary key; return their number."""
        count = f"SELECT count(*), count(*) - count({column_name(self._generation)}) FROM chunks"  # noqa: S608
        ((total, left),) = await self._pool.rows(count.encode())
        after, filled = ("", 0), 0
        while rows := await self._pool.read(partial(self._pending, after=after, limit=batch)):
            after = rows[-1][:2]
            vectors = await embed_checked(self._target, [text for *_, text in rows])
            store = partial(self._store, rows=rows, vectors=vectors)
            stored = await self._pool.write(store, repeatable=True)
            left, filled = max(left - stored, 0), filled + stored
            on_progress(Reembedding(total - left, total))
        return filled

    async def _pending(
        self, connection: Connection, after: tuple[str, int] = ("", 0), limit: int | None = None
    ) -> list[_Row]:
        """Return the namespace, number and text of pending rows."""
        statement = sql.SQL(
            "SELECT namespace, number, coalesce(embed_text, content) FROM chunks WHERE {} IS NULL"
            " AND (namespace, number) > (%s::text, %s::bigint) ORDER BY namespace, number LIMIT %s::bigint"
        ).format(self._column)
        return await (await connection.execute(statement, (*after, limit))).fetchall()

    async def _store(self, connection: Connection, rows: Sequence[_Row], vectors: FloatArray) -> int:
        """Store new vectors in the rows whose text is still the same; return how many these are."""
        statement = sql.SQL(
            "UPDATE chunks c SET {0} = given.vector FROM"
            " unnest(%b::text[], %b::bigint[], %b::text[], %b::vector[]) AS given (namespace, number, text, vector)"
            " WHERE c.namespace = given.namespace AND c.number = given.number AND c.{0} IS NULL"
            " AND coalesce(c.embed_text, c.content) = given.text"
        ).format(self._column)
        columns = (list(column) for column in zip(*rows, strict=True))
        cursor = await connection.execute(statement, (*columns, [Vector(vector) for vector in vectors]))
        return cursor.rowcount

    async def _build_index(self, connection: Connection) -> bool:
        """Have the index built on a second connection; False while another process builds it."""
        try:
            async with connection.transaction():
                await connection.execute(_LOCK_BUILD)
        # The build waits for all snapshots at its end, also for that of one who waits here: so only for a moment.
        except (pg.LockNotAvailable, pg.DeadlockDetected):
            return False

        async def build(other: Connection) -> None:
            name = index_name(self._generation)
            cursor = await other.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)
            )
            valid = await cursor.fetchone()
            statement = add_index(self._generation, self._target.dim, concurrently=True)
            if statement is not None and valid != (True,):
                # An interrupted build leaves an index that is not valid.
                await other.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
                await other.execute(statement)

        await self._pool.read(build)
        return True

    async def _exchange(self, connection: Connection) -> None:
        """Put the new vectors in the place of the old ones, under a lock; embed the rows that are still pending."""
        await connection.execute(_LOCK_WAIT)
        await check_owner(connection, self._place, lock=True)
        meta = await read_meta(connection, self._place)
        if meta["generation"] == str(self._generation):
            return  # another process has finished the same move
        if meta.get("next_generation") != str(self._generation):
            raise EmbedderMismatchError("another process began a move to another embedder")
        # From here on writers wait, and soon readers too.
        await connection.execute("LOCK TABLE chunks IN EXCLUSIVE MODE")
        if rows := await self._pending(connection):
            await self._store(
                connection, rows, await embed_checked(self._target, [text for *_, text in rows])
            )
        await connection.execute("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE")
        await connection.execute(sql.SQL(_DROP_TRIGGER).format(_trigger_name(self._generation)))
        old = column_name(int(meta["generation"]))
        # Earlier versions made the index of pending rows.
        await connection.execute(
            f"DROP INDEX IF EXISTS chunks_pending_{self._generation}; ALTER TABLE chunks DROP COLUMN {old}".encode()
        )
        await connection.execute(require_vector(self._generation))
        for item in (self._target.about | {"generation": str(self._generation)}).items():
            await connection.execute(_SET_META, item)
        await connection.execute("DELETE FROM meta WHERE key = ANY(%s)", (_NEXT,))


def _trigger_name(generation: int) -> sql.Identifier:
    return sql.Identifier(f"forget_{column_name(generation)}")
