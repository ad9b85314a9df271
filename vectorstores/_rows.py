"""Chunks and records in SQL. Every function runs inside a transaction that the caller holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from vectorstores._engine import conflict_message
from vectorstores.base import Chunk, ConflictError, Page, Record, RecordPage, StoreCorruptError

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import JSON
    from vectorstores.filters import Node

PUT, PATCHED, DELETED = 1, 2, 3
# Changes kept for those who follow them; who is further behind reads all rows again.
_LOG_SIZE: Final = 200_000
# A filtered page ends after so many rows, found or not, so that no call reads a store of any size whole.
_STRETCH: Final = 20_000


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, 0 if there was none."""
    (seq,) = connection.execute("SELECT max(seq) FROM changes").fetchone()
    return int(seq or 0)


def oldest_change(connection: sqlite3.Connection) -> int:
    """Return the number of the oldest change that is still in the log, 1 if there was none."""
    (seq,) = connection.execute("SELECT min(seq) FROM changes").fetchone()
    return int(seq or 1)


def write_chunks(connection: sqlite3.Connection, namespace: str, rows: Sequence[Row]) -> list[str]:
    """Insert or replace chunks; return the searched texts that were replaced by others."""
    seq = last_change(connection)
    replaced: list[str] = []
    for row in rows:
        seq += 1
        found = connection.execute(
            "SELECT row, coalesce(embed_text, content) FROM chunks WHERE namespace = ? AND id = ?",
            (namespace, row.id),
        ).fetchone()
        number = seq if found is None else found[0]
        if found is not None and found[1] != row.searched_text:
            replaced.append(found[1])
        connection.execute(
            "INSERT INTO chunks (row, namespace, id, content, embed_text, metadata) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (row) DO UPDATE SET content = excluded.content, embed_text = excluded.embed_text,"
            " metadata = excluded.metadata",
            (number, namespace, row.id, row.content, row.embed_text, row.metadata),
        )
        connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (number, row.vector))
        connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (seq, namespace, number, PUT))
    _trim(connection, seq, len(rows))
    return replaced


def delete_chunks(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> list[str]:
    """Delete chunks that exist and return their searched texts."""
    seq = last_change(connection)
    gone: list[str] = []
    for id in ids:
        found = connection.execute(
            "DELETE FROM chunks WHERE namespace = ? AND id = ? RETURNING row, coalesce(embed_text, content)",
            (namespace, id),
        ).fetchone()
        if found is None:
            continue
        seq += 1
        connection.execute("DELETE FROM vectors WHERE row = ?", (found[0],))
        connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (seq, namespace, found[0], DELETED))
        gone.append(found[1])
    _trim(connection, seq, len(gone))
    return gone


def patch_metadata(connection: sqlite3.Connection, namespace: str, id: str, patch: str) -> bool:
    """Merge a JSON object into a chunk's metadata."""
    found = connection.execute(
        "SELECT row, metadata FROM chunks WHERE namespace = ? AND id = ?", (namespace, id)
    ).fetchone()
    if found is None:
        return False
    merged = decode(found[1], found[0]) | json.loads(patch)
    text = json.dumps(merged, ensure_ascii=False, separators=(",", ":"))
    connection.execute("UPDATE chunks SET metadata = ? WHERE row = ?", (text, found[0]))
    seq = last_change(connection) + 1
    connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (seq, namespace, found[0], PATCHED))
    return True


def _trim(connection: sqlite3.Connection, seq: int, added: int) -> None:
    # Now and then, so that a single write does not pay for it.
    if seq > _LOG_SIZE and seq // 4096 != (seq - added) // 4096:
        connection.execute("DELETE FROM changes WHERE seq <= ?", (seq - _LOG_SIZE,))


def decode(metadata: str, row: int) -> dict[str, JSON]:
    """Read the metadata of a row."""
    try:
        found: dict[str, JSON] = json.loads(metadata)
    except json.JSONDecodeError as error:
        raise StoreCorruptError(f"the metadata of row {row} is damaged: {error}; restore a backup") from error
    return found


