"""Chunks in SQL. Every function that takes a connection runs inside the caller's transaction.

Rows have checksums, so that a bit flipped on disk raises an error naming the row instead of a wrong answer.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores._json import read_metadata
from vectorstores.base import Chunk, Page, StoreCorruptError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._checks import Row
    from vectorstores.base import JSON, FloatArray
    from vectorstores.filters import Node

# Earlier versions wrote 2 if only metadata had changed.
PUT, DELETED = 1, 3
# Changes kept in the log. A reader that is further behind reads all rows again.
LOG_SIZE: Final = 200_000
# Older changes are dropped once for so many new ones, so that few writes pay for it.
_SWEPT: Final = 4096
# A page of a scan ends after so many rows, admitted or not, so that no call reads a large store whole.
_STRETCH: Final = 20_000
# Vectors handled at a time: more would keep other threads waiting for milliseconds.
_BATCH: Final = 512
# Rows whose metadata is read before other threads get a turn (about 1 ms of work), and the seconds of that turn.
SOME: Final = 256
_PAUSE: Final = 0.0001
_METADATA: Final = 0xFFFFFFFF
# 2**32 over the golden ratio, made odd: its products with different positions differ (Knuth: The Art of Computer
# Programming, volume 3, section 6.4).
_SPREAD: Final = 2654435769
_SALT: Final = np.uint32(0x9E3779B9)
_FIELDS: Final = "row, id, content, embed_text, metadata, sum"
_PUT_TEXT: Final = (
    "INSERT INTO chunks (row, namespace, id, content, embed_text, metadata, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (row) DO UPDATE SET content = excluded.content, embed_text = excluded.embed_text,"
    " metadata = excluded.metadata, sum = excluded.sum"
)
_PUT_VECTOR: Final = "INSERT OR REPLACE INTO vectors (row, vector, sum) VALUES (?, ?, ?)"
_KNOWN: Final = (
    "SELECT row, coalesce(embed_text, content), vector FROM chunks LEFT JOIN vectors USING (row)"
    " WHERE namespace = ? AND id = ?"
)


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, or 0 if there is none."""
    (seq,) = connection.execute("SELECT max(seq) FROM changes").fetchone()
    return int(seq or 0)


def token_at(connection: sqlite3.Connection, seq: int) -> int | None:
    """Return the random token of a change, or None if the log does not contain it (any more)."""
    found = connection.execute("SELECT token FROM changes WHERE seq = ?", (seq,)).fetchone()
    return None if found is None else found[0]


def overtaken(connection: sqlite3.Connection, namespace: str, seq: int) -> Iterable[tuple[int, bytes | None]]:
    """Yield the rows that existed at change ``seq`` and were deleted or replaced since, with their vectors now."""
    return connection.execute(
        "SELECT row, vector FROM (SELECT DISTINCT row FROM changes WHERE seq > ? AND row <= ? AND namespace = ?)"
        " LEFT JOIN vectors USING (row)",
        (seq, seq, namespace),
    )


def write_chunks(
    connection: sqlite3.Connection, namespace: str, rows: Sequence[Row]
) -> tuple[bool, list[str]]:
    """Insert or replace chunks with different ids.

    Returns whether any existed, and the old searched texts of those whose text or vector was replaced.
    """
    first = last_change(connection) + 1
    numbers: list[int] = []
    old_texts: list[str] = []
    existed = False
    for seq, row in enumerate(rows, first):
        known = connection.execute(_KNOWN, (namespace, row.id)).fetchone()
        # A new row takes the number of its change.
        numbers.append(seq if known is None else known[0])
        existed |= known is not None
        if known is not None and known[1:] != (row.searched_text, row.vector.tobytes()):
            old_texts.append(known[1])
    texts = (
        (number, namespace, row.id, row.content, row.embed_text, row.metadata,
         text_sum(row.id, row.content, row.embed_text, row.metadata))
        for number, row in zip(numbers, rows, strict=True)
    )  # fmt: skip
    connection.executemany(_PUT_TEXT, texts)
    for low in range(0, len(rows), _BATCH):
        # Joining bytes takes a fifth of the time of np.stack.
        joined = b"".join([row.vector.data for row in rows[low : low + _BATCH]])
        vectors = np.frombuffer(joined, dtype=np.float32).reshape(-1, len(rows[low].vector))
        some = zip(numbers[low : low + _BATCH], vectors, vector_sums(vectors).tolist(), strict=True)
        connection.executemany(_PUT_VECTOR, some)
    _log(connection, namespace, first, numbers, PUT)
    return existed, old_texts


