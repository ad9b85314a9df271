"""The tables of a store, which the first process makes, the settings of the store, and the extension pgvector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores._engine import FORMAT, Opened, check_format, check_said
from vectorstores.base import StoreUnavailableError, new_id
from vectorstores.postgres.address import PostgresOptions, embedded_folder, split_schema
from vectorstores.postgres.connection import (
    About,
    Connection,
    column_name,
    on_connection,
    resolve,
    search_path,
)

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

OLDEST_SERVER: Final = 140000
# The first version with iterative scans: a walk continues until enough admitted rows are found.
OLDEST_VECTOR: Final = (0, 8)
# The most components that pgvector indexes as vector and as halfvec.
MAX_INDEXED_DIM: Final = 2000
MAX_HALF_DIM: Final = 4000
# Vectors up to this dimension stay in the row, which fits into a page, so a search need not read the TOAST table.
INLINE_DIM: Final = 1024

_OWNER: Final = (
    "SELECT pg_get_userbyid(c.relowner), pg_has_role(c.relowner, 'USAGE') FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'chunks'"
)
# With statistics, an estimate would tell a secured role whether a text that it guesses is in others' rows. The plans of
# this package need none for these columns.
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
    ALTER TABLE chunks ALTER id SET STATISTICS 0, ALTER content SET STATISTICS 0, ALTER embed_text SET STATISTICS 0,
        ALTER metadata SET STATISTICS 0, ALTER facts SET STATISTICS 0;
    ALTER TABLE records ALTER collection SET STATISTICS 0, ALTER key SET STATISTICS 0, ALTER value SET STATISTICS 0;
"""


async def prepare(
    connection: Connection, *, place: Place, opened: Opened, indexed: Sequence[str], create: bool
) -> About:
    """Make the store if there is none and ``create`` is set, check it, and return its properties.

    Raises :class:`~vectorstores.StoreUnavailableError`, :class:`~vectorstores.FormatVersionError`,
    :class:`~vectorstores.EmbedderMismatchError` and :class:`~vectorstores.StoreCorruptError`.
    """
    version, encoding = connection.info.server_version, connection.info.parameter_status("server_encoding")
    if version < OLDEST_SERVER:
        raise StoreUnavailableError(
            f"{place}: the server is PostgreSQL {version // 10000}; 14 or newer is needed"
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"{place}: the database is encoded in {encoding}, which can't hold every text;"
            " make one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )
    said = await read_meta(connection, place)
    if not said:
        if not create:
            raise StoreUnavailableError(f"{place}: there is no store here, and create=False")
        said = await _create(connection, place, opened, indexed)
    opened.check(said, place)
    return await describe(connection, place, said)


def read_about(address: str) -> dict[str, str] | None:
    """Return the settings of the store at an address, None if there is no store. Blocks.

    Raises :class:`StoreUnavailableError`, :class:`FormatVersionError` and :class:`StoreCorruptError`.
    """
    conninfo, schema = split_schema(address)
    folder = embedded_folder(conninfo)
    if folder is not None and not (folder / "data").is_dir():
        return None  # no server was ever made there
    place = resolve(conninfo, schema, create=False)

    async def work(connection: Connection) -> dict[str, str]:
        await connection.execute("SET statement_timeout = '10s'")
        return await read_meta(connection, place)

    # In a thread of its own, since this one may already run an event loop.
    with ThreadPoolExecutor(1) as thread:
        options = PostgresOptions(retry_for=10.0)
        return thread.submit(asyncio.run, on_connection(place, options, work)).result() or None


async def describe(connection: Connection, place: Place, said: Mapping[str, str] | None = None) -> About:
    """Return the properties of a store and its server. ``said`` is what :func:`read_meta` returned, if it was called.

    Raises :class:`StoreUnavailableError` if there is no store.
    """
    said = await read_meta(connection, place) if said is None else said
    if not said:
        raise StoreUnavailableError(f"{place}: there is no store here")
    oids, vector_schema = await extension(connection, place)
    chunks = sql.Identifier(place.schema, "chunks").as_string(connection)
    cursor = await connection.execute("SELECT has_table_privilege(%s, 'DELETE')", (chunks,))
    ((deletes,),) = await cursor.fetchall()
    return About(
        dim=int(said["dim"]),
        column=column_name(int(said["generation"])),
        columns={key: f"k{number}" for number, key in enumerate(json.loads(said["indexed"]), 1)},
        vector_oids=oids,
        vector_schema=vector_schema,
        deletes=deletes,
    )


async def check_owner(connection: Connection, place: Place, *, lock: bool = False) -> str:
    """Return the role that owns the tables; with ``lock``, lock their layout until the transaction ends.

    An advisory lock would not do, since any role of the database may take it. Raises :class:`StoreUnavailableError`
    unless this role has the owner's rights.
    """
    owner = await (await connection.execute(_OWNER, (place.schema,))).fetchone()
    if owner is None or not owner[1]:
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} must be owner of the tables for this; use the address of the"
            " role that owns the tables"
        )
    if lock:
        table = sql.Identifier(place.schema, "meta")
        await connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table))
    return str(owner[0])


