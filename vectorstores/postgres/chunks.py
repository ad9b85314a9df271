"""Chunks as rows of the table ``chunks``, and what no row can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pgvector import Vector

from vectorstores._json import read_metadata
from vectorstores.base import Chunk, InvalidChunkError, StoreCorruptError
from vectorstores.postgres.connection import About, Connection, rows
from vectorstores.postgres.filters import column_json, holds_nul, value_json

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.postgres.filters import Where

FIELDS: Final = "number, id, content, embed_text, metadata"
# The lateral join looks up each row by its id, whatever the planner expects of the table. PostgreSQL before 17 would
# read the whole namespace and compare each row with all ids.
DELETE: Final = (
    b"WITH gone AS MATERIALIZED (SELECT held.number FROM unnest(%b::text[]) AS wanted (id) CROSS JOIN LATERAL"
    b" (SELECT number FROM chunks WHERE namespace = %b AND id = wanted.id LIMIT 1 FOR UPDATE) AS held)"
    b" DELETE FROM chunks c USING gone WHERE c.namespace = %b AND c.number = gone.number RETURNING 1"
)
# A b-tree entry holds some 2,700 bytes, so indexed texts are limited to these lengths, in UTF-8 bytes.
_MAX_SCOPE: Final = 500
_MAX_ID: Final = 1500


def refuse_rows(rows: Sequence[Row]) -> None:
    """Raise :class:`InvalidChunkError` for the first chunk that PostgreSQL can't hold."""
    for index, row in enumerate(rows):
        place = f"chunks[{index}] (id {row.id!r:.100})"
        _refuse(f"{place}: id", row.id, limit=_MAX_ID)
        _refuse(f"{place}: content", row.content)
        _refuse(f"{place}: embed_text", row.embed_text or "")
        _refuse(f"{place}: metadata", encoded=row.metadata)


def refuse_records(records: Sequence[RecordRow]) -> None:
    """Raise :class:`InvalidChunkError` for the first record that PostgreSQL can't hold."""
    for record in records:
        place = f"record {record.collection!r:.100}/{record.key!r:.100}"
        _refuse(f"{place}: collection", record.collection, limit=_MAX_SCOPE)
        _refuse(f"{place}: key", record.key, limit=_MAX_ID)
        _refuse(f"{place}: value", encoded=record.value)


def _refuse(place: str, text: str = "", *, encoded: str = "", limit: int | None = None) -> None:
    """Raise for a text, or for JSON, that PostgreSQL can't hold."""
    # JSON writes NUL as \u0000; the same characters also stand for a backslash followed by u0000.
    if "\0" in text or ("\\u0000" in encoded and holds_nul(json.loads(encoded))):
        found = f", found at {text.index(chr(0))}" if text else ""
        raise InvalidChunkError(f"{place}: PostgreSQL can't hold the character NUL (U+0000){found}")
    if limit is not None and len(text) * 4 > limit and len(text.encode()) > limit:
        raise InvalidChunkError(f"{place}: {len(text.encode())} bytes; in PostgreSQL at most {limit}")


@lru_cache
def put(about: About) -> bytes:
    """Return the statement that inserts rows in their order, or replaces those with the same id in place."""
    kinds = {"content": "text", "embed_text": "text", "metadata": "json", "facts": "jsonb"}
    kinds |= dict.fromkeys(about.columns.values(), "jsonb") | {about.column: "vector"}
    names = ", ".join(kinds)
    given = ", ".join("%b::vector[]" if kind == "vector" else "%b::text[]" for kind in kinds.values())
    values = ", ".join(f"given.{name}::{kind}" for name, kind in kinds.items())
    replaced = ", ".join(f"{name} = excluded.{name}" for name in kinds)
    return (
        f"INSERT INTO chunks (namespace, id, {names}) SELECT %b, given.id, {values}"  # noqa: S608 - names of ours
        f" FROM unnest(%b::text[], {given}) AS given (id, {names})"
        f" ON CONFLICT (namespace, id) DO UPDATE SET {replaced}"
    ).encode()


def columns_of(given: Sequence[Row], about: About) -> list[object]:
    """Return the parameters of :func:`put` after the namespace: an array for each column."""
    parsed = [json.loads(row.metadata) for row in given]
    return [
        [row.id for row in given],
        [row.content for row in given],
        [row.embed_text for row in given],
        [row.metadata for row in given],
        # The columns by which filters read metadata: ``facts``, and one for each indexed key.
        [value_json(metadata) for metadata in parsed],
        *(
            [column_json(metadata[key]) if key in metadata else None for metadata in parsed]
            for key in about.columns
        ),
        [Vector(row.vector) for row in given],
    ]


def chunk_of(fields: Sequence[Any]) -> Chunk:
    """Make a chunk of (number, id, content, embed_text, metadata, ...)."""
    _, id, content, embed_text, metadata, *_ = fields
    return Chunk(content, id, read_metadata(metadata, f"the metadata of the chunk {id!r}"), embed_text)


def require_vector(id: str, vector: object) -> None:
    """Raise :class:`StoreCorruptError` for a missing vector: another program wrote the row."""
    if vector is None:
        raise StoreCorruptError(f"the chunk {id!r} has no vector; delete it or add it again")


async def delete_chunks(connection: Connection, namespace: str, ids: Sequence[str], about: About) -> int:
    """Delete chunks and return how many existed."""
    statement = b"SELECT remove_chunks(%b::text, %b::text[])"
    if about.deletes:
        return len(await rows(connection, DELETE, (ids, namespace, namespace)))
    return len(await rows(connection, statement, (namespace, ids)))


async def count_chunks(connection: Connection, namespace: str, where: Where, most: int | None = None) -> int:
    """Count the admitted chunks, up to ``most``."""
    admitted = b"SELECT 1 FROM chunks WHERE namespace = %b AND " + where.sql + b" LIMIT %b::bigint"
    statement = b"SELECT count(*) FROM (" + admitted + b") AS admitted"
    ((count,),) = await rows(connection, statement, (namespace, *where.parameters, most))
    return int(count)
