"""What a PostgreSQL store says about itself, read without opening it."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import sql

from vectorstores._pg.address import split_schema
from vectorstores._pg.reaching import on_connection_blocking, resolve
from vectorstores._pg.schema import HAS_META, checked_meta

_TIMEOUT: Final = 10.0


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