def delete_chunks(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> list[str]:
    """Delete chunks and return the searched texts of those that existed."""
    deleted: list[tuple[int, str]] = []
    for id in ids:
        deleted += connection.execute(
            "DELETE FROM chunks WHERE namespace = ? AND id = ? RETURNING row, coalesce(embed_text, content)",
            (namespace, id),
        ).fetchall()
    if deleted:
        numbers = [row for row, _ in deleted]
        connection.executemany("DELETE FROM vectors WHERE row = ?", [(row,) for row in numbers])
        _log(connection, namespace, last_change(connection) + 1, numbers, DELETED)
    return [text for _, text in deleted]


def _log(connection: sqlite3.Connection, namespace: str, first: int, rows: Sequence[int], kind: int) -> None:
    """Log a change for each of these rows, numbered from ``first``."""
    token = secrets.randbits(63)
    connection.executemany(
        "INSERT INTO changes (seq, namespace, row, kind, token) VALUES (?, ?, ?, ?, ?)",
        [(seq, namespace, row, kind, token) for seq, row in enumerate(rows, first)],
    )
    last = first + len(rows) - 1
    if last > LOG_SIZE and last // _SWEPT != (first - 1) // _SWEPT:
        connection.execute("DELETE FROM changes WHERE seq <= ?", (last - LOG_SIZE,))


def _chunk_of(
    fields: tuple[int, str, str, str | None, str, int | None], vector: FloatArray | None = None
) -> Chunk:
    row, id, content, embed_text, metadata, known = fields
    if known is not None and known != text_sum(id, content, embed_text, metadata):
        raise _damaged(f"row {row} (id {id!r})")
    about = read_metadata(metadata, f"the metadata of row {row} (id {id!r:.100})")
    return Chunk(content, id, about, embed_text, vector)


def _damaged(name: str) -> StoreCorruptError:
    return StoreCorruptError(f"{name} is damaged: its checksum does not match; restore a backup")


def chunks_by_id(
    connection: sqlite3.Connection, namespace: str, ids: Sequence[str], dim: int | None = None
) -> list[Chunk]:
    """Return chunks in the order of the ids, with their vectors if ``dim`` gives their length."""
    sql = f"SELECT {_FIELDS} FROM chunks WHERE namespace = ? AND id = ?"  # noqa: S608
    asked = (connection.execute(sql, (namespace, id)).fetchone() for id in ids)
    found = [fields for fields in asked if fields is not None]
    if dim is None:
        return [_chunk_of(fields) for fields in found]
    sql = "SELECT row, vector, sum FROM vectors WHERE row = ?"
    kept = [connection.execute(sql, (fields[0],)).fetchone() for fields in found]
    if None in kept:
        raise StoreCorruptError(f"the chunk {found[kept.index(None)][1]!r} has no vector; restore a backup")
    vectors = vectors_of(kept, dim)
    return [_chunk_of(fields, vector.copy()) for fields, vector in zip(found, vectors, strict=True)]


def chunks_by_row(connection: sqlite3.Connection, rows: Sequence[int]) -> list[Chunk]:
    """Return the chunks of these rows in their order. Each must exist."""
    sql = f"SELECT {_FIELDS} FROM chunks WHERE row IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
    chunks = {fields[0]: _chunk_of(fields) for fields in connection.execute(sql, (str([*rows]),))}
    if len(chunks) < len(rows):
        raise StoreCorruptError("vectors without their texts; restore a backup")
    return [chunks[row] for row in rows]


def metadata_of(
    connection: sqlite3.Connection, which: str, parameters: Sequence[object]
) -> Iterator[list[tuple[int, dict[str, JSON]]]]:
    """Yield batches of (row, metadata) of the chunks that satisfy an SQL condition."""
    found = connection.execute(f"SELECT row, metadata, sum FROM chunks WHERE {which}", parameters)  # noqa: S608
    while batch := found.fetchmany(SOME):
        for row, metadata, known in batch:
            if known is not None and known & _METADATA != metadata_sum(metadata):
                raise _damaged(f"row {row}")
        yield [(row, read_metadata(metadata, f"the metadata of row {row}")) for row, metadata, _ in batch]
        if len(batch) == SOME:
            pause()


def pause() -> None:
    """Give other threads a turn, such as the event loop's, which would otherwise wait for 5 ms."""
    time.sleep(_PAUSE)


def vectors_of(batch: Sequence[tuple[int, bytes, int | None]], dim: int) -> FloatArray:
    """Return the vectors of (row, blob, sum) as one array, or raise :class:`StoreCorruptError` naming the row."""
    for row, blob, _ in batch:
        if len(blob) != 4 * dim:
            raise StoreCorruptError(
                f"the vector of row {row} has {len(blob)} bytes, not {4 * dim}; restore a backup"
            )
    joined = b"".join([blob for _, blob, _ in batch])
    vectors = np.frombuffer(joined, dtype="<f4").reshape(-1, dim).astype(np.float32, copy=False)
    for (row, _, known), found in zip(batch, vector_sums(vectors).tolist(), strict=True):
        if known is not None and known != found:
            raise _damaged(f"row {row}")
    return vectors


def count_chunks(connection: sqlite3.Connection, namespace: str) -> int:
    """Count the chunks of a namespace."""
    sql = "SELECT count(*) FROM chunks WHERE namespace = ?"
    return int(connection.execute(sql, (namespace,)).fetchone()[0])


def scan_chunks(
    connection: sqlite3.Connection, namespace: str, where: Node | None, after: int, limit: int
) -> Page:
    """Return a page of chunks in the order of the rows."""
    chunks: list[Chunk] = []
    last = after
    found = connection.execute(
        f"SELECT {_FIELDS} FROM chunks WHERE namespace = ? AND row > ? ORDER BY row",  # noqa: S608
        (namespace, after),
    )
    for seen, fields in enumerate(found):
        if len(chunks) == limit or seen == _STRETCH:
            return Page(tuple(chunks), str(last))
        chunk = _chunk_of(fields)
        if where is None or where.matches(chunk.metadata):
            chunks.append(chunk)
        last = fields[0]
        if seen % SOME == SOME - 1:
            pause()
    return Page(tuple(chunks), None)


def text_sum(id: str, content: str, embed_text: str | None, metadata: str) -> int:
    """Return 63 bits: a CRC of the metadata in the lower 32, of the rest in the others."""
    # One call on joined text: calling crc32 for each part would take longer than the checksum itself.
    rest = zlib.crc32(
        f"{id}\0{content}".encode() if embed_text is None else f"{id}\1{embed_text}{content}".encode()
    )
    return (rest & 0x7FFFFFFF) << 32 | metadata_sum(metadata)


def metadata_sum(metadata: str) -> int:
    """Return the lower 32 bits of :func:`text_sum`."""
    return zlib.crc32(metadata.encode())


def vector_sums(vectors: FloatArray) -> NDArray[np.int64]:
    """Return a checksum of each row: the sum of its words, weighted by position, modulo 2**32.

    It always detects a change of a single word, and misses other damage once in 2**32. Ten times as fast as CRC-32.
    """
    words = np.ascontiguousarray(vectors, dtype="<f4").view("<u4")
    weights = _weights(words.shape[1])
    # Both compute the same sums; for a single row einsum takes longer to start than to compute.
    totals = words.dot(weights) if len(words) == 1 else np.einsum("ij,j->i", words, weights)
    sums: NDArray[np.int64] = (totals ^ _SALT).astype(np.int64)
    return sums


@cache
def _weights(count: int) -> NDArray[np.uint32]:
    weights: NDArray[np.uint32] = (np.arange(1, count + 1, dtype=np.uint32) * np.uint32(_SPREAD)) | np.uint32(
        1
    )
    return weights
