"""pgvector in a database: whether it is there and new enough, and what an administrator must run where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg import errors as pg
from psycopg import sql

from vectorstores.base import StoreUnavailableError

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place
    from vectorstores.postgres.connection import Connection

OLDEST_VECTOR: Final = (0, 7)
# The first pgvector whose walks through an index go on until enough admitted rows are found.
ITERATIVE: Final = (0, 8)


async def extension(connection: Connection, place: Place) -> tuple[tuple[int, int], str, tuple[int, ...]]:
    """Return the numbers of pgvector's type and of its arrays, its schema and its version in this database.

    Raises :class:`StoreUnavailableError` where it is missing, too old or out of this role's reach.
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
    if _version(said) < OLDEST_VECTOR:
        is_there = _version(await _available(connection) or "") >= OLDEST_VECTOR
        first = "" if is_there else "install a newer one on the server, then "
        raise StoreUnavailableError(
            f"{place}: pgvector {said} is too old, {_said(OLDEST_VECTOR)} is needed: {first}"
            f"{_administrator(connection, 'ALTER EXTENSION vector UPDATE;')}"
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
    return (int(oid), int(array_oid)), str(schema), _version(said)


async def make_extension(connection: Connection, place: Place) -> str:
    """Install pgvector in this database unless it is there, and return its schema.

    Raises :class:`StoreUnavailableError`, which names the statement for an administrator.
    """
    cursor = await connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
    if await cursor.fetchone() is not None:
        return (await extension(connection, place))[1]
    create = "CREATE EXTENSION vector;"
    available = await _available(connection)
    if available is None or _version(available) < OLDEST_VECTOR:
        lacks = "no pgvector" if available is None else f"pgvector {available}, which is too old"
        package = f"Debian: postgresql-{connection.info.server_version // 10000}-pgvector"
        raise StoreUnavailableError(
            f"{place}: the server has {lacks}: install version {_said(OLDEST_VECTOR)} or newer on it ({package}),"
            f" then {_administrator(connection, create)}"
        )
    try:
        async with connection.transaction():
            await connection.execute("CREATE EXTENSION vector SCHEMA public")
    except (pg.UniqueViolation, pg.DuplicateObject):
        pass  # Whoever makes another store of this database was faster: we waited for it, and it is there now.
    except (pg.InsufficientPrivilege, pg.InvalidSchemaName) as error:
        if isinstance(error, pg.InvalidSchemaName):
            create = "CREATE SCHEMA public; CREATE EXTENSION vector SCHEMA public;"
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} may not install pgvector ({error.diag.message_primary});"
            f" {_administrator(connection, create)}"
        ) from error
    return (await extension(connection, place))[1]


def _administrator(connection: Connection, statement: str) -> str:
    return f"an administrator runs in database {connection.info.dbname}: {statement}"


def _said(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(said: str) -> tuple[int, ...]:
    return tuple(int(part) for part in said.split(".") if part.isdecimal())


async def _available(connection: Connection) -> str | None:
    """Return the version of pgvector that the server would install."""
    cursor = await connection.execute(
        "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    )
    found = await cursor.fetchone()
    return None if found is None else str(found[0])
