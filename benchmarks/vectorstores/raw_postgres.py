"""Raw SQL on a pooled connection over the very table of a store: what its searches and loads are held against."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pgvector import Vector
from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from benchmarks.vectorstores.vectors import NEAREST, Corpus, recall

if TYPE_CHECKING:
    from benchmarks.timing import Call

Pool = AsyncConnectionPool[AsyncConnection[Any]]

TABLE: Final = "vectorstores.chunks"
POOL: Final = 10
"""Connections; as many as the store takes."""
ENOUGH: Final = 0.98
"""The recall that a raw statement must reach to count."""
_EFFORTS: Final = (40, 80, 120, 200, 300, 400)
_GRAPH: Final = 4
"""Kilobytes of memory that a row takes in the graph while it is built, at 384 dimensions, amply."""
_SETTINGS: Final = (
    "SET hnsw.iterative_scan = relaxed_order; SET enable_sort = off; SET enable_seqscan = off; SET jit = off;"
    " SET enable_hashjoin = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0;"
    " SET plan_cache_mode = force_generic_plan"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A search in SQL, and how many candidates the index is to look at."""

    name: str
    sql: str
    effort: int


@asynccontextmanager
async def raw_pool(conninfo: str) -> AsyncIterator[Pool]:
    """Open a pool whose connections leave the planner no choice, as the store's do not."""

    async def configure(connection: AsyncConnection[Any]) -> None:
        await register_vector_async(connection)
        await connection.execute(_SETTINGS)

    async with AsyncConnectionPool[AsyncConnection[Any]](
        conninfo,
        connection_class=AsyncConnection[Any],
        kwargs={"autocommit": True},
        min_size=POOL,
        max_size=POOL,
        configure=configure,
        open=False,
    ) as pool:
        await pool.wait()
        yield pool


async def vector_column(pool: Pool) -> str:
    """Return the name of the store's column of vectors."""
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND atttypid = 'vector'::regtype",
            (TABLE,),
        )
        return str((await cursor.fetchall())[0][0])


async def drop_vector_index(pool: Pool) -> str:
    """Drop the store's index of vectors, for a large load, and return the statement that makes it again."""
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam"
            " WHERE i.indrelid = %s::regclass AND a.amname = 'hnsw'",
            (TABLE,),
        )
        ((name, definition),) = await cursor.fetchall()
        await connection.execute(f"DROP INDEX {name}")
    return str(definition)


async def make_vector_index(pool: Pool, definition: str, rows: int) -> None:
    """Make the index again, with the memory that this takes, and leave the table as after any load."""
    # Once the graph no longer fits, each further row is searched for on disk: hours instead of minutes.
    memory = max(1_000_000, rows * _GRAPH)
    async with pool.connection() as connection:
        await connection.execute(f"SET statement_timeout = 0; SET maintenance_work_mem = '{memory}kB'")
        await connection.execute(definition)
        await connection.execute("RESET maintenance_work_mem")
        await connection.execute(f"VACUUM ANALYZE {TABLE}")


async def key_column(pool: Pool, key: str) -> str:
    """Return the name of the store's column of a declared key."""
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT value FROM vectorstores.meta WHERE key = 'indexed'")
        ((indexed,),) = await cursor.fetchall()
    return f"k{json.loads(indexed).index(key) + 1}"


async def statements(pool: Pool, key: str | None) -> list[Statement]:
    """Return the ways to search that are worth trying, filtered by a declared key or not."""
    vector = await vector_column(pool)
    admitted = "namespace = %(namespace)b"
    if key is not None:
        admitted += f" AND {await key_column(pool, key)} = %(value)b"
    distance = f"{vector} <#> %(query)b"
    fields = "id, content, metadata"
    walk = f"SELECT {fields}, {distance} AS distance FROM {TABLE} WHERE {admitted} ORDER BY {distance} LIMIT {NEAREST}"  # noqa: S608
    look = (
        f"WITH picked AS MATERIALIZED (SELECT number, {distance} AS distance FROM {TABLE} WHERE {admitted}),"  # noqa: S608
        f" best AS MATERIALIZED (SELECT * FROM picked ORDER BY distance LIMIT {NEAREST})"
        f" SELECT {fields}, distance FROM best JOIN {TABLE} USING (number) WHERE namespace = %(namespace)b"
        " ORDER BY distance"
    )
    found = [Statement(f"HNSW, ef_search {effort}", walk, effort) for effort in _EFFORTS]
    return [*found, Statement("exact over the filtered rows", look, _EFFORTS[0])] if key else found


