"""A move to another embedder, in PostgreSQL.

The new vectors fill a column of their own beside the old one; a row without a new vector is pending. So whoever
inserts or deletes takes part without knowing of the move, and a trigger takes away the new vector of a row whose text
is changed. The index over the new column is there from the beginning, and grows with each vector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread
from psycopg import sql

from vectorstores._engine import embed_checked
from vectorstores.base import EmbedderMismatchError, StoreUnavailableError
from vectorstores.migration import Reembedding
from vectorstores.postgres.address import PostgresOptions, split_schema
from vectorstores.postgres.connection import About, Connection, column_name, on_connection, resolve
from vectorstores.postgres.pool import Pool, running_loop
from vectorstores.postgres.schema import (
    add_column,
    add_index,
    check_dim,
    describe,
    lock_schema,
    read_meta,
    require_vector,
)
from vectorstores.postgres.security import grant_columns
from vectorstores.postgres.values import Vector

if TYPE_CHECKING:
    from vectorstores._engine import Opened
    from vectorstores.base import FloatArray
    from vectorstores.postgres.address import Place

T = TypeVar("T")

# A table lock that is not to be had soon is asked for again later: whoever waits for one holds up all others.
_LOCK_WAIT: Final = b"SET LOCAL lock_timeout = '2s'"
_NEXT: Final = ["next_embedder", "next_embedder_name", "next_dim", "next_generation"]
# Generations are never used twice, so that who still writes for a move that was given up meets an error.
_LAST: Final = "last_generation"
_SAY: Final = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_TRIGGER: Final = """
    CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog
        AS $$ BEGIN NEW.{column} := NULL; RETURN NEW; END $$;
    CREATE TRIGGER {name} BEFORE UPDATE OF content, embed_text ON chunks FOR EACH ROW
        WHEN (coalesce(OLD.embed_text, OLD.content) IS DISTINCT FROM coalesce(NEW.embed_text, NEW.content))
        EXECUTE FUNCTION {name}();
