"""The tables of a store, made once by whoever comes first, and what the store says about itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import (
    EmbedderMismatchError,
    FormatVersionError,
    StoreCorruptError,
    StoreUnavailableError,
    new_id,
)
from vectorstores.postgres.connection import About, Connection, column_name, search_path
from vectorstores.postgres.extension import ITERATIVE, extension, make_extension

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

_LOG: Final = logging.getLogger("vectorstores")

FORMAT: Final = 1
OLDEST_SERVER: Final = 140000
# pgvector holds so many components, and indexes so many: as vector, and as halfvec.
MAX_DIM: Final = 16_000
MAX_INDEXED_DIM: Final = 2000
MAX_HALF_DIM: Final = 4000
# Vectors up to this dimension stay in the row: a page holds it, and a search does not gather them from elsewhere.
INLINE_DIM: Final = 1024

# By the catalogue's rows: to_regclass() may answer from a cache that has not yet heard of another's tables.
_RELATIONS: Final = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND c.relkind IN ('r', 'S')"
)
_OWNER: Final = (
    "SELECT pg_get_userbyid(c.relowner), pg_has_role(c.relowner, 'USAGE') FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'chunks'"
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
    CREATE TABLE scopes (role name NOT NULL, namespace text COLLATE "C" NOT NULL, PRIMARY KEY (role, namespace));
"""
# See vectorstores.postgres.pool. Half of each page is left free, so that a row is replaced beside itself and its
# index stays as it is.
_COMMITS: Final = """
    CREATE TABLE commits (
        connection uuid PRIMARY KEY,
        number bigint NOT NULL,
        owner name NOT NULL DEFAULT current_user,
        at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 50);
    ALTER TABLE commits ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON commits USING (owner = current_user) WITH CHECK (owner = current_user);
"""
# An estimate tells a secured role whether a text that it guesses is among others' rows, where there are statistics. The
# plans of this package need none of these columns'. What a store of an earlier version has is forgotten by giving the
# column the type that it has: nothing is written anew.
_UNCOUNTED: Final = {
    "chunks": ["id", "content", "embed_text", "metadata", "facts"],
    "records": ["collection", "key", "value"],
}
_FORGET_STATISTICS: Final = (
    "SELECT format('ALTER TABLE %%I.%%I ALTER %%I SET STATISTICS 0', n.nspname, c.relname, a.attname) || CASE"
    " WHEN EXISTS (SELECT FROM pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname"
    " AND s.attname = a.attname) THEN format(', ALTER %%I TYPE %%s', a.attname, format_type(a.atttypid, a.atttypmod))"
    " || coalesce(format(' COLLATE %%I', o.collname), '') ELSE '' END"
    " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_collation o ON o.oid = a.attcollation"
    " WHERE n.nspname = %s AND c.relname = %s AND a.attname = ANY(%s) AND a.attstattarget IS DISTINCT FROM 0"
)
# What earlier versions had beside these tables: embeddings that were computed before.
_EARLIER: Final = """
    DROP TABLE IF EXISTS embeddings;
    DROP SEQUENCE IF EXISTS embedding_clock;
    DROP FUNCTION IF EXISTS remove_embeddings(bytea[]);
"""
# For all who may write chunks, and of these for those who may delete.
_COMMITS_GRANTS: Final = (
    "SELECT format('GRANT ' || CASE acl.privilege_type WHEN 'INSERT' THEN 'SELECT, INSERT, UPDATE (number, at)'"
    " ELSE 'DELETE' END || ' ON %%I.commits TO %%I', n.nspname, r.rolname)"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) AS acl"
    " JOIN pg_roles r ON r.oid = acl.grantee"
    " WHERE n.nspname = %s AND c.relname = 'chunks' AND acl.privilege_type IN ('INSERT', 'DELETE')"
)
_DELETES: Final = (
    "SELECT has_table_privilege(c.oid, 'DELETE') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND c.relname = 'chunks'"
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
    _check_embedder(said, place, wanted)
    await renew(connection, place)
    return await describe(connection, place, said)


async def describe(connection: Connection, place: Place, said: Mapping[str, str]) -> About:
    """Return what a store and its server say about themselves."""
    oids, vector_schema, version = await extension(connection, place)
    return About(
        store=said["store"],
        dim=int(said["dim"]),
        generation=int(said["generation"]),
        indexed=tuple(json.loads(said["indexed"])),
        vector_oids=oids,
        vector_schema=vector_schema,
        iterative=version >= ITERATIVE,
        deletes=await one(connection, _DELETES, (place.schema,)),
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
    owner = await (await connection.execute(_OWNER, (place.schema,))).fetchone()
    if owner is None or not owner[1]:
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} must be owner of the tables for this; use the address of the"
            " role that owns the tables"
        )
    return str(owner[0])


async def read_meta(connection: Connection, place: Place) -> dict[str, str] | None:
    """Return what a store says about itself, None where there is no store.

    Raises :class:`FormatVersionError` for another format, and :class:`StoreCorruptError` where something is missing.
    """
    if "meta" not in await _names(connection, place):
        return None
    table = sql.Identifier(place.schema, "meta")
    found = await connection.execute(sql.SQL("SELECT key, value FROM {}").format(table))
    said: dict[str, str] = dict(await found.fetchall())
    version = said.get("format")
    if version != str(FORMAT):
        newer = version is not None and version.isdecimal() and int(version) > FORMAT
        advice = "update this package" if newer else "open it once with the version that wrote it, and export"
        raise FormatVersionError(
            f"{place} has format {version}, this version reads format {FORMAT}; {advice}"
        )
    missing = {"store", "embedder", "embedder_name", "dim", "generation", "indexed"} - said.keys()
    if missing:
        raise StoreCorruptError(
            f"{place} does not say its {', '.join(sorted(missing))}; restore it from a backup"
        )
    return said


