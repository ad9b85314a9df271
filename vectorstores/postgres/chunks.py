"""Chunks and records in SQL. Every function runs on a connection of the caller."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from vectorstores._engine import conflict_message, taken_message
from vectorstores._json import read_json, read_metadata
from vectorstores.base import Chunk, ConflictError, Page, Record, RecordPage, StoreCorruptError
from vectorstores.postgres.connection import About, Connection, rows
from vectorstores.postgres.filters import column_json, value_json
from vectorstores.postgres.values import Vector, known

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import JSON
    from vectorstores.postgres.filters import Where

_FIELDS: Final = "number, id, content, embed_text, metadata"
_MAX: Final = 2**31 - 1
_RECORD: Final = b" WHERE namespace = %b AND collection = %b AND key = %b"
# Rows in one statement: few, so that a large load stays within the time limit of a statement.
_SLICE: Final = 500
# More rows than this are prepared in a thread, since they would block the event loop.
_INLINE: Final = 16


async def write_chunks(connection: Connection, namespace: str, given: Sequence[Row], about: About) -> None:
    """Insert chunks, or replace those with the same id."""
    for start in range(0, len(given), _SLICE):
        columns = partial(_columns, given[start : start + _SLICE], about)
        values = await anyio.to_thread.run_sync(columns) if len(given) > _INLINE else columns()
        await connection.execute(_put(about), (namespace, *values), prepare=True)


@lru_cache
def _put(about: About) -> bytes:
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


def _columns(given: Sequence[Row], about: About) -> list[object]:
    """Return the parameters of :func:`_put` after the namespace: an array for each column."""
    facts = [_facts(json.loads(row.metadata), about) for row in given]
    return [
        [row.id for row in given],
        [row.content for row in given],
        [row.embed_text for row in given],
        [row.metadata for row in given],
        *(list(column) for column in zip(*facts, strict=True)),
        [Vector(row.vector) for row in given],
    ]


def _facts(metadata: dict[str, JSON], about: About) -> list[str | None]:
    """Return the columns by which filters read metadata: ``facts``, and one for each indexed key."""
    columns = (column_json(metadata[key]) if key in metadata else None for key in about.columns)
    return [value_json(metadata), *columns]


# The lateral join looks up each row by its id, whatever the planner expects of the table. PostgreSQL before 17 would
# read the whole namespace and compare each row with all ids.
DELETE: Final = (
    b"WITH gone AS MATERIALIZED (SELECT held.number FROM unnest(%b::text[]) AS wanted (id) CROSS JOIN LATERAL"
    b" (SELECT number FROM chunks WHERE namespace = %b AND id = wanted.id LIMIT 1 FOR UPDATE) AS held)"
    b" DELETE FROM chunks c USING gone WHERE c.namespace = %b AND c.number = gone.number RETURNING 1"
)


async def delete_chunks(
    connection: Connection, namespace: str, ids: Sequence[str], records: Sequence[RecordRow], about: About
) -> int:
    """Delete chunks that exist, append records, and return how many chunks there were."""
    gone: list[Any] = []
    if wanted := sorted(known(ids)):
        removed = b"SELECT remove_chunks(%b::text, %b::text[])", (namespace, wanted)
        statement, parameters = (DELETE, (wanted, namespace, namespace)) if about.deletes else removed
        gone = await rows(connection, statement, parameters)
    await append_records(connection, namespace, records)
    return len(gone)


def chunk_of(fields: Sequence[Any]) -> Chunk:
    """Make a chunk of (number, id, content, embed_text, metadata, ...)."""
    _, id, content, embed_text, metadata, *_ = fields
    return Chunk(content, id, read_metadata(metadata, f"the metadata of the chunk {id!r}"), embed_text)


async def chunks_by_id(
    connection: Connection, namespace: str, ids: Sequence[str], with_vectors: About | None
) -> list[Chunk]:
    """Return chunks in the order of the ids, with their vectors if ``with_vectors`` is given."""
    vector = "NULL" if with_vectors is None else with_vectors.column
    statement = f"SELECT {_FIELDS}, {vector} FROM chunks WHERE namespace = %b AND id = ANY(%b::text[])"  # noqa: S608
    by_id = {each[1]: each for each in await rows(connection, statement.encode(), (namespace, known(ids)))}
    found = [by_id[id] for id in ids if id in by_id]
    chunks = [chunk_of(fields) for fields in found]
    if with_vectors is None:
        return chunks
    for fields in found:
        require_vector(fields[1], fields[5])
    return [replace(chunk, vector=each[5].to_numpy()) for chunk, each in zip(chunks, found, strict=True)]


def require_vector(id: str, vector: object) -> None:
    """Raise :class:`StoreCorruptError` for a missing vector: another program wrote the row."""
    if vector is None:
        raise StoreCorruptError(f"the chunk {id!r} has no vector; delete it or add it again")


async def count_chunks(connection: Connection, namespace: str, where: Where, most: int | None = None) -> int:
    """Count the admitted chunks, up to ``most``."""
    admitted = b"SELECT 1 FROM chunks WHERE namespace = %b AND " + where.sql + b" LIMIT %b::bigint"
    statement = b"SELECT count(*) FROM (" + admitted + b") AS admitted"
    ((count,),) = await rows(connection, statement, (namespace, *where.parameters, most))
    return int(count)


async def scan_chunks(connection: Connection, namespace: str, where: Where, after: int, limit: int) -> Page:
    """Return a page of chunks in the order of their numbers."""
    limit = min(limit, _MAX)
    statement = (
        f"SELECT {_FIELDS} FROM chunks WHERE namespace = %b AND number > %b::bigint"  # noqa: S608
        f" AND {where.sql.decode()} ORDER BY number LIMIT %b::bigint"
    )
    parameters = (namespace, after, *where.parameters, limit + 1)
    found = await rows(connection, statement.encode(), parameters)
    chunks = await anyio.to_thread.run_sync(lambda: tuple(map(chunk_of, found[:limit])))
    return Page(chunks, str(found[limit - 1][0]) if len(found) > limit else None)


async def append_record(connection: Connection, namespace: str, record: RecordRow) -> bool:
    """Write a record unless its key exists; return whether it was written."""
    statement = (
        b"INSERT INTO records (namespace, collection, key, value, version) VALUES (%b, %b, %b, %b::text::json, 1)"
        b" ON CONFLICT (namespace, collection, key) DO NOTHING RETURNING 1"
    )
    return bool(await rows(connection, statement, (namespace, record.collection, record.key, record.value)))


async def append_records(connection: Connection, namespace: str, records: Sequence[RecordRow]) -> None:
    """Write the records whose keys don't exist. Raises :class:`ConflictError` if one exists that must be new."""
    for record in records:
        if not await append_record(connection, namespace, record) and record.must_be_new:
            raise ConflictError(taken_message(record))


