"""Chunks in SQL, with their checksums compared. Every function runs inside a transaction that the caller holds."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vectorstores._json import read_metadata
from vectorstores.base import Chunk, Page, StoreCorruptError
from vectorstores.sqlite_faiss.sums import metadata_sum, text_sum, vector_sums

if TYPE_CHECKING:
    from vectorstores._checks import Row
    from vectorstores.base import JSON, FloatArray
    from vectorstores.filters import Node

PUT, PATCHED, DELETED = 1, 2, 3
# Changes kept for those who follow them; who is further behind reads all rows again.
LOG_SIZE: Final = 200_000
# They are dropped now and then, so that a single write does not pay for it: whenever so many were added.
_SWEPT: Final = 4096
# A filtered page ends after so many rows, found or not, so that no call reads a store of any size whole.
_STRETCH: Final = 20_000
_ASKED: Final = 256
# More vectors than this at once would keep other threads waiting for milliseconds.
_BATCH: Final = 512
# Rows of one statement.
_TOGETHER: Final = 32
# Rows whose metadata is read at a time, about a millisecond of it, and how long other threads get their turn then.
SOME: Final = 256
_PAUSE: Final = 0.0001
_METADATA: Final = 0xFFFFFFFF
_FIELDS: Final = "row, id, content, embed_text, metadata, sum"
_PUT_TEXTS: Final = (
    "INSERT INTO chunks (row, namespace, id, content, embed_text, metadata, sum) VALUES {}"
    " ON CONFLICT (row) DO UPDATE SET content = excluded.content, embed_text = excluded.embed_text,"
    " metadata = excluded.metadata, sum = excluded.sum"
)
_PUT_VECTORS: Final = "INSERT OR REPLACE INTO vectors (row, vector, sum) VALUES {}"
_LOG: Final = "INSERT INTO changes (seq, namespace, row, kind, token) VALUES {}"


class Gone(NamedTuple):
    """A row whose text or vector was deleted or replaced, and that text as it was searched by."""

    row: int
    text: str


class _Known(NamedTuple):
    """What a row holds that is written again."""

    row: int
    text: str
    vector: bytes | None

    def is_like(self, given: Row) -> bool:
        """Whether text and vector stay what they are."""
        same = given.vector is not None and given.vector.tobytes() == self.vector
        return same and given.searched_text == self.text


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, 0 if there was none."""
    (seq,) = connection.execute("SELECT max(seq) FROM changes").fetchone()
    return int(seq or 0)


def oldest_change(connection: sqlite3.Connection) -> int:
    """Return the number of the oldest change that is still in the log, 1 if there was none."""
    (seq,) = connection.execute("SELECT min(seq) FROM changes").fetchone()
    return int(seq or 1)


def token_at(connection: sqlite3.Connection, seq: int) -> int | None:
    """Return the random number of a change; None if it is not, or no longer, in the log."""
    found = connection.execute("SELECT token FROM changes WHERE seq = ?", (seq,)).fetchone()
    return None if found is None else found[0]


def overtaken(connection: sqlite3.Connection, namespace: str, seq: int) -> list[int]:
    """Return the rows that there were at change ``seq`` and that were deleted or written again since."""
    found = connection.execute(
        "SELECT DISTINCT row FROM changes WHERE seq > ? AND row <= ? AND namespace = ? AND kind != ?",
        (seq, seq, namespace, PATCHED),
    )
    return [row for (row,) in found]


def write_chunks(connection: sqlite3.Connection, namespace: str, rows: Sequence[Row]) -> list[Gone]:
    """Insert or replace chunks of different ids; return those whose searched text or vector was replaced by another."""
    first = last_change(connection) + 1
    known = _known(connection, namespace, [row.id for row in rows])
    # A new row takes the number of its change.
    numbers = [known[row.id].row if row.id in known else seq for seq, row in enumerate(rows, first)]
    texts = (
        (number, namespace, row.id, row.content, row.embed_text, row.metadata,
         text_sum(row.id, row.content, row.embed_text, row.metadata))
        for number, row in zip(numbers, rows, strict=True)
    )  # fmt: skip
    _insert(connection, _PUT_TEXTS, texts, len(rows))
    for low in range(0, len(rows), _BATCH):
        vectors = _stacked(rows[low : low + _BATCH])
        some = zip(numbers[low : low + _BATCH], vectors, vector_sums(vectors).tolist(), strict=True)
        _insert(connection, _PUT_VECTORS, some, len(vectors))
    _log(connection, namespace, first, numbers, PUT)
    given = ((known[row.id], row) for row in rows if row.id in known)
    return [Gone(old.row, old.text) for old, row in given if not old.is_like(row)]


