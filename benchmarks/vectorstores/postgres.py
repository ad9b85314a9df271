"""Compares searches of the PostgreSQL store with raw prepared statements over its table, in one database per size."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio.to_thread
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from benchmarks.timing import Here, Side, Together, in_turn, median
from benchmarks.vectorstores.lines import Line, Run
from benchmarks.vectorstores.search import fill, recall_of, searching
from benchmarks.vectorstores.vectors import (
    KEY,
    NAMESPACE,
    NEAREST,
    SHARES,
    Corpus,
    clustered,
    exact,
    open_at,
)
from vectorstores import Store
from vectorstores.postgres.embedded import embedded_conninfo, leave

if TYPE_CHECKING:
    from benchmarks.timing import Call

Pool = AsyncConnectionPool[AsyncConnection[Any]]

STORE: Final = "PostgreSQL"
_NAME: Final = "vectorstores_benchmark_"
_TABLE: Final = "vectorstores.chunks"
# Connections, as many as the store uses.
_POOL: Final = 10
# The recall that both sides must reach.
_ENOUGH: Final = 0.98
_EFFORTS: Final = (40, 80, 120, 200, 300, 400)
# Seconds for a repetition: if calls are slow, fewer are made.
_PATIENCE: Final = 2.0
_FEWEST: Final = 5
# Kilobytes of memory for a row in the graph while it is built, at 384 dimensions, with a margin.
_GRAPH: Final = 4
_SETTINGS: Final = (
    "SET hnsw.iterative_scan = relaxed_order; SET enable_sort = off; SET enable_seqscan = off; SET jit = off;"
    " SET enable_hashjoin = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0;"
    " SET plan_cache_mode = force_generic_plan"
)


async def measure_postgres(run: Run, dsn: str | None) -> None:
    """Measure every size of the PostgreSQL table, on the named server or on an embedded one."""
    async with _server(run, dsn) as server:
        settings = run.settings
        for n in settings.postgres:
            corpus = clustered(n, settings.queries)
            async with _database(run, server, n) as conninfo:
                await _lines(run, corpus, conninfo)


@asynccontextmanager
async def _server(run: Run, dsn: str | None) -> AsyncIterator[str]:
    if dsn is not None:
        yield dsn
        return
    folder = run.folder / "server"
    # If root starts the server, it runs under its own account, which must have access to the folder.
    run.folder.chmod(0o711)
    server = await anyio.to_thread.run_sync(embedded_conninfo, folder)
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(leave, folder)


@asynccontextmanager
async def _database(run: Run, server: str, n: int) -> AsyncIterator[str]:
    """Make a database for one size, and drop it at the end."""
    name = f"{_NAME}{n}"
    async with await psycopg.AsyncConnection[Any].connect(server, autocommit=True) as connection:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        await connection.execute(drop)
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        cursor = await connection.execute("SELECT version(), current_setting('shared_buffers')")
        ((about, buffers),) = await cursor.fetchall()
        run.versions["PostgreSQL"] = f"{about.split()[1]} (shared_buffers {buffers})"
        address = urlsplit(server)
        # urlunsplit would drop the slashes of an address without a host.
        conninfo = f"{address.scheme}://{address.netloc}/{name}?{address.query}"
        try:
            async with await psycopg.AsyncConnection[Any].connect(conninfo, autocommit=True) as made:
                await made.execute("CREATE EXTENSION vector")
                cursor = await made.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
                ((run.versions["pgvector"],),) = await cursor.fetchall()
            yield conninfo
        finally:
            with anyio.CancelScope(shield=True):
                await connection.execute(drop)


async def _lines(run: Run, corpus: Corpus, conninfo: str) -> None:
    """Load a corpus into an empty database, and time searches, one and many at a time."""
    n = len(corpus)
    async with (
        open_at(conninfo, corpus.dim) as store,
        _raw_pool(conninfo) as pool,
    ):
        await store.count()  # makes the tables
        definition = await _drop_vector_index(pool)
        seconds = await fill(store, corpus)
        started = time.perf_counter()
        await _make_vector_index(pool, definition, n)
        built = time.perf_counter() - started
        note = f"{seconds:.1f} s; the index of vectors was made afterwards, in {built:.1f} s"
        run.add(Line(STORE, f"load {n:,} without its index", median([n / seconds]), "per s", note=note))
        for value in (None, *SHARES):
            await _search(run, store, pool, corpus, value)


async def _search(run: Run, store: Store, pool: Pool, corpus: Corpus, value: str | None) -> None:
    n, settings = len(corpus), run.settings
    truth = exact(corpus, None if value is None else corpus.labels == value)
    bare, found_by_raw, note = await _raw_search(pool, corpus, value, truth)
    call, found = searching(store, corpus, None if value is None else {KEY: value})
    started = time.perf_counter()
    share = await recall_of(call, found, truth)
    most = round(_PATIENCE * len(truth) / (time.perf_counter() - started))
    what = f"search {n:,}" + ("" if value is None else f", filter {SHARES[value]:.0%}")
    for width, least in ((1, _FEWEST), (settings.width, settings.width)):
        sides: dict[str, Side] = {
            name: Here(each) if width == 1 else Together(each, width)
            for name, each in (("ours", call), ("control", bare))
        }
        calls = max(min(max(settings.calls, 4 * width), most), min(settings.calls, least), width)
        taken = await in_turn(sides, repetitions=settings.repetitions, calls=calls)
        name, both = (STORE, f"{what}, {width} at a time"), (taken["ours"], taken["control"])
        said = f"raw: {note}, recall {found_by_raw:.4f}; {calls} calls a repetition"
        run.compare(name, both, "raw prepared statement", "times", 1.3, said)
    run.add(Line(STORE, f"{what}, recall@5", median([share]), at_least=_ENOUGH))


@asynccontextmanager
async def _raw_pool(conninfo: str) -> AsyncIterator[Pool]:
    """Open a pool whose connections leave the planner no choice, like the store's."""

    async def configure(connection: AsyncConnection[Any]) -> None:
        await register_vector_async(connection)
        await connection.execute(_SETTINGS)

    async with AsyncConnectionPool[AsyncConnection[Any]](
        conninfo,
        connection_class=AsyncConnection[Any],
        kwargs={"autocommit": True},
        min_size=_POOL,
        max_size=_POOL,
        configure=configure,
        open=False,
    ) as pool:
        await pool.wait()
        yield pool