async def read_meta(connection: Connection, place: Place) -> dict[str, str]:
    """Return the settings of a store, none if there is no store.

    Raises :class:`FormatVersionError` for another format, and :class:`StoreCorruptError` if a setting is missing.
    """
    table = sql.Identifier(place.schema, "meta")
    try:
        found = await connection.execute(sql.SQL("SELECT key, value FROM {}").format(table))
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        return {}
    said: dict[str, str] = dict(await found.fetchall())
    version = said.get("format", "")
    check_format(int(version) if version.isdecimal() else None, place)
    check_said(said, place, "generation", "indexed")
    return said


async def _create(
    connection: Connection, place: Place, opened: Opened, indexed: Sequence[str]
) -> dict[str, str]:
    """Make the tables, and return the settings of the store."""
    schema, role = sql.Identifier(place.schema), sql.Identifier(connection.info.user)
    make_schema = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema)
    said = {"format": str(FORMAT), "store": new_id(), **opened.about}
    said |= {"generation": "1", "indexed": json.dumps(indexed)}
    try:
        async with connection.transaction():
            vector_schema = await _make_extension(connection, place)
            cursor = await connection.execute(
                "SELECT 1 FROM pg_namespace WHERE nspname = %s", (place.schema,)
            )
            if await cursor.fetchone() is None:
                # An administrator may have made the schema for a role that has no right to make one.
                await connection.execute(make_schema)
            # For this transaction only: the connection is not one of the pool's.
            await connection.execute(search_path(place.schema, vector_schema, local=True))
            await connection.execute(_TABLES)
            for column in (f"k{number}" for number in range(1, len(indexed) + 1)):
                await connection.execute(
                    f"ALTER TABLE chunks ADD COLUMN {column} jsonb; CREATE INDEX chunks_by_{column} ON chunks"
                    f" (namespace, {column}) WHERE {column} IS NOT NULL".encode()
                )
            for made in (add_column(1, opened.dim), require_vector(1), add_index(1, opened.dim)):
                if made is not None:
                    await connection.execute(made)
            for item in said.items():
                await connection.execute("INSERT INTO meta VALUES (%s, %s)", item)
    except (pg.UniqueViolation, pg.DuplicateTable) as error:
        # The second process to make a schema or a table waits for the first, then gets this error.
        there = await read_meta(connection, place)
        if there:
            return there
        raise StoreUnavailableError(
            f"{place}: the schema holds other tables ({error.diag.message_primary}); name one of its own by schema="
        ) from error
    except pg.InsufficientPrivilege as error:
        grant = sql.SQL("{}; GRANT USAGE, CREATE ON SCHEMA {} TO {};").format(make_schema, schema, role)
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} may not make the store's tables;"
            f" {_administrator(connection, grant.as_string(connection))}"
        ) from error
    return said


def add_column(generation: int, dim: int) -> sql.Composed:
    """Return the statements that add a column of vectors."""
    # MAIN: short vectors leave the row only if it does not fit into a page; during a move a row has two.
    storage = sql.SQL(", ALTER COLUMN {0} SET STORAGE MAIN" if dim <= INLINE_DIM else "")
    column = sql.Identifier(column_name(generation))
    statement = sql.SQL("ALTER TABLE chunks ADD COLUMN {0} vector({1}), ALTER COLUMN {0} SET STATISTICS 0")
    return statement.format(column, sql.Literal(dim)) + storage.format(column)