def _insert(
    connection: sqlite3.Connection, statement: str, rows: Iterator[tuple[object, ...]], count: int
) -> None:
    """Insert ``count`` rows by a statement with ``{}`` for their values, many at a time.

    Fewer steps, so that this thread asks for the interpreter less often; and no more at once, because thousands of new
    tuples would have Python look through all that it holds for garbage.
    """
    while count:
        # Powers of two: SQLite has the statements for so few numbers ready.
        number = min(_TOGETHER, 1 << (count.bit_length() - 1))
        values = [*chain.from_iterable(islice(rows, number))]
        connection.execute(_filled(statement, number, len(values) // number), values)
        count -= number


@cache
def _filled(statement: str, rows: int, columns: int) -> str:
    return statement.format(",".join([f"({_marks(columns)})"] * rows))


def _marks(count: int) -> str:
    return ",".join("?" * count)


def _stacked(rows: Sequence[Row]) -> FloatArray:
    """Return the vectors of rows, of shape (n, dim): a fifth of the time of numpy's own way."""
    vectors = [row.vector for row in rows if row.vector is not None]
    joined = b"".join(vectors)  # type: ignore[arg-type]  # arrays are buffers, which numpy's types say from 3.12 on
    return np.frombuffer(joined, dtype=np.float32).reshape(len(vectors), -1)


def _known(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> dict[str, _Known]:
    known: dict[str, _Known] = {}
    for low in range(0, len(ids), _ASKED):
        some = ids[low : low + _ASKED]
        # The last one repeated, up to a power of two: SQLite has the statements for so few numbers ready.
        count = 1 << (len(some) - 1).bit_length()
        found = connection.execute(
            "SELECT id, row, coalesce(embed_text, content), vector FROM chunks LEFT JOIN vectors USING (row)"  # noqa: S608
            f" WHERE namespace = ? AND id IN ({_marks(count)})",
            (namespace, *some, *[some[-1]] * (count - len(some))),
        )
        known |= {id: _Known(*fields) for id, *fields in found}
    return known


def delete_chunks(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> list[Gone]:
    """Delete chunks that exist and return them."""
    gone: list[Gone] = []
    for id in ids:
        found = connection.execute(
            "DELETE FROM chunks WHERE namespace = ? AND id = ? RETURNING row, coalesce(embed_text, content)",
            (namespace, id),
        ).fetchone()
        if found is not None:
            connection.execute("DELETE FROM vectors WHERE row = ?", (found[0],))
            gone.append(Gone(*found))
    if gone:
        _log(connection, namespace, last_change(connection) + 1, [each.row for each in gone], DELETED)
    return gone


def patch_metadata(connection: sqlite3.Connection, namespace: str, id: str, patch: str) -> bool:
    """Merge a JSON object into a chunk's metadata."""
    found = connection.execute(
        f"SELECT {_FIELDS} FROM chunks WHERE namespace = ? AND id = ?",  # noqa: S608
        (namespace, id),
    ).fetchone()
    if found is None:
        return False
    row, *texts, _ = found
    merged = dict(_chunk_of(found).metadata) | json.loads(patch)
    texts[-1] = json.dumps(merged, ensure_ascii=False, separators=(",", ":"))
    connection.execute(
        "UPDATE chunks SET metadata = ?, sum = ? WHERE row = ?", (texts[-1], text_sum(*texts), row)
    )
    _log(connection, namespace, last_change(connection) + 1, [row], PATCHED)
    return True


def _log(connection: sqlite3.Connection, namespace: str, first: int, rows: Sequence[int], kind: int) -> None:
    """Write down the changes of these rows, the first of them under the number ``first``."""
    token = secrets.randbits(63)
    changes = ((seq, namespace, row, kind, token) for seq, row in enumerate(rows, first))
    _insert(connection, _LOG, changes, len(rows))
    last = first + len(rows) - 1
    if last > LOG_SIZE and last // _SWEPT != (first - 1) // _SWEPT:
        connection.execute("DELETE FROM changes WHERE seq <= ?", (last - LOG_SIZE,))


def _chunk_of(fields: tuple[int, str, str, str | None, str, int | None]) -> Chunk:
    row, id, content, embed_text, metadata, known = fields
    if known is not None and known != text_sum(id, content, embed_text, metadata):
        raise _damaged(f"row {row} (id {id!r})")
    return Chunk(
        content, id, read_metadata(metadata, f"the metadata of row {row} (id {id!r:.100})"), embed_text
    )


def _damaged(name: str) -> StoreCorruptError:
    return StoreCorruptError(f"{name} is damaged: it is not what its checksum says; restore a backup")


def chunks_by_id(
    connection: sqlite3.Connection, namespace: str, ids: Sequence[str], dim: int | None = None
) -> list[Chunk]:
    """Return chunks in the order of the ids; with their vectors, where ``dim`` says how long these are."""
    sql = f"SELECT {_FIELDS} FROM chunks WHERE namespace = ? AND id = ?"  # noqa: S608
    asked = (connection.execute(sql, (namespace, id)).fetchone() for id in ids)
    found = [fields for fields in asked if fields is not None]
    chunks = [_chunk_of(fields) for fields in found]
    if dim is None:
        return chunks
    sql = "SELECT row, vector, sum FROM vectors WHERE row = ?"
    kept = [connection.execute(sql, (fields[0],)).fetchone() for fields in found]
    if None in kept:
        raise StoreCorruptError(f"the chunk {found[kept.index(None)][1]!r} has no vector; restore a backup")
    return [
        replace(chunk, vector=vector.copy())
        for chunk, vector in zip(chunks, vectors_of(kept, dim), strict=True)
    ]


def chunks_by_row(connection: sqlite3.Connection, rows: Sequence[int]) -> list[Chunk]:
    """Return the chunks of these rows in their order; each must be there."""
    chunks: dict[int, Chunk] = {}
    for low in range(0, len(rows), _ASKED):
        some = rows[low : low + _ASKED]
        sql = f"SELECT {_FIELDS} FROM chunks WHERE row IN ({_marks(len(some))})"  # noqa: S608
        chunks |= {fields[0]: _chunk_of(fields) for fields in connection.execute(sql, some)}
    if len(chunks) < len(rows):
        raise StoreCorruptError("vectors without their texts; restore a backup")
    return [chunks[row] for row in rows]


def metadata_of(
    connection: sqlite3.Connection, which: str, parameters: Sequence[object]
) -> Iterator[list[tuple[int, dict[str, JSON]]]]:
    """Yield (row, metadata) of the chunks that an SQL condition names, some at a time."""
    found = connection.execute(f"SELECT row, metadata, sum FROM chunks WHERE {which}", parameters)  # noqa: S608
    while batch := found.fetchmany(SOME):
        for row, metadata, known in batch:
            if known is not None and known & _METADATA != metadata_sum(metadata):
                raise _damaged(f"row {row}")
        yield [(row, read_metadata(metadata, f"the metadata of row {row}")) for row, metadata, _ in batch]
        pause()


def pause() -> None:
    """Give other threads their turn, such as the event loop's: the interpreter would make them wait for 5 ms."""
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


def count_chunks(connection: sqlite3.Connection, namespace: str, where: Node | None) -> int:
    """Count the chunks that are admitted."""
    if where is None:
        sql = "SELECT count(*) FROM chunks WHERE namespace = ?"
        return int(connection.execute(sql, (namespace,)).fetchone()[0])
    batches = metadata_of(connection, "namespace = ?", (namespace,))
    return sum(where.matches(metadata) for batch in batches for _, metadata in batch)


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