async def _drop_vector_index(pool: Pool) -> str:
    """Drop the store's vector index for a large load, and return the statement that makes it again."""
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam"
            " WHERE i.indrelid = %s::regclass AND a.amname = 'hnsw'",
            (_TABLE,),
        )
        ((name, definition),) = await cursor.fetchall()
        await connection.execute(f"DROP INDEX {name}")
    return str(definition)


async def _make_vector_index(pool: Pool, definition: str, rows: int) -> None:
    """Make the index again, with enough memory, and vacuum the table."""
    # If the graph does not fit into memory, each further row is searched on disk: hours instead of minutes.
    memory = max(1_000_000, rows * _GRAPH)
    async with pool.connection() as connection:
        await connection.execute(f"SET statement_timeout = 0; SET maintenance_work_mem = '{memory}kB'")
        await connection.execute(definition)
        await connection.execute("RESET maintenance_work_mem")
        await connection.execute(f"VACUUM ANALYZE {_TABLE}")


async def _raw_search(
    pool: Pool, corpus: Corpus, value: str | None, truth: Sequence[Sequence[int]]
) -> tuple[Call, float, str]:
    """Return the fastest raw search with enough recall, its recall, and its description.

    It uses the index with some effort or, with a filter, scans the admitted rows exactly.
    """
    vector, key = await _columns(pool)
    admitted = "namespace = %(namespace)b" + ("" if value is None else f" AND {key} = %(value)b")
    distance, fields = f"{vector} <#> %(query)b", "id, content, metadata"
    walk = f"SELECT {fields}, {distance} AS distance FROM {_TABLE} WHERE {admitted} ORDER BY {distance} LIMIT {NEAREST}"  # noqa: S608
    look = (
        f"WITH picked AS MATERIALIZED (SELECT number, {distance} AS distance FROM {_TABLE} WHERE {admitted}),"  # noqa: S608
        f" best AS MATERIALIZED (SELECT * FROM picked ORDER BY distance LIMIT {NEAREST})"
        f" SELECT {fields}, distance FROM best JOIN {_TABLE} USING (number) WHERE namespace = %(namespace)b"
        " ORDER BY distance"
    )
    statements = [(walk, effort, f"HNSW, ef_search {effort}") for effort in _EFFORTS]
    if value is not None:
        statements.append((look, _EFFORTS[0], "exact over the filtered rows"))
    tried: list[tuple[float, float, int]] = []
    for number, (statement, effort, _) in enumerate(statements):
        await _set_effort(pool, effort)
        call, found = _statement(pool, statement, corpus, value)
        started = time.perf_counter()
        share = await recall_of(call, found, truth)
        tried.append((time.perf_counter() - started, share, number))
    enough = [each for each in tried if each[1] >= _ENOUGH]
    _, share, number = min(enough) if enough else max(tried, key=lambda each: each[1])
    statement, effort, note = statements[number]
    await _set_effort(pool, effort)
    return _statement(pool, statement, corpus, value)[0], share, note


def _statement(pool: Pool, sql: str, corpus: Corpus, value: str | None) -> tuple[Call, dict[int, list[str]]]:
    """Return a call that runs a statement for the query with its number, and the dict that collects the ids."""
    found: dict[int, list[str]] = {}
    asked = [
        {"namespace": NAMESPACE, "query": Vector(query), "value": Jsonb(value)} for query in corpus.queries
    ]

    async def call(number: int) -> None:
        place = number % len(asked)
        async with pool.connection() as connection:
            cursor = await connection.execute(sql, asked[place], prepare=True, binary=True)
            found[place] = [row[0] for row in await cursor.fetchall()]

    return call, found


async def _columns(pool: Pool) -> tuple[str, str]:
    """Return the names of the store's columns for vectors and for the declared key."""
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND atttypid = 'vector'::regtype",
            (_TABLE,),
        )
        ((vector,),) = await cursor.fetchall()
        cursor = await connection.execute("SELECT value FROM vectorstores.meta WHERE key = 'indexed'")
        ((indexed,),) = await cursor.fetchall()
    return vector, f"k{json.loads(indexed).index(KEY) + 1}"


async def _set_effort(pool: Pool, effort: int) -> None:
    """Make every connection of the pool look at this number of candidates."""
    connections = [await pool.getconn() for _ in range(_POOL)]
    for connection in connections:
        await connection.execute(f"SET hnsw.ef_search = {effort:d}")
        await pool.putconn(connection)
