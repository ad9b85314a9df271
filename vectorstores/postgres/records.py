"""Records in SQL. Every function runs on a connection that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from vectorstores._engine import conflict_message, taken_message
from vectorstores._json import read_json
from vectorstores.base import ConflictError, Record, RecordPage
from vectorstores.postgres.connection import Connection, rows
from vectorstores.postgres.values import known

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow
    from vectorstores.base import JSON

_MAX: Final = 2**31 - 1
_ROW: Final = b" WHERE namespace = %b AND collection = %b AND key = %b"


async def append_record(connection: Connection, namespace: str, record: RecordRow) -> bool:
    """Write a record unless its key exists."""
    statement = (
        b"INSERT INTO records (namespace, collection, key, value, version) VALUES (%b, %b, %b, %b::text::json, 1)"
        b" ON CONFLICT (namespace, collection, key) DO NOTHING RETURNING 1"
    )
    return bool(await rows(connection, statement, (namespace, record.collection, record.key, record.value)))


async def append_records(connection: Connection, namespace: str, records: Sequence[RecordRow]) -> None:
    """Write those records whose keys don't exist; one that must be new is a conflict otherwise."""
    for record in records:
        if not await append_record(connection, namespace, record) and record.must_be_new:
            raise ConflictError(taken_message(record))


async def get_record(
    connection: Connection, namespace: str, collection: str, key: str, *, lock: bool = False
) -> Record | None:
    """Return a record, and hold it until the transaction ends if ``lock`` is set."""
    statement = b"SELECT value, version FROM records" + _ROW + (b" FOR UPDATE" if lock else b"")
    for value, version in await rows(connection, statement, (namespace, collection, key)):
        return Record(collection, key, _value(value, collection, key), version)
    return None


async def swap_record(
    connection: Connection, namespace: str, record: RecordRow, version: int | None
) -> Record:
    """Write a record if it is still at ``version``."""
    if version is None and await append_record(connection, namespace, record):
        return Record(record.collection, record.key, json.loads(record.value), 1)
    now = await get_record(connection, namespace, record.collection, record.key, lock=True)
    if version is None or now is None or now.version != version:
        raise ConflictError(conflict_message(record, version, None if now is None else now.version))
    statement = b"UPDATE records SET value = %b::text::json, version = version + 1" + _ROW
    await connection.execute(
        statement, (record.value, namespace, record.collection, record.key), prepare=True
    )
    return Record(record.collection, record.key, json.loads(record.value), now.version + 1)


async def scan_records(
    connection: Connection, namespace: str, collection: str, after: int, limit: int
) -> RecordPage:
    """Return a page of records in the order of their first write."""
    limit = min(limit, _MAX)
    statement = (
        b"SELECT number, key, value, version FROM records"
        b" WHERE namespace = %b AND collection = %b AND number > %b::bigint ORDER BY number LIMIT %b::bigint"
    )
    found = await rows(connection, statement, (namespace, collection, after, limit + 1))
    records = [
        Record(collection, key, _value(value, collection, key), version)
        for _, key, value, version in found[:limit]
    ]
    return RecordPage(tuple(records), str(found[limit - 1][0]) if len(found) > limit else None)


async def delete_records(connection: Connection, namespace: str, collection: str, keys: Sequence[str]) -> int:
    """Delete records and return how many there were."""
    statement = (
        b"DELETE FROM records WHERE namespace = %b AND collection = %b AND key = ANY(%b::text[]) RETURNING 1"
    )
    return len(await rows(connection, statement, (namespace, collection, known(keys))))


def _value(text: str, collection: str, key: str) -> JSON:
    return read_json(text, f"the record {collection}/{key}")
