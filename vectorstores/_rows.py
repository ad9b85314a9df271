"""Chunks in SQL. Every function runs inside a transaction that the caller holds."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vectorstores._columns import keys_of
from vectorstores._reading import FIELDS, chunk_of, marks, metadata_after
from vectorstores._sums import text_sum, vector_sums
from vectorstores.base import Chunk, Page

if TYPE_CHECKING:
    from vectorstores._checks import Row
    from vectorstores.base import FloatArray
    from vectorstores.filters import Node

PUT, PATCHED, DELETED = 1, 2, 3
# Keys that a JSON path of SQLite can name as they are.
PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Changes kept for those who follow them; who is further behind reads all rows again.
LOG_SIZE: Final = 200_000
# They are dropped now and then, so that a single write does not pay for it: whenever so many were added.
SWEPT: Final = 4096
# A filtered page ends after so many rows, found or not, so that no call reads a store of any size whole.
_STRETCH: Final = 20_000
_ASKED: Final = 256
# More vectors than this at once would keep other threads waiting for milliseconds.
_BATCH: Final = 512
# Rows of one statement.
_TOGETHER: Final = 32
_PUT_TEXTS: Final = (
    "INSERT INTO chunks (row, namespace, id, content, embed_text, metadata, sum) VALUES {}"
    " ON CONFLICT (row) DO UPDATE SET content = excluded.content, embed_text = excluded.embed_text,"
    " metadata = excluded.metadata, sum = excluded.sum"
)
_PUT_VECTORS: Final = "INSERT OR REPLACE INTO vectors (row, vector, sum) VALUES {}"
_LOG: Final = "INSERT INTO changes (seq, namespace, row, kind, token) VALUES {}"


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, 0 if there was none."""
    (seq,) = connection.execute("SELECT max(seq) FROM changes").fetchone()
    return int(seq or 0)


def oldest_change(connection: sqlite3.Connection) -> int:
    """Return the number of the oldest change that is still in the log, 1 if there was none."""
    (seq,) = connection.execute("SELECT min(seq) FROM changes").fetchone()
    return int(seq or 1)


def overtaken(connection: sqlite3.Connection, namespace: str, seq: int) -> list[int]:
    """Return the rows that there were at change ``seq`` and that were deleted or written again since."""
    found = connection.execute(
        "SELECT DISTINCT row FROM changes WHERE seq > ? AND row <= ? AND namespace = ? AND kind != ?",
        (seq, seq, namespace, PATCHED),
    )
    return [row for (row,) in found]


def replaced_since(connection: sqlite3.Connection, namespace: str, seq: int) -> bool:
    """Whether a row that there was at change ``seq`` was written again since."""
    found = connection.execute(
        "SELECT 1 FROM changes WHERE seq > ? AND row <= ? AND namespace = ? AND kind = ? LIMIT 1",
        (seq, seq, namespace, PUT),
    )
    return found.fetchone() is not None


def bereft(connection: sqlite3.Connection) -> list[str]:
    """Return the namespaces of which the log says that rows were deleted or written again."""
    found = connection.execute(
        "SELECT DISTINCT namespace FROM changes WHERE row < seq AND kind != ?", (PATCHED,)
    )
    return [namespace for (namespace,) in found]


class Gone(NamedTuple):
    """A row whose text was deleted or replaced, that text as it was searched by, and the number of the change."""

    row: int
    text: str
    seq: int = 0


def token_at(connection: sqlite3.Connection, seq: int) -> int | None:
    """Return the random number of a change; None if it is not, or no longer, in the log."""
    found = connection.execute("SELECT token FROM changes WHERE seq = ?", (seq,)).fetchone()
    return None if found is None else found[0]


def write_chunks(connection: sqlite3.Connection, namespace: str, rows: Sequence[Row]) -> list[Gone]:
    """Insert or replace chunks; return those whose searched text was replaced by another."""
    first = last_change(connection) + 1
    # A new row takes the number of its change.
    numbers: Sequence[int] = range(first, first + len(rows))
    replaced: list[Gone] = []
    if not _are_new(connection, namespace, rows, first):
        known = _known(connection, namespace, [row.id for row in rows])
        numbers = [known[row.id].row if row.id in known else seq for seq, row in enumerate(rows, first)]
        replaced = [
            known[row.id]._replace(seq=seq)
            for seq, row in enumerate(rows, first)
            if row.id in known and known[row.id].text != row.searched_text
        ]
        _insert(connection, _PUT_TEXTS, _texts(namespace, rows, numbers), len(rows))
    for low in range(0, len(rows), _BATCH):
        vectors = stacked(rows[low : low + _BATCH])
        some = zip(numbers[low : low + _BATCH], vectors, vector_sums(vectors).tolist(), strict=True)
        _insert(connection, _PUT_VECTORS, some, len(vectors))
    _log(connection, namespace, first, numbers, PUT)
    return replaced


def _are_new(connection: sqlite3.Connection, namespace: str, rows: Sequence[Row], first: int) -> bool:
    """Insert the texts of a few rows, numbered from ``first``; False when one of their ids exists.

    Most ids are new, and whether one is, the insertion finds out anyway. Rows that are in by then have the numbers
    that they keep.
    """
    if len(rows) > _TOGETHER:
        return False
    numbers = range(first, first + len(rows))
    try:
        _insert(connection, _PUT_TEXTS, _texts(namespace, rows, numbers), len(rows))
    except sqlite3.IntegrityError:
        return False
    return True


