"""Records in SQL. Every function runs inside a transaction that the caller holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vectorstores._engine import conflict_message, taken_message
from vectorstores._json import read_json
from vectorstores.base import ConflictError, Record, RecordPage

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow


def append_record(connection: sqlite3.Connection, namespace: str, record: RecordRow) -> bool:
    """Write a record unless its key exists."""
    cursor = connection.execute(
        "INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, 1)"
        " ON CONFLICT (namespace, collection, key) DO NOTHING",
        (namespace, record.collection, record.key, record.value),
    )
    return cursor.rowcount == 1


def append_records(connection: sqlite3.Connection, namespace: str, records: Sequence[RecordRow]) -> None:
    """Write those records whose keys don't exist; one that must be new is a conflict otherwise."""
    for record in records:
        if not append_record(connection, namespace, record) and record.must_be_new:
            raise ConflictError(taken_message(record))


def get_record(connection: sqlite3.Connection, namespace: str, collection: str, key: str) -> Record | None:
    """Return a record."""
    found = connection.execute(
        "SELECT value, version FROM records WHERE namespace = ? AND collection = ? AND key = ?",
        (namespace, collection, key),
    ).fetchone()
    return None if found is None else _record(collection, key, *found)


def swap_record(
    connection: sqlite3.Connection, namespace: str, record: RecordRow, version: int | None
) -> Record:
    """Write a record if it is still at ``version``."""
    now = get_record(connection, namespace, record.collection, record.key)
    if (None if now is None else now.version) != version:
        raise ConflictError(conflict_message(record, version, None if now is None else now.version))
    connection.execute(
        "INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, 1)"
        " ON CONFLICT (namespace, collection, key) DO UPDATE SET value = excluded.value, version = version + 1",
        (namespace, record.collection, record.key, record.value),
    )
    return Record(record.collection, record.key, json.loads(record.value), (version or 0) + 1)


def scan_records(
    connection: sqlite3.Connection, namespace: str, collection: str, after: int, limit: int
) -> RecordPage:
    """Return a page of records in the order of the rows."""
    found = connection.execute(
        "SELECT row, key, value, version FROM records WHERE namespace = ? AND collection = ? AND row > ?"
        " ORDER BY row LIMIT ?",
        (namespace, collection, after, limit + 1),
    ).fetchall()
    records = tuple(_record(collection, *fields) for _, *fields in found[:limit])
    return RecordPage(records, str(found[limit - 1][0]) if len(found) > limit else None)


def delete_records(
    connection: sqlite3.Connection, namespace: str, collection: str, keys: Sequence[str]
) -> int:
    """Delete records."""
    return sum(
        connection.execute(
            "DELETE FROM records WHERE namespace = ? AND collection = ? AND key = ?",
            (namespace, collection, key),
        ).rowcount
        for key in keys
    )


def _record(collection: str, key: str, value: str, version: int) -> Record:
    return Record(collection, key, read_json(value, f"the record {collection}/{key}"), version)
