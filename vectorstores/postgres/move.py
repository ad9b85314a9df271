"""A move to another embedder, in PostgreSQL.

The new vectors fill a column of their own beside the old one; a row without a new vector is pending. So whoever
inserts or deletes takes part without knowing of the move, and a trigger takes away the new vector of a row whose text
is changed. The index over the new column is there from the beginning, and grows with each vector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
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
    one,
    read_meta,
    renew,
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
# So many rows may be left to the end, where writers wait for their vectors: else a store that many write to without a
# pause would never be done. They are left when so many rounds in a row found less than a batch.
_LEFT: Final = 64
_SHORT_ROUNDS: Final = 3
_TRIGGER: Final = """
    CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog
        AS $$ BEGIN NEW.{column} := NULL; RETURN NEW; END $$;
    CREATE TRIGGER {name} BEFORE UPDATE OF content, embed_text ON chunks FOR EACH ROW
        WHEN (coalesce(OLD.embed_text, OLD.content) IS DISTINCT FROM coalesce(NEW.embed_text, NEW.content))
        EXECUTE FUNCTION {name}();
"""
_PENDING: Final = "CREATE INDEX IF NOT EXISTS {} ON chunks (number) WHERE {} IS NULL"


class PostgresMove:
    """See :class:`vectorstores.migration.Move`. Needs the owner of the tables."""

    _place: Place
    _target: Opened
    _generation: int

    def __init__(self, address: str) -> None:
        self._conninfo, self._schema = split_schema(address)
        self._opened: Transactions | None = None
        self._short = 0
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
        options = PostgresOptions(pool_size=2, retry_for=60.0)
        self._place = place

        async def look(connection: Connection) -> About:
            said = await self._said(connection)
            await renew(connection, place)
            return await describe(connection, place, said)

        about = await on_connection(place, options, look)
        self._opened = Transactions(Pool(place, options, about), about)
        moving = await self._transactions.write(self._prepare)
        if moving:
            # A large table takes as long as it takes.
            await self._transactions.write(self._add_indexes, size=(await self.progress()).total)
        return moving

    async def _prepare(self, connection: Connection) -> bool:
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        said, target = await self._said(connection), self._target
        if said.get("next_embedder") == target.embedder_id:
            self._generation = int(said["next_generation"])
            return True
        if "next_generation" in said:
            given_up = int(said["next_generation"])
            await _drop_trigger(connection, given_up)
            await connection.execute(
                f"ALTER TABLE chunks DROP COLUMN IF EXISTS {column_name(given_up)}".encode()
            )
            await connection.execute("DELETE FROM meta WHERE key = ANY(%s)", (_NEXT,))
        if said["embedder"] == target.embedder_id:
            return False
        self._generation = 1 + max(int(said["generation"]), int(said.get(_LAST, 0)))
        await connection.execute(add_column(self._generation, target.dim))
        await grant_columns(connection, self._place)
        names = {"name": _trigger_name(self._generation), "column": self._column}
        await connection.execute(sql.SQL(_TRIGGER).format(**names))
        values = (target.embedder_id, repr(target.embedder), str(target.dim), str(self._generation))
        for item in (*zip(_NEXT, values, strict=True), (_LAST, str(self._generation))):
            await connection.execute(_SAY, item)
        return True

    async def _add_indexes(self, connection: Connection) -> None:
        """Make the indexes now, when there is nothing to put in: writers wait while the table is looked through."""
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        if self._is_done(await self._said(connection)):
            return
        await connection.execute("SET LOCAL statement_timeout = 0")
        pending = sql.Identifier(f"chunks_pending_{self._generation}")
        await connection.execute(sql.SQL(_PENDING).format(pending, self._column))
        await connection.execute(add_index(self._generation, self._target.dim))

    async def progress(self) -> Reembedding:
        """Say how far the move is: counted when it begins and when it is done, and by what is kept in between."""
        if self._counted is None:
            self._counted = await self._read(self._count)
        return self._counted

    async def _count(self, connection: Connection) -> Reembedding:
        total = await one(connection, "SELECT count(*) FROM chunks")
        if "next_generation" not in await self._said(connection):
            return Reembedding(total, total)
        pending = sql.SQL("SELECT count(*) FROM chunks WHERE {} IS NULL").format(self._column)
        return Reembedding(max(0, total - await one(connection, pending)), total)

    async def pending(self, limit: int) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""

        async def work(connection: Connection) -> list[tuple[int, str]]:
            return [] if await self._done(connection) else await self._missing(connection, limit)

        rows = await self._read(work)
        self._short = self._short + 1 if len(rows) < limit else 0
        return [] if len(rows) <= _LEFT and self._short > _SHORT_ROUNDS else rows

    async def _missing(self, connection: Connection, limit: int) -> list[tuple[int, str]]:
        statement = sql.SQL(
            "SELECT number, coalesce(embed_text, content) FROM chunks WHERE {} IS NULL"
            " ORDER BY number LIMIT %s::bigint"
        ).format(self._column)
        return await (await connection.execute(statement, (limit,))).fetchall()

    async def keep(self, rows: Sequence[tuple[int, str]], vectors: FloatArray) -> None:
        """Keep the new vectors of the rows whose text is still the same."""
        try:
            kept = await self._transactions.write(
                lambda connection: self._store(connection, rows, vectors), size=len(rows)
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
        """Let the new vectors take the place of the old ones; False if some are missing after all."""
        if not await self._read(self._done) and not await self._transactions.write(self._exchange):
            await anyio.sleep(0.1)
            return False
        self._counted = None
        return True

    async def _exchange(self, connection: Connection) -> bool:
        await connection.execute(_LOCK_WAIT)
        await lock_schema(connection, self._place)
        said, target = await self._said(connection), self._target
        if self._is_done(said):
            return True
        # From here on writers wait, and soon readers too.
        await connection.execute("LOCK TABLE chunks IN EXCLUSIVE MODE")
        rows = await self._missing(connection, _LEFT + 1)
        if len(rows) > _LEFT:
            self._short = 0
            return False
        if rows:
            await self._store(connection, rows, await embed_checked(target, [text for _, text in rows]))
        await connection.execute("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE")
        await _drop_trigger(connection, self._generation)
        old = column_name(int(said["generation"]))
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
        return True

    async def close(self) -> None:
        """Let go of the store."""
        if self._opened is not None:
            self._opened.close()

    async def _said(self, connection: Connection) -> dict[str, str]:
        said = await read_meta(connection, self._place)
        if said is None:
            raise StoreUnavailableError(f"{self._place}: there is no store here")
        return said

    async def _done(self, connection: Connection) -> bool:
        return self._is_done(await self._said(connection))

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


async def _drop_trigger(connection: Connection, generation: int) -> None:
    statement = sql.SQL("DROP TRIGGER IF EXISTS {0} ON chunks; DROP FUNCTION IF EXISTS {0}()")
    await connection.execute(statement.format(_trigger_name(generation)))