def _texts(namespace: str, rows: Sequence[Row], numbers: Iterable[int]) -> Iterator[tuple[object, ...]]:
    for number, row in zip(numbers, rows, strict=True):
        id, content, embed_text, metadata = row.id, row.content, row.embed_text, row.metadata
        yield (
            number,
            namespace,
            id,
            content,
            embed_text,
            metadata,
            text_sum(id, content, embed_text, metadata),
        )


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
    return statement.format(",".join([f"({marks(columns)})"] * rows))


def stacked(rows: Sequence[Row]) -> FloatArray:
    """Return the vectors of rows, of shape (n, dim): a fifth of the time of numpy's own way."""
    vectors = [row.vector for row in rows if row.vector is not None]
    if len(vectors) == 1:
        return vectors[0][np.newaxis]
    joined = b"".join(vectors)  # type: ignore[arg-type]  # arrays are buffers, which numpy's types say from 3.12 on
    return np.frombuffer(joined, dtype=np.float32).reshape(len(vectors), -1)


def _known(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> dict[str, Gone]:
    known: dict[str, Gone] = {}
    for low in range(0, len(ids), _ASKED):
        some = ids[low : low + _ASKED]
        # The last one repeated, up to a power of two: SQLite has the statements for so few numbers ready.
        count = 1 << (len(some) - 1).bit_length()
        found = connection.execute(
            "SELECT id, row, coalesce(embed_text, content) FROM chunks"  # noqa: S608
            f" WHERE namespace = ? AND id IN ({marks(count)})",
            (namespace, *some, *[some[-1]] * (count - len(some))),
        )
        known |= {id: Gone(row, text) for id, row, text in found}
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
    if not gone:
        return []
    first = last_change(connection) + 1
    _log(connection, namespace, first, [each.row for each in gone], DELETED)
    return [each._replace(seq=seq) for seq, each in enumerate(gone, first)]


def patch_metadata(connection: sqlite3.Connection, namespace: str, id: str, patch: str) -> bool:
    """Merge a JSON object into a chunk's metadata."""
    found = connection.execute(
        f"SELECT {FIELDS} FROM chunks WHERE namespace = ? AND id = ?",  # noqa: S608
        (namespace, id),
    ).fetchone()
    if found is None:
        return False
    row, *texts, _ = found
    merged = dict(chunk_of(found).metadata) | json.loads(patch)
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
    _trim(connection, first + len(rows) - 1, len(rows))


def _trim(connection: sqlite3.Connection, seq: int, added: int) -> None:
    if seq > LOG_SIZE and seq // SWEPT != (seq - added) // SWEPT:
        connection.execute("DELETE FROM changes WHERE seq <= ?", (seq - LOG_SIZE,))


def chunks_by_id(connection: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> list[Chunk]:
    """Return chunks in the order of the ids."""
    chunks: list[Chunk] = []
    for id in ids:
        fields = connection.execute(
            f"SELECT {FIELDS} FROM chunks WHERE namespace = ? AND id = ?",  # noqa: S608
            (namespace, id),
        ).fetchone()
        if fields is not None:
            chunks.append(chunk_of(fields))
    return chunks


def count_chunks(connection: sqlite3.Connection, namespace: str, where: Node | None) -> int:
    """Count the chunks that are admitted."""
    if where is None:
        (count,) = connection.execute(
            "SELECT count(*) FROM chunks WHERE namespace = ?", (namespace,)
        ).fetchone()
        return int(count)
    keys = sorted(keys_of(where))
    if all(PLAIN_KEY.fullmatch(key) for key in keys):
        with suppress(sqlite3.OperationalError):  # metadata that is no JSON: the other way says which row's
            return _count_groups(connection, namespace, where, keys)
    return sum(where.matches(metadata) for _, metadata in metadata_after(connection, namespace))


def _count_groups(connection: sqlite3.Connection, namespace: str, where: Node, keys: Sequence[str]) -> int:
    values = "".join(f", {json_of(key)}" for key in keys)
    numbers = "".join(f", {number + 2}" for number in range(len(keys)))
    grouping = f" GROUP BY {numbers[2:]}" if keys else ""
    total = 0
    found = connection.execute(
        f"SELECT count(*){values} FROM chunks WHERE namespace = ?{grouping}",  # noqa: S608 - plain keys
        (namespace,),
    )
    for number, *texts in found:
        metadata = {key: json.loads(text) for key, text in zip(keys, texts, strict=True) if text is not None}
        total += number if where.matches(metadata) else 0
    return total


def json_of(key: str) -> str:
    """Return the SQL for the JSON text of a key that :data:`PLAIN_KEY` admits; NULL where it is missing."""
    return f"""metadata -> '$."{key}"'"""


def scan_chunks(
    connection: sqlite3.Connection, namespace: str, where: Node | None, after: int, limit: int
) -> Page:
    """Return a page of chunks in the order of the rows."""
    chunks: list[Chunk] = []
    last = after
    found = connection.execute(
        f"SELECT {FIELDS} FROM chunks WHERE namespace = ? AND row > ? ORDER BY row",  # noqa: S608
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