def chunk_of(fields: tuple[int, str, str, str | None, str]) -> Chunk:
    """Make a chunk of (row, id, content, embed_text, metadata)."""
    row, id, content, embed_text, metadata = fields
    return Chunk(content, id, decode(metadata, row), embed_text)


def chunks_by_row(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Chunk]:
    """Return the chunks of these rows."""
    found = connection.execute(
        "SELECT row, id, content, embed_text, metadata FROM chunks"
        " WHERE row IN (SELECT value FROM json_each(?))",
        (json.dumps(rows),),
    )
    return {fields[0]: chunk_of(fields) for fields in found}


def chunks_by_id(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> list[Chunk]:
    """Return chunks in the order of the ids."""
    chunks: list[Chunk] = []
    for id in ids:
        fields = connection.execute(
            "SELECT row, id, content, embed_text, metadata FROM chunks WHERE namespace = ? AND id = ?",
            (namespace, id),
        ).fetchone()
        if fields is not None:
            chunks.append(chunk_of(fields))
    return chunks


def metadata_after(
    connection: sqlite3.Connection, namespace: str, after: int = 0
) -> Iterator[tuple[int, dict[str, JSON]]]:
    """Yield (row, metadata) of a namespace in the order of the rows."""
    found = connection.execute(
        "SELECT row, metadata FROM chunks WHERE namespace = ? AND row > ? ORDER BY row", (namespace, after)
    )
    for row, metadata in found:
        yield row, decode(metadata, row)


def count_chunks(connection: sqlite3.Connection, namespace: str, where: Node | None) -> int:
    """Count the chunks that are admitted."""
    if where is None:
        (count,) = connection.execute(
            "SELECT count(*) FROM chunks WHERE namespace = ?", (namespace,)
        ).fetchone()
        return int(count)
    return sum(where.matches(metadata) for _, metadata in metadata_after(connection, namespace))


def scan_chunks(
    connection: sqlite3.Connection, namespace: str, where: Node | None, after: int, limit: int
) -> Page:
    """Return a page of chunks in the order of the rows."""
    chunks: list[Chunk] = []
    last = after
    found = connection.execute(
        "SELECT row, id, content, embed_text, metadata FROM chunks"
        " WHERE namespace = ? AND row > ? ORDER BY row",
        (namespace, after),
    )
    for seen, fields in enumerate(found):
        if len(chunks) == limit or seen == _STRETCH:
            return Page(tuple(chunks), str(last))
        chunk = chunk_of(fields)
        if where is None or where.matches(chunk.metadata):
            chunks.append(chunk)
        last = fields[0]
    return Page(tuple(chunks), None)


def append_record(connection: sqlite3.Connection, namespace: str, record: RecordRow) -> bool:
    """Write a record unless its key exists."""
    cursor = connection.execute(
        "INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, 1)"
        " ON CONFLICT (namespace, collection, key) DO NOTHING",
        (namespace, record.collection, record.key, record.value),
    )
    return cursor.rowcount == 1


def get_record(connection: sqlite3.Connection, namespace: str, collection: str, key: str) -> Record | None:
    """Return a record."""
    found = connection.execute(
        "SELECT value, version FROM records WHERE namespace = ? AND collection = ? AND key = ?",
        (namespace, collection, key),
    ).fetchone()
    return None if found is None else Record(collection, key, _value(found[0], collection, key), found[1])


def swap_record(
    connection: sqlite3.Connection, namespace: str, record: RecordRow, version: int | None
) -> Record:
    """Write a record if it is still at ``version``."""
    now = get_record(connection, namespace, record.collection, record.key)
    if (None if now is None else now.version) != version:
        raise ConflictError(conflict_message(record, version, None if now is None else now.version))
    if now is None:
        append_record(connection, namespace, record)
    else:
        connection.execute(
            "UPDATE records SET value = ?, version = version + 1"
            " WHERE namespace = ? AND collection = ? AND key = ?",
            (record.value, namespace, record.collection, record.key),
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
    records = tuple(
        Record(collection, key, _value(value, collection, key), v) for _, key, value, v in found[:limit]
    )
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


def _value(text: str, collection: str, key: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except json.JSONDecodeError as error:
        raise StoreCorruptError(
            f"the record {collection}/{key} is damaged: {error}; restore a backup"
        ) from error
    return value
