"""The tables of a store, made once by whoever comes first, and what the store says about itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg import errors as pg

from vectorstores.base import (
    EmbedderMismatchError,
    FormatVersionError,
    StoreCorruptError,
    StoreUnavailableError,
    new_id,
)
from vectorstores.postgres import commits
from vectorstores.postgres.columns import MAX_DIM, add_column, add_index
from vectorstores.postgres.extension import ITERATIVE, extension, make_extension
from vectorstores.postgres.session import About, search_path

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

Connection = AsyncConnection[Any]

_LOG: Final = logging.getLogger("vectorstores")

FORMAT: Final = 1
OLDEST_SERVER: Final = 140000

# By the catalogue's rows: to_regclass() may answer from a cache that has not yet heard of another's tables.
HAS_META: Final = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND c.relname = 'meta'"
)
_TABLES: Final = """
    CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
    CREATE TABLE chunks (
        namespace text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        id text COLLATE "C" NOT NULL,
        content text NOT NULL,
        embed_text text,
        metadata json NOT NULL,
        facts jsonb NOT NULL,
        PRIMARY KEY (namespace, number));
    CREATE UNIQUE INDEX chunks_by_id ON chunks (namespace, id);
    CREATE TABLE records (
        namespace text COLLATE "C" NOT NULL,
        collection text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        number bigint GENERATED ALWAYS AS IDENTITY,
        value json NOT NULL,
        version bigint NOT NULL,
        PRIMARY KEY (namespace, collection, key));
    CREATE UNIQUE INDEX records_by_number ON records (namespace, collection, number);
    CREATE TABLE embeddings (
        owner name NOT NULL DEFAULT current_user,
        key bytea NOT NULL,
        vector bytea NOT NULL,
        used bigint NOT NULL,
        PRIMARY KEY (owner, key));
    CREATE INDEX embeddings_by_use ON embeddings (owner, used);
    CREATE SEQUENCE embedding_clock;
    CREATE TABLE scopes (role name NOT NULL, namespace text COLLATE "C" NOT NULL, PRIMARY KEY (role, namespace));
"""
# An estimate tells a secured role whether a text that it guesses is among others' rows, where there are statistics. The
# plans of this package need none of these columns'.
_UNCOUNTED: Final = {
    "chunks": ("id", "content", "embed_text", "metadata", "facts"),
    "records": ("collection", "key", "value"),
    "embeddings": ("key", "vector"),
}
_COUNTED: Final = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), o.collname, EXISTS (SELECT FROM pg_stats s"
    " WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname)"
    " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_collation o ON o.oid = a.attcollation"
    " WHERE n.nspname = %s AND c.relname = %s AND a.attname = ANY(%s) AND a.attstattarget IS DISTINCT FROM 0"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a store is opened with."""

    embedder_id: str
    embedder_name: str
    dim: int
    indexed: tuple[str, ...]
    create: bool


async def prepare(connection: Connection, place: Place, wanted: Wanted) -> About:
    """Make the store if there is none and ``wanted.create`` is set, check it, and return what it says.

    Raises :class:`StoreUnavailableError`, :class:`FormatVersionError`, :class:`EmbedderMismatchError` and
    :class:`StoreCorruptError`.
    """
    _check_server(connection, place)
    said = await read_meta(connection, place)
    if said is None:
        if not wanted.create:
            raise StoreUnavailableError(f"{place}: there is no store here, and create=False")
        said = await _create(connection, place, wanted)
    elif await commits.is_to_be_made(connection, place.schema):
        await _add_commits(connection, place)
    _check_embedder(said, place, wanted)
    return await describe(connection, place, said)


async def describe(connection: Connection, place: Place, said: Mapping[str, str]) -> About:
    """Return what a store and its server say about themselves."""
    oid, vector_schema, version = await extension(connection, place)
    return About(
        store=said["store"],
        dim=int(said["dim"]),
        generation=int(said["generation"]),
        indexed=tuple(json.loads(said["indexed"])),
        vector_oid=oid,
        vector_schema=vector_schema,
        iterative=version >= ITERATIVE,
        guarded=await _is_guarded(connection, place),
        noted=await commits.has_table(connection, place.schema),
        deletes=await _may_delete(connection, place),
    )


