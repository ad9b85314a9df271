"""Chunks in SQL. Every function runs on a connection that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread

from vectorstores.base import Chunk, Page, StoreCorruptError
from vectorstores.postgres import bulk, removal
from vectorstores.postgres.values import Vector, known

if TYPE_CHECKING:
    from vectorstores._checks import Row
    from vectorstores.base import JSON
    from vectorstores.postgres.pool import Connection
    from vectorstores.postgres.session import About
    from vectorstores.postgres.where import Where

# From so many new rows on, COPY is quicker than statements.
COPY_FROM: Final = 16
FIELDS: Final = "number, id, content, embed_text, metadata"
_MAX: Final = 2**31 - 1
_SCAN: Final = json.JSONDecoder().raw_decode
_JSON: Final = ("%b::text::json", "%b::text::jsonb")
# Row by row and in the order of the ids, which are given sorted: see removal.CHUNKS.
_LOCK: Final = (
    b"SELECT held.id, held.text FROM unnest(%b::text[]) AS wanted (id) CROSS JOIN LATERAL"
    b" (SELECT id, coalesce(embed_text, content) AS text"
    b" FROM chunks WHERE namespace = %b AND id = wanted.id LIMIT 1 FOR UPDATE) AS held"
)


def copies(rows: Sequence[Row], about: About) -> bool:
    """Say whether rows are written by COPY, which PostgreSQL refuses to roles under row-level security."""
    return len(rows) >= COPY_FROM and not about.guarded


async def write_chunks(
    connection: Connection, namespace: str, rows: Sequence[Row], about: About
) -> list[str]:
    """Insert or replace chunks; return the searched texts that were replaced by others."""
    there = await _lock(connection, namespace, [row.id for row in rows])
    fresh = [row for row in rows if row.id not in there]
    old = [row for row in rows if row.id in there]
    if copies(rows, about):
        await bulk.copy(connection, namespace, fresh, about)
    else:
        for row in fresh:
            await connection.execute(_insert(about), _parameters(namespace, row, about), prepare=True)
    statement = _replace(about)
    for row in old:
        await connection.execute(statement, _parameters(namespace, row, about), prepare=True)
    return [there[row.id] for row in old if there[row.id] != row.searched_text]


async def _lock(connection: Connection, namespace: str, ids: list[str]) -> dict[str, str]:
    cursor = await connection.execute(_LOCK, (sorted(ids), namespace), prepare=True, binary=True)
    return dict(await cursor.fetchall())


@lru_cache
def _insert(about: About) -> bytes:
    columns = [
        "content",
        "embed_text",
        "metadata",
        "facts",
        *about.columns.values(),
        about.column,
        "namespace",
        "id",
    ]
    values = ["%b", "%b", *_JSON, *(_JSON[1] for _ in about.columns), "%b", "%b", "%b"]
    return f"INSERT INTO chunks ({', '.join(columns)}) VALUES ({', '.join(values)})".encode()  # noqa: S608 - names of ours


@lru_cache
def _replace(about: About) -> bytes:
    keys = "".join(f"{column} = {_JSON[1]}, " for column in about.columns.values())
    return (
        f"UPDATE chunks SET content = %b, embed_text = %b, metadata = {_JSON[0]}, facts = {_JSON[1]}, {keys}"  # noqa: S608 - names of ours
        f"{about.column} = %b WHERE namespace = %b AND id = %b"
    ).encode()


@lru_cache
def _patch(about: About) -> bytes:
    keys = "".join(f", {column} = {_JSON[1]}" for column in about.columns.values())
    return (
        f"UPDATE chunks SET metadata = {_JSON[0]}, facts = {_JSON[1]}{keys} WHERE namespace = %b AND number = %b"  # noqa: S608 - names of ours
    ).encode()


def _parameters(namespace: str, row: Row, about: About) -> tuple[object, ...]:
    if row.vector is None:
        raise ValueError(f"chunk {row.id!r} has no vector")
    facts = bulk.facts_of(json.loads(row.metadata), about)
    return (row.content, row.embed_text, row.metadata, *facts, Vector(row.vector), namespace, row.id)


async def delete_chunks(
    connection: Connection, namespace: str, ids: Sequence[str], about: About
) -> list[str]:
    """Delete chunks that exist and return their searched texts."""
    gone = removal.CHUNKS
    parameters = gone.parameters(namespace, sorted(known(ids)))
    cursor = await connection.execute(gone.statement(about), parameters, prepare=True, binary=True)
    return [text for (text,) in await cursor.fetchall()]


async def patch_metadata(connection: Connection, namespace: str, id: str, patch: str, about: About) -> bool:
    """Merge a JSON object into a chunk's metadata."""
    cursor = await connection.execute(
        b"SELECT number, metadata FROM chunks WHERE namespace = %b AND id = %b FOR UPDATE",
        (namespace, id),
        prepare=True,
        binary=True,
    )
    found: Any = await cursor.fetchone()
    if found is None:
        return False
    merged = decode(found[1], found[0]) | json.loads(patch)
    text = json.dumps(merged, ensure_ascii=False, separators=(",", ":"))
    await connection.execute(
        _patch(about), (text, *bulk.facts_of(merged, about), namespace, found[0]), prepare=True
    )
    return True