async def get_record(
    connection: Connection, namespace: str, collection: str, key: str, *, lock: bool = False
) -> Record | None:
    """Return a record; with ``lock``, lock it until the transaction ends."""
    statement = b"SELECT value, version FROM records" + _RECORD + (b" FOR UPDATE" if lock else b"")
    for value, version in await rows(connection, statement, (namespace, collection, key)):
        return Record(collection, key, _value(value, collection, key), version)
    return None


async def swap_record(
    connection: Connection, namespace: str, record: RecordRow, version: int | None
) -> Record:
    """Write a record if it still has ``version``. Raises :class:`ConflictError` otherwise."""
    if version is None and await append_record(connection, namespace, record):
        return Record(record.collection, record.key, json.loads(record.value), 1)
    now = await get_record(connection, namespace, record.collection, record.key, lock=True)
    if version is None or now is None or now.version != version:
        raise ConflictError(conflict_message(record, version, None if now is None else now.version))
    statement = b"UPDATE records SET value = %b::text::json, version = version + 1" + _RECORD
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


async def delete_records(
    connection: Connection, namespace: str, collection: str, keys: Sequence[str], about: About
) -> int:
    """Delete records and return how many there were."""
    statement = (
        b"DELETE FROM records WHERE namespace = %b AND collection = %b AND key = ANY(%b::text[]) RETURNING 1"
        if about.deletes
        else b"SELECT remove_records(%b::text, %b::text, %b::text[])"
    )
    return len(await rows(connection, statement, (namespace, collection, known(keys))))


def _value(text: str, collection: str, key: str) -> JSON:
    return read_json(text, f"the record {collection}/{key}")
