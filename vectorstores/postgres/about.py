"""What a PostgreSQL store says about itself, read without opening it."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import sql

from vectorstores.postgres.address import split_schema
from vectorstores.postgres.columns import column_name
from vectorstores.postgres.connection import on_connection_blocking, resolve
from vectorstores.postgres.schema import HAS_META, checked_meta

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

    def read(connection: psycopg.Connection[Any]) -> dict[str, str] | None:
        found = connection.execute(HAS_META, (schema,)).fetchone()
        if found is None or not found[0]:
            return None
        table = sql.SQL("SELECT key, value FROM {}.meta").format(sql.Identifier(schema))
        return dict(connection.execute(table).fetchall())

    said = on_connection_blocking(place, _TIMEOUT, read)
    return None if said is None else checked_meta(said, place)


def read_sizes(address: str) -> tuple[dict[str, str], int, int, int] | None:
    """Return what :func:`read_about` does, the number of chunks, how many lack a vector of a move, and their bytes."""
    said = read_about(address)
    conninfo, schema = split_schema(address)
    place = resolve(conninfo, schema, create=False)
    if said is None or place is None:
        return None
    table = sql.Identifier(schema, "chunks")
    count = sql.SQL("SELECT count(*), pg_table_size({}::regclass) FROM {}").format(
        sql.Literal(table.as_string(None)), table
    )

    def read(connection: psycopg.Connection[Any]) -> tuple[int, int, int]:
        total, size = connection.execute(count).fetchone() or (0, 0)
        left = total
        if "next_generation" in said:
            column = sql.Identifier(column_name(int(said["next_generation"])))
            missing = sql.SQL("SELECT count(*) FROM {} WHERE {} IS NULL").format(table, column)
            (left,) = connection.execute(missing).fetchone() or (total,)
        return total, left, size

    return said, *on_connection_blocking(place, _COUNTING_TIMEOUT, read)