def searching(
    pool: Pool, statement: Statement, corpus: Corpus, namespace: str, value: str | None
) -> tuple[Call, dict[int, list[str]]]:
    """Return a call that runs a statement for the query of its number, and where the ids go."""
    found: dict[int, list[str]] = {}
    asked = [
        {"namespace": namespace, "query": Vector(query), "value": Jsonb(value)} for query in corpus.queries
    ]

    async def call(number: int) -> None:
        place = number % len(asked)
        async with pool.connection() as connection:
            cursor = await connection.execute(statement.sql, asked[place], prepare=True, binary=True)
            found[place] = [row[0] for row in await cursor.fetchall()]

    return call, found


async def best_statement(
    pool: Pool,
    corpus: Corpus,
    namespace: str,
    truth: Sequence[Sequence[int]],
    *,
    key: str | None,
    value: str | None,
) -> tuple[Statement, float]:
    """Return the quickest statement that finds enough, and its recall; the one that finds most if none does."""
    tried: list[tuple[float, float, Statement]] = []
    for statement in await statements(pool, key):
        await set_effort(pool, statement.effort)
        call, found = searching(pool, statement, corpus, namespace, value)
        taken = []
        for number in range(len(truth)):
            started = time.perf_counter()
            await call(number)
            taken.append(time.perf_counter() - started)
        share = recall([found[place] for place in range(len(truth))], truth)
        tried.append((float(np.median(taken)), share, statement))
    enough = [each for each in tried if each[1] >= ENOUGH]
    _, share, statement = min(enough, key=lambda each: each[0]) if enough else max(tried, key=lambda e: e[1])
    await set_effort(pool, statement.effort)
    return statement, share


async def set_effort(pool: Pool, effort: int) -> None:
    """Have every connection of the pool look at so many candidates."""
    held = [await pool.getconn() for _ in range(POOL)]
    for connection in held:
        await connection.execute(f"SET hnsw.ef_search = {effort:d}")
        await pool.putconn(connection)


async def copy_bytes(pool: Pool, corpus: Corpus, places: Sequence[int], namespace: str) -> tuple[str, bytes]:
    """Return a COPY statement into the store's table and the rows for it, encoded by the server beforehand."""
    columns = f"namespace, id, content, embed_text, metadata, facts, {await vector_column(pool)}"
    async with pool.connection() as connection, connection.transaction():
        fresh = f"CREATE TEMP TABLE fresh ON COMMIT DROP AS SELECT {columns} FROM {TABLE} LIMIT 0"  # noqa: S608
        await connection.execute(fresh)
        async with connection.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO fresh VALUES (%s, %s, %s, NULL, %s, %s, %s)",
                [_row(corpus, place, namespace) for place in places],
            )
            data = bytearray()
            async with cursor.copy("COPY fresh TO STDOUT (FORMAT BINARY)") as source:
                async for part in source:
                    data += part
    return f"COPY {TABLE} ({columns}) FROM STDIN (FORMAT BINARY)", bytes(data)


def _row(corpus: Corpus, place: int, namespace: str) -> tuple[object, ...]:
    chunk = corpus.chunk(place)
    metadata = json.dumps(chunk.metadata)
    return (namespace, chunk.id, chunk.content, metadata, metadata, Vector(corpus.vectors[place]))


async def copy_in(pool: Pool, statement: str, data: bytes) -> None:
    """Run a COPY in a transaction of its own."""
    async with pool.connection() as connection, connection.cursor().copy(statement) as sink:
        await sink.write(data)