def decode(metadata: str, number: int) -> dict[str, JSON]:
    """Read the metadata of a row."""
    try:
        # What json.loads() comes down to; its checks take longer than a short object. The server checked the rest.
        found: dict[str, JSON] = _SCAN(metadata.lstrip())[0]
    except json.JSONDecodeError as error:
        raise StoreCorruptError(
            f"the metadata of row {number} is damaged: {error}; restore a backup"
        ) from error
    return found


def chunk_of(fields: Sequence[Any]) -> Chunk:
    """Make a chunk of (number, id, content, embed_text, metadata)."""
    return Chunk(fields[2], fields[1], decode(fields[4], fields[0]), fields[3])


async def chunks_by_id(connection: Connection, namespace: str, ids: Sequence[str]) -> list[Chunk]:
    """Return chunks in the order of the ids."""
    cursor = await connection.execute(
        f"SELECT {FIELDS} FROM chunks WHERE namespace = %b AND id = ANY(%b::text[])".encode(),  # noqa: S608
        (namespace, known(ids)),
        prepare=True,
        binary=True,
    )
    found = {fields[1]: fields for fields in await cursor.fetchall()}
    return [chunk_of(found[id]) for id in ids if id in found]


async def count_chunks(connection: Connection, namespace: str, where: Where) -> int:
    """Count the chunks that are admitted."""
    cursor = await connection.execute(
        b"SELECT count(*) FROM chunks WHERE namespace = %b AND " + where.sql,
        (namespace, *where.parameters),
        prepare=True,
        binary=True,
    )
    found: Any = await cursor.fetchone()
    return int(found[0])


async def scan_chunks(connection: Connection, namespace: str, where: Where, after: int, limit: int) -> Page:
    """Return a page of chunks in the order of the rows."""
    limit = min(limit, _MAX)
    cursor = await connection.execute(
        f"SELECT {FIELDS} FROM chunks WHERE namespace = %b AND number > %b::bigint AND ".encode()  # noqa: S608
        + where.sql
        + b" ORDER BY number LIMIT %b::bigint",
        (namespace, after, *where.parameters, limit + 1),
        prepare=True,
        binary=True,
    )
    found = await cursor.fetchall()
    rows = found[:limit]
    chunks = (
        [chunk_of(fields) for fields in rows]
        if len(rows) <= 1000
        else await anyio.to_thread.run_sync(lambda: [chunk_of(fields) for fields in rows])
    )
    return Page(tuple(chunks), str(rows[-1][0]) if len(found) > limit else None)
