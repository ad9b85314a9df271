"""The part of a run that needs a PostgreSQL server: one database a size, made and dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio.to_thread
import psycopg
from psycopg import sql

from benchmarks.vectorstores.lines import Run
from benchmarks.vectorstores.rows_postgres import bulk_rows, postgres_lines
from benchmarks.vectorstores.vectors import clustered
from vectorstores.postgres.embedded import embedded_conninfo, leave

_NAME: Final = "vectorstores_benchmark_"


async def measure_postgres(run: Run, address: str) -> None:
    """Measure every size of the PostgreSQL table, on the server named or on one of its own."""
    async with _server(run, address) as server:
        settings = run.settings
        for n in settings.postgres:
            corpus = clustered(n + bulk_rows(run), settings.queries, seed=settings.seed)
            async with _database(run, server, n) as conninfo:
                await postgres_lines(run, corpus, n, conninfo)


@asynccontextmanager
async def _server(run: Run, address: str) -> AsyncIterator[str]:
    if address != "embedded":
        yield address
        return
    folder = run.folder / "server"
    # Started by root, the server runs under an account of its own, which must get there.
    run.folder.chmod(0o711)
    server = await anyio.to_thread.run_sync(_large_server, folder)
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(leave, folder)


def _large_server(folder: Path) -> str:
    """Start a server whose buffers hold the graph of a million rows, and return its address."""
    with psycopg.connect(embedded_conninfo(folder), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET shared_buffers = '3GB'")
    leave(folder)
    return embedded_conninfo(folder)


@asynccontextmanager
async def _database(run: Run, server: str, n: int) -> AsyncIterator[str]:
    """Make a database of its own for one size, and drop it in the end."""
    name = f"{_NAME}{n}"
    async with await psycopg.AsyncConnection[Any].connect(server, autocommit=True) as connection:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        await connection.execute(drop)
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        cursor = await connection.execute("SELECT version(), current_setting('shared_buffers')")
        ((about, buffers),) = await cursor.fetchall()
        run.versions["PostgreSQL"] = f"{about.split()[1]} (shared_buffers {buffers})"
        address = urlsplit(server)
        # Not by urlunsplit, which drops the slashes of an address without a host.
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
