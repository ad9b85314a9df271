"""pgvector in a database: whether it is there and new enough, and what an administrator must run where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection, sql
from psycopg import errors as pg

from vectorstores.base import StoreUnavailableError

if TYPE_CHECKING:
    from vectorstores.postgres.address import Place

Connection = AsyncConnection[Any]

OLDEST_VECTOR: Final = (0, 7)
# The first pgvector whose walks through an index go on until enough admitted rows are found.
ITERATIVE: Final = (0, 8)


async def extension(connection: Connection, place: Place) -> tuple[int, str, tuple[int, ...]]:
    """Return the number of the type, the schema and the version of pgvector in this database.

    Raises :class:`StoreUnavailableError` where it is missing, too old or out of this role's reach.
    """
    cursor = await connection.execute(
        "SELECT t.oid, n.nspname, e.extversion, has_schema_privilege(n.oid, 'USAGE') FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = e.extnamespace"
        " JOIN pg_type t ON t.typnamespace = n.oid AND t.typname = 'vector' WHERE e.extname = 'vector'"
    )
    found = await cursor.fetchone()
    if found is None:
        raise StoreUnavailableError(f"{place}: the extension pgvector was dropped; restore the database")
    version = _version(found[2])
    if version < OLDEST_VECTOR:
        brought = await _brought(connection)
        is_there = brought is not None and _version(brought) >= OLDEST_VECTOR
        first = "" if is_there else "install a newer one on the server, then "
        raise StoreUnavailableError(
            f"{place}: pgvector {found[2]} is too old, {_said(OLDEST_VECTOR)} is needed: {first}an administrator runs"
            f" in database {connection.info.dbname}: ALTER EXTENSION vector UPDATE;"
        )
    if not found[3]:
        schema, role = sql.Identifier(found[1]), sql.Identifier(connection.info.user)
        statement = sql.SQL("GRANT USAGE ON SCHEMA {} TO {};").format(schema, role).as_string(connection)
        raise StoreUnavailableError(
            f"{place}: the role {connection.info.user} may not use the schema {found[1]!r}, which pgvector is in; an"
            f" administrator runs in database {connection.info.dbname}: {statement}"
        )
    return int(found[0]), str(found[1]), version


async def make_extension(connection: Connection, place: Place) -> str:
    """Install pgvector in this database unless it is there, and return its schema.

    Raises :class:`StoreUnavailableError`, which names the statement for an administrator.
    """
    cursor = await connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'")
    found: Any = await cursor.fetchone()
    if not found[0]:
        database = connection.info.dbname
        package = f"Debian: postgresql-{connection.info.server_version // 10000}-pgvector"
        brought = await _brought(connection)
        if brought is None or _version(brought) < OLDEST_VECTOR:
            lacks = "no pgvector" if brought is None else f"pgvector {brought}, which is too old"
            raise StoreUnavailableError(
                f"{place}: the server has {lacks}: install version {_said(OLDEST_VECTOR)} or newer on it ({package}),"
                f" then an administrator runs in database {database}: CREATE EXTENSION vector;"
            )
        try:
            async with connection.transaction():
                await connection.execute("CREATE EXTENSION vector SCHEMA public")
        except (pg.UniqueViolation, pg.DuplicateObject):
            pass  # Whoever makes another store of this database was faster: we waited for it, and it is there now.
        except pg.InsufficientPrivilege as error:
            raise StoreUnavailableError(
                f"{place}: the role {connection.info.user} may not install pgvector; an administrator runs in"
                f" database {database}: CREATE EXTENSION vector;"
            ) from error
        except pg.InvalidSchemaName as error:
            raise StoreUnavailableError(
                f"{place}: pgvector is to go into the schema public, which the database does not have; an administrator"
                f" runs in database {database}: CREATE SCHEMA public; CREATE EXTENSION vector SCHEMA public; (or names"
                " another schema, which the role may use)"
            ) from error
    return (await extension(connection, place))[1]


def _said(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(said: str) -> tuple[int, ...]:
    return tuple(int(part) for part in said.split(".") if part.isdecimal())


async def _brought(connection: Connection) -> str | None:
    """Return the version of pgvector that the server would install."""
    cursor = await connection.execute(
        "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    )
    found = await cursor.fetchone()
    return None if found is None else str(found[0])
