"""What a PostgreSQL store says about itself, read without opening it."""

from __future__ import annotations

from typing import Final

from psycopg import sql

from vectorstores.postgres.address import split_schema
from vectorstores.postgres.connection import Connection, column_name, on_connection_blocking, resolve
from vectorstores.postgres.schema import one, read_meta

_TIMEOUT: Final = 10.0
_COUNTING_TIMEOUT: Final = 60.0


def read_about(address: str) -> dict[str, str] | None:
    """Return what the store at an address says about itself, None where there is no store. Blocks.

    Raises :class:`~vectorstores.StoreUnavailableError`, :class:`~vectorstores.FormatVersionError` and
    :class:`~vectorstores.StoreCorruptError`.
    """
    conninfo, schema = split_schema(address)
    place = resolve(conninfo, schema, create=False)
    if place is None:
        return None
    return on_connection_blocking(place, _TIMEOUT, lambda connection: read_meta(connection, place))


def read_counts(address: str) -> tuple[dict[str, str], int, int] | None:
    """Return what :func:`read_about` does, the number of chunks, and how many lack a vector of a move."""
    conninfo, schema = split_schema(address)
    place = resolve(conninfo, schema, create=False)
    if place is None:
        return None

    async def read(connection: Connection) -> tuple[dict[str, str], int, int] | None:
        said = await read_meta(connection, place)
        if said is None:
            return None
        count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "chunks"))
        total = left = await one(connection, count)
        if "next_generation" in said:
            column = sql.Identifier(column_name(int(said["next_generation"])))
            left = await one(connection, sql.SQL("{} WHERE {} IS NULL").format(count, column))
        return said, total, left

    return on_connection_blocking(place, _COUNTING_TIMEOUT, read)