"""
_DROP_TRIGGER: Final = "DROP TRIGGER IF EXISTS {0} ON chunks; DROP FUNCTION IF EXISTS {0}()"


async def move_database(
    address: str, target: Opened, batch: int, told: Callable[[Reembedding], None]
) -> Reembedding:
    """Do what :func:`vectorstores.reembed` says, as the owner of the tables."""
    running_loop()
    conninfo, schema = split_schema(address)
    place = await anyio.to_thread.run_sync(lambda: resolve(conninfo, schema, create=False))
    if place is None:
        raise StoreUnavailableError(f"there is no store at {conninfo}")
    check_dim(target.dim, place)
    # Each statement may look through the whole table, which takes as long as it takes.
    options = PostgresOptions(pool_size=2, retry_for=60.0, statement_timeout=86_400.0)

    async def look(connection: Connection) -> About:
        return await describe(connection, place, await _said(connection, place))

    pool = Pool(place, options, await on_connection(place, options, look))
    try:
        return await _Move(place, target, pool).carried_out(batch, told)
    finally:
        pool.close()


async def _said(connection: Connection, place: Place) -> dict[str, str]:
    said = await read_meta(connection, place)
    if said is None:
        raise StoreUnavailableError(f"{place}: there is no store here")
    return said


class _Move:
    """A store whose vectors are being replaced."""

    def __init__(self, place: Place, target: Opened, pool: Pool) -> None:
        self._place, self._target, self._pool = place, target, pool
        self._generation = 0

    async def carried_out(self, batch: int, told: Callable[[Reembedding], None]) -> Reembedding:
        if await self._pool.write(self._prepare, repeatable=True):
            total, left = await self._own(self._pool.read(self._count))
            while True:
                rows = await self._own(self._pool.read(partial(self._pending, limit=batch)))
                if rows:
                    vectors = await embed_checked(self._target, [text for _, text in rows])
                    keep = partial(self._store, rows=rows, vectors=vectors)
                    left = max(left - await self._own(self._pool.write(keep, repeatable=True)), 0)
                    told(Reembedding(total - left, total))
                # While others write without a pause there is always a row that is missing: the end takes these along.
                if len(rows) < batch:
                    break
            await self._pool.write(self._exchange, repeatable=True)
        total, _ = await self._pool.read(self._count)
        return Reembedding(total, total)

    async def _prepare(self, connection: Connection) -> bool:
        """Make room for new vectors, or take up a move to the same embedder; False if there is nothing to do."""
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        said, target = await _said(connection, self._place), self._target
        if said.get("next_embedder") == target.embedder_id:
            self._generation = int(said["next_generation"])
        else:
            if "next_generation" in said:
                await self._give_up(connection, int(said["next_generation"]))
            if said["embedder"] == target.embedder_id:
                return False
            self._generation = 1 + max(int(said["generation"]), int(said.get(_LAST, 0)))
            await self._make_room(connection)
        # Now, when there is nothing to put in; a move that an earlier version began may have none.
        await connection.execute(add_index(self._generation, target.dim))
        return True

    async def _give_up(self, connection: Connection, generation: int) -> None:
        await connection.execute(sql.SQL(_DROP_TRIGGER).format(_trigger_name(generation)))
        await connection.execute(
            f"ALTER TABLE chunks DROP COLUMN IF EXISTS {column_name(generation)}".encode()
        )
        await connection.execute("DELETE FROM meta WHERE key = ANY(%s)", (_NEXT,))

    async def _make_room(self, connection: Connection) -> None:
        number = str(self._generation)
        await connection.execute(add_column(self._generation, self._target.dim))
        await grant_columns(connection, self._place)
        names = {"name": _trigger_name(self._generation), "column": self._column}
        await connection.execute(sql.SQL(_TRIGGER).format(**names))
        next_ones = zip(_NEXT, (*self._target.about.values(), number), strict=True)
        for item in (*next_ones, (_LAST, number)):
            await connection.execute(_SAY, item)

    async def _count(self, connection: Connection) -> tuple[int, int]:
        """Return how many rows there are, and how many without a new vector."""
        moving = "next_generation" in await _said(connection, self._place)
        left = sql.SQL("count(*) FILTER (WHERE {} IS NULL)").format(self._column) if moving else sql.SQL("0")
        cursor = await connection.execute(sql.SQL("SELECT count(*), {} FROM chunks").format(left))
        ((total, pending),) = await cursor.fetchall()
        return total, pending

    async def _pending(self, connection: Connection, limit: int | None) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""
        if self._is_done(await _said(connection, self._place)):
            return []
        statement = sql.SQL(
            "SELECT number, coalesce(embed_text, content) FROM chunks WHERE {} IS NULL"
            " ORDER BY number LIMIT %s::bigint"
        ).format(self._column)
        return await (await connection.execute(statement, (limit,))).fetchall()

    async def _store(
        self, connection: Connection, rows: Sequence[tuple[int, str]], vectors: FloatArray
    ) -> int:
        """Keep the new vectors of the rows whose text is still the same; return how many these are."""
        statement = sql.SQL(
            "UPDATE chunks SET {0} = %s WHERE {0} IS NULL AND number = %s::bigint"
            " AND coalesce(embed_text, content) = %s"
        ).format(self._column)
        kept = 0
        for (row, text), vector in zip(rows, vectors, strict=True):
            cursor = await connection.execute(statement, (Vector(vector), row, text), prepare=True)
            kept += cursor.rowcount
        return kept

    async def _exchange(self, connection: Connection) -> None:
        """Let the new vectors take the place of the old ones, with those that are missing still, under a lock."""
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        said = await _said(connection, self._place)
        if self._is_done(said):
            return
        # From here on writers wait, and soon readers too.
        await connection.execute("LOCK TABLE chunks IN EXCLUSIVE MODE")
        if rows := await self._pending(connection, None):
            await self._store(connection, rows, await embed_checked(self._target, [text for _, text in rows]))
        await connection.execute("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE")
        await connection.execute(sql.SQL(_DROP_TRIGGER).format(_trigger_name(self._generation)))
        old = column_name(int(said["generation"]))
        # The index is one that earlier versions made.
        await connection.execute(
            f"DROP INDEX IF EXISTS chunks_pending_{self._generation}; ALTER TABLE chunks DROP COLUMN {old}".encode()
        )
        await connection.execute(require_vector(self._generation))
        for item in (self._target.about | {"generation": str(self._generation)}).items():
            await connection.execute(_SAY, item)
        await connection.execute("DELETE FROM meta WHERE key = ANY(%s)", (_NEXT,))

    def _is_done(self, said: dict[str, str]) -> bool:
        """Whether another process, moving to the same embedder, has finished."""
        if said.get("next_generation") == str(self._generation):
            return False
        if said["generation"] == str(self._generation):
            return True
        raise self._replaced()

    def _replaced(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"{self._place} is no longer being moved to {self._target.embedder_id}: another process began a move"
            " of its own; start again if this one is still wanted"
        )

    async def _own(self, call: Awaitable[T]) -> T:
        """Make a call that has to do with the new vectors, whose column another process may have taken away."""
        try:
            return await call
        except EmbedderMismatchError as error:
            raise self._replaced() from error

    @property
    def _column(self) -> sql.Identifier:
        return sql.Identifier(column_name(self._generation))


def _trigger_name(generation: int) -> sql.Identifier:
    return sql.Identifier(f"forget_{column_name(generation)}")
