"""The part of a run that needs a PostgreSQL server: one database a size, made and dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio.to_thread
import psycopg
from psycopg import sql

from benchmarks.vectorstores.lines import Run
from benchmarks.vectorstores.peers.client import PeerSide
from benchmarks.vectorstores.peers.starting import Parts, peers_at, sides
from benchmarks.vectorstores.rows_postgres import bulk_rows, postgres_lines
from benchmarks.vectorstores.vectors import clustered
from vectorstores.postgres.embedded import embedded_conninfo, leave

if TYPE_CHECKING:
    from vectorstores.base import Filter

_PEER: Final = ("jeevesagent-postgres",)
_NAME: Final = "vectorstores_benchmark_"


async def measure_postgres(run: Run, parts: Parts) -> None:
    """Measure every size of the PostgreSQL table, on the server named or on one of its own."""
    async with _server(run, parts) as server:
        settings = run.settings
        for n in settings.postgres:
            corpus = clustered(n + bulk_rows(run), settings.queries, seed=settings.seed)
            async with (
                _database(run, server, n) as conninfo,
                # jeevesagent inserts one by one into its index: one size is enough to see how it searches.
                peers_at(
                    run,
                    parts,
                    corpus.first(n),
                    n,
                    names=_PEER if n == settings.postgres[0] else (),
                    dsn=conninfo,
                ) as peers,
            ):

                def others(where: Filter | None) -> dict[str, PeerSide]:
                    return sides(peers, "search", where)

                await postgres_lines(run, corpus, n, conninfo, others)


@asynccontextmanager
async def _server(run: Run, parts: Parts) -> AsyncIterator[str]:
    if parts.postgres != "embedded":
        yield str(parts.postgres)
        return
    folder = run.folder / "server"
    # Started by root, the server runs under an account of its own, which must get there.
    run.folder.chmod(0o711)
    server = await anyio.to_thread.run_sync(embedded_conninfo, folder)
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(leave, folder)


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
