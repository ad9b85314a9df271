"""Rows as SQL gives them, with their checksums compared: chunks, and metadata alone."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from vectorstores._sums import metadata_sum, text_sum
from vectorstores.base import Chunk, StoreCorruptError

if TYPE_CHECKING:
    from vectorstores.base import JSON

FIELDS: Final = "row, id, content, embed_text, metadata, sum"
_NAMED: Final = 32
# Rows whose metadata is read at a time, about a millisecond of it, and how long other threads get their turn then.
SOME: Final = 256
_PAUSE: Final = 0.0001
_METADATA: Final = 0xFFFFFFFF
_DECODE: Final = json.JSONDecoder().raw_decode


def pause() -> None:
    """Give other threads their turn, such as the event loop's: the interpreter would make them wait for 5 ms."""
    time.sleep(_PAUSE)


def decode(metadata: str, row: int) -> dict[str, JSON]:
    """Read the metadata of a row."""
    try:
        found: dict[str, JSON]
        found, end = _DECODE(metadata)
        # What is written here has no space around it, and most of json.loads looks for that.
        return found if end == len(metadata) else json.loads(metadata)
    except json.JSONDecodeError as error:
        raise StoreCorruptError(f"the metadata of row {row} is damaged: {error}; restore a backup") from error


def check_metadata(batch: Iterable[tuple[int, str, int | None]]) -> None:
    """Raise :class:`StoreCorruptError` for the first of (row, metadata, sum) whose metadata is not what was stored."""
    for row, metadata, known in batch:
        if known is not None and known & _METADATA != metadata_sum(metadata):
            raise damaged(row)


def damaged(row: int, id: str | None = None) -> StoreCorruptError:
    """Return the error for a row whose checksum is another."""
    name = f"row {row}" if id is None else f"row {row} (id {id!r})"
    return StoreCorruptError(f"{name} is damaged: it is not what its checksum says; restore a backup")


def chunk_of(fields: tuple[int, str, str, str | None, str, int | None]) -> Chunk:
    """Make a chunk of what :data:`FIELDS` names."""
    row, id, content, embed_text, metadata, known = fields
    if known is not None and known != text_sum(id, content, embed_text, metadata):
        raise damaged(row, id)
    return Chunk(content, id, decode(metadata, row), embed_text)


def chunks_by_row(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Chunk]:
    """Return the chunks of these rows."""
    listed = "SELECT value FROM json_each(?)"
    parameters: list[str | int] = [json.dumps(rows)]
    if len(rows) <= _NAMED:
        # A statement with as many parameters, which SQLite has ready, is quicker than one over a list.
        listed, parameters = marks(len(rows)), [*rows]
    found = connection.execute(
        f"SELECT {FIELDS} FROM chunks WHERE row IN ({listed})",  # noqa: S608
        parameters,
    )
    return {fields[0]: chunk_of(fields) for fields in found}


def chunks_now(
    connection: sqlite3.Connection, rows: Sequence[int]
) -> tuple[dict[int, Chunk], int, str | None]:
    """Return the chunks of a few rows, the number of the newest change and the id of the store, all of one state."""
    *found, (newest, store, *_) = connection.execute(_now(len(rows)), rows).fetchall()
    return {fields[0]: chunk_of(fields) for fields in found}, int(newest or 0), store


@cache
def _now(count: int) -> str:
    return (
        f"SELECT {FIELDS} FROM chunks WHERE row IN ({marks(count)}) UNION ALL"  # noqa: S608
        " SELECT max(seq), (SELECT value FROM meta WHERE key = 'store'), NULL, NULL, NULL, NULL FROM changes"
    )


def metadata_after(
    connection: sqlite3.Connection, namespace: str, after: int = 0
) -> Iterator[tuple[int, dict[str, JSON]]]:
    """Yield (row, metadata) of a namespace in the order of the rows."""
    found = connection.execute(
        "SELECT row, metadata, sum FROM chunks WHERE namespace = ? AND row > ? ORDER BY row",
        (namespace, after),
    )
    while batch := found.fetchmany(SOME):
        check_metadata(batch)
        for row, metadata, _ in batch:
            yield row, decode(metadata, row)
        pause()


def marks(count: int) -> str:
    """Return the places of so many parameters in a statement."""
    return ",".join("?" * count)
