"""New rows put by one statement: their texts, vectors and changes, and the commit of all of them.

Python waits for the interpreter after every statement while other threads run in it. One statement asks for it once.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from vectorstores import _rows
from vectorstores._rows import PUT, stacked
from vectorstores._sums import text_sum, vector_sums

if TYPE_CHECKING:
    from vectorstores._checks import Row

MOST: Final = 32
"""So many rows at most: a statement for each number is kept ready."""
_ROW: Final = ("id", "content", "embed_text", "metadata", "sum", "vector", "vector_sum")
_FIXED: Final = ("namespace", "token", "store")

# A view takes rows that belong into several tables; a trigger puts them there. Both are of one connection alone.
_VIEW: Final = """CREATE TEMP VIEW incoming AS SELECT NULL AS row, NULL AS namespace, NULL AS token, NULL AS id,
    NULL AS content, NULL AS embed_text, NULL AS metadata, NULL AS sum, NULL AS vector, NULL AS vector_sum"""
_INSERT: Final = """CREATE TEMP TRIGGER put INSTEAD OF INSERT ON incoming BEGIN
    INSERT INTO chunks (row, namespace, id, content, embed_text, metadata, sum)
        VALUES (NEW.row, NEW.namespace, NEW.id, NEW.content, NEW.embed_text, NEW.metadata, NEW.sum);
    INSERT INTO vectors (row, vector, sum) VALUES (NEW.row, NEW.vector, NEW.vector_sum);
    INSERT INTO changes (seq, namespace, row, kind, token)
        VALUES (NEW.row, NEW.namespace, NEW.row, {put}, NEW.token);
    END"""
_TRIM: Final = """CREATE TEMP TRIGGER trim INSTEAD OF INSERT ON incoming
    WHEN NEW.row > {size} AND NEW.row % {swept} = 0 BEGIN
    DELETE FROM changes WHERE seq <= NEW.row - {size};
    END"""


def make_ready(connection: sqlite3.Connection) -> None:
    """Let :func:`put` be used on a connection; once, when it is open."""
    connection.execute(_VIEW)
    connection.execute(_INSERT.format(put=PUT))
    connection.execute(_TRIM.format(size=_rows.LOG_SIZE, swept=_rows.SWEPT))


def values_of(namespace: str, rows: Sequence[Row], store: str | None) -> list[object]:
    """Return what :func:`put` puts: at most :data:`MOST` rows, of different ids, that have their vectors."""
    vectors = stacked(rows)
    values: list[object] = [namespace, secrets.randbits(63), store]
    for row, vector, vector_sum in zip(rows, vectors, vector_sums(vectors).tolist(), strict=True):
        id, content, embed_text, metadata = row.id, row.content, row.embed_text, row.metadata
        values += (
            id,
            content,
            embed_text,
            metadata,
            text_sum(id, content, embed_text, metadata),
            vector,
            vector_sum,
        )
    return values


def put(connection: sqlite3.Connection, values: Sequence[object]) -> bool:
    """Put rows, durable when this returns; False, and nothing is changed, if one is there already or the store is
    another one.

    Outside a transaction, since it is one itself.
    """
    count = (len(values) - len(_FIXED)) // len(_ROW)
    before = connection.total_changes
    try:
        connection.execute(_statement(count), values)
    except sqlite3.IntegrityError:
        return False
    return connection.total_changes > before


@cache
def _statement(count: int) -> str:
    first, width = len(_FIXED) + 1, len(_ROW)
    rows = (
        f"({place + 1}, {', '.join(f'?{first + width * place + at}' for at in range(width))})"
        for place in range(count)
    )
    columns = ", ".join(f"given.column{number + 2}" for number in range(width))
    # A new row takes the number of its change.
    return (
        f"INSERT INTO incoming (row, namespace, token, {', '.join(_ROW)})"  # noqa: S608 - constants
        f" SELECT last.seq + given.column1, ?1, ?2, {columns}"
        " FROM (SELECT coalesce(max(seq), 0) AS seq FROM changes) AS last"
        f" CROSS JOIN (VALUES {', '.join(rows)}) AS given"
        " WHERE (SELECT value FROM meta WHERE key = 'store') = ?3"
    )