def _check_server(connection: Connection, place: Place) -> None:
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StoreUnavailableError(
            f"{place}: the server is PostgreSQL {version // 10000}; 14 or newer is needed"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"{place}: the database is encoded in {encoding}, which can't hold every text;"
            " make one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )


async def lock_schema(connection: Connection, place: Place) -> None:
    """Wait until nobody else changes the tables of the store, and keep others from it until the transaction ends.

    No advisory lock, which any role of the database may take. Raises as :func:`check_owner` does.
    """
    await check_owner(connection, place)
    table = sql.Identifier(place.schema, "meta")
    await connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table))


async def check_owner(connection: Connection, place: Place) -> str:
    """Return the role that owns the tables. Raises :class:`StoreUnavailableError` unless this one may do as it may."""
    owner = await commits.owner_of(connection, place.schema)
    if owner is None or not owner[1]:
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} must be owner of the tables for this; use the address of the"
            " role that owns the tables"
        )
    return owner[0]


async def read_meta(connection: Connection, place: Place) -> dict[str, str] | None:
    """Return what a store says about itself, None where there is no store."""
    table = sql.SQL("{}.meta").format(sql.Identifier(place.schema))
    cursor = await connection.execute(HAS_META, (place.schema,))
    if not (await _one(cursor))[0]:
        return None
    found = await connection.execute(sql.SQL("SELECT key, value FROM {}").format(table))
    return checked_meta(dict(await found.fetchall()), place)


def checked_meta(said: Mapping[str, str], place: Place) -> dict[str, str]:
    """Check the format of what a store says about itself, and that nothing is missing."""
    version = said.get("format")
    if version != str(FORMAT):
        known = version is not None and version.isdecimal() and int(version) > FORMAT
        advice = "update this package" if known else "open it once with the version that wrote it, and export"
        raise FormatVersionError(
            f"{place} has format {version}, this version reads format {FORMAT}; {advice}"
        )
    missing = {"store", "embedder", "embedder_name", "dim", "generation", "indexed"} - said.keys()
    if missing:
        raise StoreCorruptError(
            f"{place} does not say its {', '.join(sorted(missing))}; restore it from a backup"
        )
    return dict(said)


def _check_embedder(said: Mapping[str, str], place: Place, wanted: Wanted) -> None:
    if (said["embedder"], said["dim"]) == (wanted.embedder_id, str(wanted.dim)):
        return
    made = f"{said['embedder_name']} ({said['embedder']}, dim {said['dim']})"
    given = f"{wanted.embedder_name} ({wanted.embedder_id}, dim {wanted.dim})"
    raise EmbedderMismatchError(
        f"the store at {place} was made with {made} but is opened with {given}; their vectors can't be"
        " compared: open it with the embedder that it was made with, or move it to the new one by"
        " vectorstores.reembed()"
    )


async def _create(connection: Connection, place: Place, wanted: Wanted) -> dict[str, str]:
    if wanted.dim > MAX_DIM:
        raise StoreUnavailableError(
            f"{place}: pgvector holds vectors up to dimension {MAX_DIM}, not {wanted.dim}"
        )
    try:
        async with connection.transaction():
            return await _make_tables(connection, place, wanted)
    except (pg.UniqueViolation, pg.DuplicateTable) as error:
        # Whoever makes a schema or a table second waits for the first, and then meets this.
        said = await read_meta(connection, place)
        if said is not None:
            return said
        raise StoreUnavailableError(
            f"{place}: the schema holds other tables ({error.diag.message_primary}); name one of its own by schema="
        ) from error


async def _make_tables(connection: Connection, place: Place, wanted: Wanted) -> dict[str, str]:
    schema = sql.Identifier(place.schema)
    vector_schema = await make_extension(connection, place)
    try:
        async with connection.transaction():
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
    except pg.InsufficientPrivilege as error:
        if not await _has_schema(connection, place):
            raise _not_allowed(connection, place) from error
    # For the length of this transaction: the connection is not one of the store's yet.
    await connection.execute(_local(search_path(place.schema, vector_schema)))
    try:
        await connection.execute(_TABLES)
        await keep_no_statistics(connection, place.schema)
        await commits.make_table(connection, place.schema)
        for statement in _vector_statements(wanted):
            await connection.execute(statement)
    except pg.InsufficientPrivilege as error:
        raise _not_allowed(connection, place) from error
    said = {
        "format": str(FORMAT),
        "store": new_id(),
        "embedder": wanted.embedder_id,
        "embedder_name": wanted.embedder_name,
        "dim": str(wanted.dim),
        "generation": "1",
        "indexed": json.dumps(wanted.indexed),
    }
    for item in said.items():
        await connection.execute("INSERT INTO meta VALUES (%s, %s)", item)
    return said