def add_index(generation: int, dim: int, *, concurrently: bool = False) -> sql.Composed | None:
    """Return the statement that makes the index of a column of vectors; None if pgvector can't index this dimension."""
    if dim > MAX_HALF_DIM:
        return None
    column = sql.Identifier(column_name(generation))
    over = sql.SQL("{} vector_ip_ops").format(column)
    if dim > MAX_INDEXED_DIM:
        over = sql.SQL("({}::halfvec({})) halfvec_ip_ops").format(column, sql.Literal(dim))
    how, name = sql.SQL("CONCURRENTLY" if concurrently else ""), sql.Identifier(index_name(generation))
    return sql.SQL("CREATE INDEX {} {} ON chunks USING hnsw ({})").format(how, name, over)


def index_name(generation: int) -> str:
    """Return the name of the index of a column of vectors."""
    return f"chunks_by_{column_name(generation)}"


def require_vector(generation: int) -> sql.Composed:
    """Return the statement by which the table refuses rows without a vector from now on.

    NOT VALID skips the check of existing rows, during which the table would be locked.
    """
    column = column_name(generation)
    return sql.SQL("ALTER TABLE chunks ADD CONSTRAINT {} CHECK ({} IS NOT NULL) NOT VALID").format(
        sql.Identifier(f"{column}_is_there"), sql.Identifier(column)
    )


async def extension(connection: Connection, place: Place) -> tuple[tuple[int, int], str]:
    """Return the OIDs of pgvector's type and of its array type, and its schema in this database.

    Raises :class:`StoreUnavailableError` if it is missing, too old or not for this role.
    """
    cursor = await connection.execute(
        "SELECT t.oid, t.typarray, n.nspname, e.extversion, has_schema_privilege(n.oid, 'USAGE') FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = e.extnamespace"
        " JOIN pg_type t ON t.typnamespace = n.oid AND t.typname = 'vector' WHERE e.extname = 'vector'"
    )
    found: Any = await cursor.fetchone()
    if found is None:
        raise StoreUnavailableError(f"{place}: the extension pgvector was dropped; restore the database")
    oid, array_oid, schema, said, usable = found
    if tuple(int(part) for part in said.split(".") if part.isdecimal()) < OLDEST_VECTOR:
        raise StoreUnavailableError(
            f"{place}: pgvector {said} is too old; "
            + _administrator(connection, "ALTER EXTENSION vector UPDATE;", install=True)
        )
    if not usable:
        role = connection.info.user
        grant = sql.SQL("GRANT USAGE ON SCHEMA {} TO {};").format(
            sql.Identifier(schema), sql.Identifier(role)
        )
        raise StoreUnavailableError(
            f"{place}: the role {role} may not use the schema {schema!r}, which pgvector is in; "
            f"{_administrator(connection, grant.as_string(connection))}"
        )
    return (int(oid), int(array_oid)), str(schema)


async def _make_extension(connection: Connection, place: Place) -> str:
    """Install pgvector in this database unless it is there, and return its schema; raises as :func:`extension`."""
    cursor = await connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
    if await cursor.fetchone() is not None:
        return (await extension(connection, place))[1]
    create = "CREATE EXTENSION vector;"
    try:
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION vector SCHEMA public")
    except (pg.UniqueViolation, pg.DuplicateObject):
        pass  # Another process was faster: this one waited for it, and pgvector is there now.
    except (pg.FeatureNotSupported, pg.UndefinedFile) as error:
        raise StoreUnavailableError(
            f"{place}: the server has no pgvector; {_administrator(connection, create, install=True)}"
        ) from error
    except (pg.InsufficientPrivilege, pg.InvalidSchemaName) as error:
        if isinstance(error, pg.InvalidSchemaName):
            create = "CREATE SCHEMA public; CREATE EXTENSION vector SCHEMA public;"
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} may not install pgvector ({error.diag.message_primary});"
            f" {_administrator(connection, create)}"
        ) from error
    return (await extension(connection, place))[1]


def _administrator(connection: Connection, statement: str, *, install: bool = False) -> str:
    """Return what an administrator does, perhaps after the installation of pgvector on the server."""
    first = ""
    if install:
        package = f"Debian: postgresql-{connection.info.server_version // 10000}-pgvector"
        version = ".".join(map(str, OLDEST_VECTOR))
        first = f"install version {version} or newer on the server ({package}), then "
    return f"{first}an administrator runs in database {connection.info.dbname}: {statement}"
