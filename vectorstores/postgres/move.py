"""A move to another embedder, in PostgreSQL.

The new vectors fill a column of their own beside the old one; a row without a new vector is pending. So whoever
inserts or deletes takes part without knowing of the move, and a trigger takes away the new vector of a row whose text
is changed. The index over the new column is there from the beginning, and grows with each vector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread
from psycopg import sql

from vectorstores._engine import embed_checked
from vectorstores.base import EmbedderMismatchError, StoreUnavailableError
from vectorstores.migration import Reembedding
from vectorstores.postgres.address import PostgresOptions, split_schema
from vectorstores.postgres.connection import About, Connection, column_name, on_connection, resolve
from vectorstores.postgres.pool import Pool, Transactions, running_loop
from vectorstores.postgres.schema import (
    MAX_DIM,
    add_column,
    add_index,
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


class PostgresMove:
    """A store whose vectors are being replaced, by the owner of its tables."""

    _place: Place
    _target: Opened
    _generation: int

    def __init__(self, address: str) -> None:
        self._conninfo, self._schema = split_schema(address)
        self._opened: Transactions | None = None
        self._counted: Reembedding | None = None

    @property
    def _transactions(self) -> Transactions:
        assert self._opened is not None  # noqa: S101 - begin() comes first
        return self._opened

    async def begin(self, opened: Opened) -> bool:
        """Make room for new vectors, or take up a move to the same embedder; False if there is nothing to do."""
        running_loop()
        self._target = opened
        place = await anyio.to_thread.run_sync(lambda: resolve(self._conninfo, self._schema, create=False))
        if place is None:
            raise StoreUnavailableError(f"there is no store at {self._conninfo}")
        if opened.dim > MAX_DIM:
            raise StoreUnavailableError(f"{place}: pgvector holds vectors up to dimension {MAX_DIM}")
        # Each statement may look through the whole table, which takes as long as it takes.
        options = PostgresOptions(pool_size=2, retry_for=60.0, statement_timeout=86_400.0)
        self._place = place

        async def look(connection: Connection) -> About:
            return await describe(connection, place, await self._said(connection))

        about = await on_connection(place, options, look)
        self._opened = Transactions(Pool(place, options, about))
        return await self._transactions.write(self._prepare, repeatable=True)

    async def _prepare(self, connection: Connection) -> bool:
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        said, target = await self._said(connection), self._target
        moving = said.get("next_embedder") == target.embedder_id
        if moving:
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
        target, number = self._target, str(self._generation)
        await connection.execute(add_column(self._generation, target.dim))
        await grant_columns(connection, self._place)
        names = {"name": _trigger_name(self._generation), "column": self._column}
        await connection.execute(sql.SQL(_TRIGGER).format(**names))
        values = (target.embedder_id, repr(target.embedder), str(target.dim), number)
        for item in (*zip(_NEXT, values, strict=True), (_LAST, number)):
            await connection.execute(_SAY, item)

    async def progress(self) -> Reembedding:
        """Say how far the move is: counted when it begins and when it is done, and by what is kept in between."""
        if self._counted is None:
            self._counted = await self._read(self._count)
        return self._counted

    async def _count(self, connection: Connection) -> Reembedding:
        moving = "next_generation" in await self._said(connection)
        left = (
            sql.SQL("count(*) FILTER (WHERE {} IS NULL)").format(self._column)
            if moving
            else sql.SQL("0::bigint")
        )
        cursor = await connection.execute(sql.SQL("SELECT count(*), {} FROM chunks").format(left))
        ((total, pending),) = await cursor.fetchall()
        return Reembedding(total - pending, total)

    async def pending(self, limit: int) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""

        async def work(connection: Connection) -> list[tuple[int, str]]:
            done = self._is_done(await self._said(connection))
            return [] if done else await self._missing(connection, limit)

        return await self._read(work)

    async def _missing(self, connection: Connection, limit: int | None) -> list[tuple[int, str]]:
        statement = sql.SQL(
            "SELECT number, coalesce(embed_text, content) FROM chunks WHERE {} IS NULL"
            " ORDER BY number LIMIT %s::bigint"
        ).format(self._column)
        return await (await connection.execute(statement, (limit,))).fetchall()

    async def keep(self, rows: Sequence[tuple[int, str]], vectors: FloatArray) -> None:
        """Keep the new vectors of the rows whose text is still the same."""
        try:
            kept = await self._transactions.write(
                lambda connection: self._store(connection, rows, vectors), repeatable=True
            )
        except EmbedderMismatchError as error:
            raise self._replaced() from error
        if self._counted is not None:
            total = self._counted.total
            self._counted = Reembedding(min(self._counted.done + kept, total), total)

    async def _store(
        self, connection: Connection, rows: Sequence[tuple[int, str]], vectors: FloatArray
    ) -> int:
        statement = sql.SQL(
            "UPDATE chunks SET {0} = %s WHERE {0} IS NULL AND number = %s::bigint"
            " AND coalesce(embed_text, content) = %s"
        ).format(self._column)
        kept = 0
        for (row, text), vector in zip(rows, vectors, strict=True):
            cursor = await connection.execute(statement, (Vector(vector), row, text), prepare=True)
            kept += cursor.rowcount
        return kept

    async def finish(self) -> bool:
        """Let the new vectors take the place of the old ones, with those that are missing still, under a lock."""
        await self._transactions.write(self._exchange, repeatable=True)
        self._counted = None
        return True

    async def _exchange(self, connection: Connection) -> None:
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        said, target = await self._said(connection), self._target
        if self._is_done(said):
            return
        # From here on writers wait, and soon readers too.
        await connection.execute("LOCK TABLE chunks IN EXCLUSIVE MODE")
        rows = await self._missing(connection, None)
        if rows:
            await self._store(connection, rows, await embed_checked(target, [text for _, text in rows]))
        await connection.execute("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE")
        await connection.execute(sql.SQL(_DROP_TRIGGER).format(_trigger_name(self._generation)))
        old = column_name(int(said["generation"]))
        # The index is one that earlier versions made.
        await connection.execute(
            f"DROP INDEX IF EXISTS chunks_pending_{self._generation}; ALTER TABLE chunks DROP COLUMN {old}".encode()
        )
        await connection.execute(require_vector(self._generation))
        about = {
            "embedder": target.embedder_id,
            "embedder_name": repr(target.embedder),
            "dim": str(target.dim),
            "generation": str(self._generation),
        }
        for item in about.items():
            await connection.execute(_SAY, item)
        await connection.execute("DELETE FROM meta WHERE key = ANY(%s)", (_NEXT,))

    async def close(self) -> None:
        """Let go of the store."""
        if self._opened is not None:
            self._opened.close()

    async def _said(self, connection: Connection) -> dict[str, str]:
        said = await read_meta(connection, self._place)
        if said is None:
            raise StoreUnavailableError(f"{self._place}: there is no store here")
        return said

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

    async def _read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await self._transactions.read(work)
        except EmbedderMismatchError as error:
            raise self._replaced() from error

    @property
    def _column(self) -> sql.Identifier:
        return sql.Identifier(column_name(self._generation))


def _trigger_name(generation: int) -> sql.Identifier:
    return sql.Identifier(f"forget_{column_name(generation)}")
