"""Records and cached embeddings in SQL. Every function runs inside the caller's transaction."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores._engine import conflict
from vectorstores._json import read_json
from vectorstores.base import Record, RecordPage

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow
    from vectorstores.base import FloatArray

# Cached embeddings.
CAPACITY: Final = 50_000
# What follows a cached vector.
_CHECKSUM: Final = struct.Struct("<I")


def write_records(connection: sqlite3.Connection, namespace: str, records: Sequence[RecordRow]) -> int:
    """Write the records and return how many were written.

    Raises :class:`ConflictError` for one that does not have its expected version.
    """
    written = 0
    for record in records:
        action = "NOTHING"
        if record.expected is not None:
            action = "UPDATE SET value = excluded.value, version = version + 1"
            known = get_record(connection, namespace, record.collection, record.key)
            version = 0 if known is None else known.version
            if version != record.expected:
                raise conflict(record, version)
        written += connection.execute(
            "INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, 1)"  # noqa: S608 - constants
            f" ON CONFLICT (namespace, collection, key) DO {action}",
            (namespace, record.collection, record.key, record.value),
        ).rowcount
    return written


def get_record(connection: sqlite3.Connection, namespace: str, collection: str, key: str) -> Record | None:
    """Return a record, or None if it does not exist."""
    found = connection.execute(
        "SELECT value, version FROM records WHERE namespace = ? AND collection = ? AND key = ?",
        (namespace, collection, key),
    ).fetchone()
    return None if found is None else _record(collection, key, *found)


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
    """Delete records and return how many existed."""
    return sum(
        connection.execute(
            "DELETE FROM records WHERE namespace = ? AND collection = ? AND key = ?",
            (namespace, collection, key),
        ).rowcount
        for key in keys
    )


def _record(collection: str, key: str, value: str, version: int) -> Record:
    return Record(collection, key, read_json(value, f"the record {collection}/{key}"), version)


def cached(connection: sqlite3.Connection, keys: Sequence[bytes], dim: int) -> dict[bytes, FloatArray]:
    """Return the cached embeddings among these keys, by key."""
    found: dict[bytes, FloatArray] = {}
    for key in dict.fromkeys(keys):
        row = connection.execute("SELECT vector FROM embeddings WHERE key = ?", (key,)).fetchone()
        if row is not None:
            vector, checksum = row[0][: 4 * dim], row[0][4 * dim :]
            # Earlier versions wrote no checksum. A damaged entry counts as missing.
            if len(vector) == 4 * dim and checksum in (b"", _CHECKSUM.pack(zlib.crc32(vector))):
                found[key] = np.frombuffer(vector, dtype="<f4")
    return found


def remember(connection: sqlite3.Connection, embeddings: Mapping[bytes, FloatArray]) -> None:
    """Cache embeddings, in place of the oldest."""
    if not embeddings:
        return
    (clock,) = connection.execute("SELECT coalesce(max(used), 0) + 1 FROM embeddings").fetchone()
    blobs = [vector.astype("<f4").tobytes() for vector in embeddings.values()]
    connection.executemany(
        "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)",
        [
            (key, blob + _CHECKSUM.pack(zlib.crc32(blob)), clock)
            for key, blob in zip(embeddings, blobs, strict=True)
        ],
    )
    # Counting reads the whole index, so only every 64th write counts, or a large one.
    if clock % 64 == 0 or len(embeddings) > 64:
        (count,) = connection.execute("SELECT count(*) FROM embeddings").fetchone()
        if count > CAPACITY:
            connection.execute(
                "DELETE FROM embeddings WHERE key IN (SELECT key FROM embeddings ORDER BY used LIMIT ?)",
                (count - CAPACITY + CAPACITY // 20,),
            )