async def _add_commits(connection: Connection, place: Place) -> None:
    """Give a store of an earlier version the table that it lacks, where that can be."""
    try:
        async with connection.transaction():
            await lock_schema(connection, place)
            if await commits.is_to_be_made(connection, place.schema):
                await commits.make_table(connection, place.schema)
    except (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction) as error:
        # Such as a standby's, or a schema that its owner may not add to: the store serves as it is.
        _LOG.info("%s has no table 'commits', which can't be made: %s", place, error.diag.message_primary)


def _vector_statements(wanted: Wanted) -> list[sql.Composed]:
    statements: list[sql.Composed] = []
    for number in range(1, len(wanted.indexed) + 1):
        name = sql.Identifier(f"k{number}")
        statements += [
            sql.SQL("ALTER TABLE chunks ADD COLUMN {} jsonb").format(name),
            sql.SQL("CREATE INDEX {} ON chunks (namespace, {}) WHERE {} IS NOT NULL").format(
                sql.Identifier(f"chunks_by_k{number}"), name, name
            ),
        ]
    index = add_index(1, wanted.dim)
    return [*statements, *add_column(1, wanted.dim), *([] if index is None else [index])]


async def keep_no_statistics(connection: Connection, schema: str) -> None:
    """Keep no statistics of columns that need none, and forget those that a store of an earlier version has."""
    for table, columns in _UNCOUNTED.items():
        name = sql.Identifier(schema, table)
        for column, kind, collation, counted in await (
            await connection.execute(_COUNTED, (schema, table, list(columns)))
        ).fetchall():
            statements = [
                sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET STATISTICS 0").format(
                    name, sql.Identifier(column)
                )
            ]
            if counted:
                # To the type that it has: nothing is written anew, and its statistics go.
                of = (
                    sql.SQL("")
                    if collation is None
                    else sql.SQL("COLLATE {}").format(sql.Identifier(collation))
                )
                statements.append(
                    sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {} {}").format(
                        name, sql.Identifier(column), sql.SQL(kind), of
                    )
                )
            for statement in statements:
                await connection.execute(statement)


async def _is_guarded(connection: Connection, place: Place) -> bool:
    """Say whether row-level security holds for this role."""
    table = sql.SQL("{}.chunks").format(sql.Identifier(place.schema)).as_string(connection)
    return bool((await _one(await connection.execute("SELECT row_security_active(%s)", (table,))))[0])


async def _may_delete(connection: Connection, place: Place) -> bool:
    table = sql.SQL("{}.chunks").format(sql.Identifier(place.schema)).as_string(connection)
    return bool(
        (await _one(await connection.execute("SELECT has_table_privilege(%s, 'DELETE')", (table,))))[0]
    )


def _local(statement: sql.Composed) -> sql.Composed:
    words: Sequence[sql.Composable] = list(statement)
    return sql.Composed([sql.SQL("SET LOCAL search_path = "), *words[1:]])


async def _has_schema(connection: Connection, place: Place) -> bool:
    cursor = await connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (place.schema,))
    return bool((await _one(cursor))[0])


def _not_allowed(connection: Connection, place: Place) -> StoreUnavailableError:
    schema, role = sql.Identifier(place.schema), sql.Identifier(connection.info.user)
    statement = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}; GRANT USAGE, CREATE ON SCHEMA {} TO {};").format(
        schema, schema, role
    )
    return StoreUnavailableError(
        f"{place}: the role {connection.info.user} may not make the store's tables; an administrator runs in"
        f" database {connection.info.dbname}: {statement.as_string(connection)}"
    )


async def _one(cursor: AsyncCursor[Any]) -> tuple[Any, ...]:
    found: Any = await cursor.fetchone()
    row: tuple[Any, ...] = found
    return row