async def _names(connection: Connection, place: Place) -> set[str]:
    cursor = await connection.execute(_RELATIONS, (place.schema,))
    return {name for (name,) in await cursor.fetchall()}


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
    except pg.InsufficientPrivilege as error:
        schema, role = sql.Identifier(place.schema), sql.Identifier(connection.info.user)
        statement = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}; GRANT USAGE, CREATE ON SCHEMA {} TO {};")
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} may not make the store's tables; an administrator runs in"
            f" database {connection.info.dbname}: {statement.format(schema, schema, role).as_string(connection)}"
        ) from error


async def _make_tables(connection: Connection, place: Place, wanted: Wanted) -> dict[str, str]:
    vector_schema = await make_extension(connection, place)
    cursor = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (place.schema,))
    if await cursor.fetchone() is None:
        # Else it was made by one who may, for this role.
        statement = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(place.schema))
        await connection.execute(statement)
    # For the length of this transaction: the connection is not one of the store's.
    await connection.execute(search_path(place.schema, vector_schema, local=True))
    await connection.execute(_TABLES)
    await connection.execute(_COMMITS)
    await forget_statistics(connection, place.schema)
    for number in range(1, len(wanted.indexed) + 1):
        await connection.execute(
            f"ALTER TABLE chunks ADD COLUMN k{number} jsonb;"
            f" CREATE INDEX chunks_by_k{number} ON chunks (namespace, k{number}) WHERE k{number} IS NOT NULL".encode()
        )
    for made in (add_column(1, wanted.dim), require_vector(1), add_index(1, wanted.dim)):
        await connection.execute(made)
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


async def renew(connection: Connection, place: Place) -> None:
    """Bring a store of an earlier version up to date, if this role may; else it can be read."""
    names = await _names(connection, place)
    if "commits" in names and "embedding_clock" not in names:
        return
    _, vector_schema, _ = await extension(connection, place)
    try:
        async with connection.transaction():
            await lock_schema(connection, place)
            await connection.execute(search_path(place.schema, vector_schema, local=True))
            if "commits" not in await _names(connection, place):
                await connection.execute(_COMMITS)
                owner = sql.Identifier(await check_owner(connection, place))
                await connection.execute(sql.SQL("ALTER TABLE commits OWNER TO {}").format(owner))
                await execute_made(connection, _COMMITS_GRANTS, place.schema)
            if "embedding_clock" in names:
                await connection.execute(_EARLIER)
    except (StoreUnavailableError, pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction) as error:
        # Such as another role than the owner, or a standby.
        _LOG.info("%s is of an earlier version; its owner has to open it once: %s", place, error)


def add_column(generation: int, dim: int) -> sql.Composed:
    """Return the statements that add a column of vectors."""
    # Up to a certain length they go elsewhere only where the row would not fit into a page: during a move it has two.
    storage = sql.SQL(", ALTER COLUMN {0} SET STORAGE MAIN" if dim <= INLINE_DIM else "")
    column = sql.Identifier(column_name(generation))
    statement = sql.SQL("ALTER TABLE chunks ADD COLUMN {0} vector({1}), ALTER COLUMN {0} SET STATISTICS 0")
    return statement.format(column, sql.Literal(dim)) + storage.format(column)


def add_index(generation: int, dim: int) -> sql.Composed:
    """Return the statement that makes the index of a column of vectors, unless it is there or there can be none."""
    column = sql.Identifier(column_name(generation))
    over = sql.SQL("{} vector_ip_ops").format(column)
    if dim > MAX_INDEXED_DIM:
        over = sql.SQL("({}::halfvec({})) halfvec_ip_ops").format(column, sql.Literal(dim))
    if dim > MAX_HALF_DIM:
        return sql.Composed([])
    index = sql.Identifier(f"chunks_by_{column_name(generation)}")
    return sql.SQL("CREATE INDEX IF NOT EXISTS {} ON chunks USING hnsw ({})").format(index, over)


def require_vector(generation: int) -> sql.Composed:
    """Return the statement that has the table refuse rows without a vector from now on.

    Of those that are there none is looked at: the table is locked for this.
    """
    column = column_name(generation)
    return sql.SQL("ALTER TABLE chunks ADD CONSTRAINT {} CHECK ({} IS NOT NULL) NOT VALID").format(
        sql.Identifier(f"{column}_is_there"), sql.Identifier(column)
    )


async def forget_statistics(connection: Connection, schema: str) -> None:
    """Keep no statistics of columns that need none, and forget those that a store of an earlier version has."""
    for table, columns in _UNCOUNTED.items():
        await execute_made(connection, _FORGET_STATISTICS, schema, table, columns)


async def execute_made(connection: Connection, query: str, *parameters: object) -> None:
    """Execute the statements that a query returns, which quotes the names in them."""
    cursor = await connection.execute(query, parameters)
    for (statement,) in await cursor.fetchall():
        await connection.execute(statement.encode())


async def one(
    connection: Connection, query: str | sql.SQL | sql.Composed, parameters: tuple[object, ...] = ()
) -> Any:  # noqa: ANN401 - any value of SQL
    """Return the first column of the first row of a query."""
    found: Any = await (await connection.execute(query, parameters or None)).fetchone()
    return found[0]
