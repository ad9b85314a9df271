"""``python -m benchmarks.vectorstores.moves``: the index of a move to another embedder beside a plain CREATE INDEX.

Each pair moves the table once and builds a bare index on a copy of the new column, with the same settings. What a move
takes behind its last vector is its index, the rows written meanwhile, and the exchange. A client searches throughout.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
import numpy as np
import psycopg

from benchmarks.report import machine
from benchmarks.timing import median, ratios
from benchmarks.vectorstores.search import fill
from benchmarks.vectorstores.vectors import NAMESPACE, NEAREST, Corpus, clustered
from vectorstores import EmbedderMismatchError, Reembedding, open_store, reembed
from vectorstores.postgres.embedded import embedded_conninfo, leave

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vectorstores.base import FloatArray

_INDEX = b"CREATE INDEX %s ON %s USING hnsw (%s vector_ip_ops)"


class _Rotated:
    """Embeds the texts of a corpus as its vectors, their components moved on by ``turn``."""

    max_tokens = None

    def __init__(self, corpus: Corpus, turn: int) -> None:
        self.id, self.dim = f"rotated-{turn}", corpus.dim
        self._vectors = np.roll(corpus.vectors, turn, axis=1)
        self._places = {corpus.chunk(place).content: place for place in range(len(corpus))}

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        vectors: FloatArray = self._vectors[[self._places[text] for text in texts]]
        return vectors


@click.command()
@click.option("--rows", default=30_000, show_default=True)
@click.option("--pairs", default=3, show_default=True)
@click.option("--memory", default="1GB", show_default=True, help="maintenance_work_mem")
@click.option("--workers", default=1, show_default=True, help="max_parallel_maintenance_workers")
def main(*, rows: int, pairs: int, memory: str, workers: int) -> None:
    """Print the seconds of each pair, their ratio, and what searches took meanwhile, as JSON."""
    with tempfile.TemporaryDirectory(prefix="moves-", dir="/var/tmp") as scratch:
        Path(scratch).chmod(0o711)  # started by root, the server runs under another account
        folder = Path(scratch) / "server"
        try:
            server = embedded_conninfo(folder)
            anyio.run(_measure, server, clustered(rows, 100), pairs, (memory, workers))
        finally:
            leave(folder)


async def _measure(server: str, corpus: Corpus, pairs: int, settings: tuple[str, int]) -> None:
    fills, moves, plain, searches = [], [], [], []
    async with await psycopg.AsyncConnection[Any].connect(server, autocommit=True) as bare:
        for name, value in zip(
            ("maintenance_work_mem", "max_parallel_maintenance_workers"), settings, strict=True
        ):
            await bare.execute(
                f"ALTER DATABASE postgres SET {name} = '{value}'; SET {name} = '{value}'".encode()
            )
        async with open_store(server, embedder=_Rotated(corpus, 0), namespace=NAMESPACE) as store:
            await store.count()  # makes the tables
            await bare.execute("DROP INDEX vectorstores.chunks_by_vector_1")
            await fill(store, corpus)
        await bare.execute(_INDEX % (b"chunks_by_vector_1", b"vectorstores.chunks", b"vector_1"))
        for turn in range(1, pairs + 1):
            filling, building, taken = await _move(server, corpus, turn)
            fills.append(filling)
            moves.append(building)
            searches += taken
            column = f"vector_{turn + 1}".encode()
            await bare.execute(b"CREATE TABLE copy AS SELECT %s FROM vectorstores.chunks" % column)
            started = time.perf_counter()
            await bare.execute(_INDEX % (b"copied", b"copy", column))
            plain.append(time.perf_counter() - started)
            await bare.execute(b"DROP TABLE copy")
    of = ratios(moves, plain)
    figures = {
        "machine": machine(),
        "rows": len(corpus),
        "maintenance_work_mem, workers": settings,
        "seconds of a move behind its last vector": moves,
        "seconds of CREATE INDEX": plain,
        "ratio": [of.value, of.low, of.high],
        "ms a row to fill the column": [1000 * each / len(corpus) for each in fills],
        "searches during the builds": len(searches),
        "ms of these, median and longest": [1000 * median(searches).value, 1000 * max(searches)],
    }
    click.echo(json.dumps(figures, indent=1))


async def _move(server: str, corpus: Corpus, turn: int) -> tuple[float, float, list[float]]:
    """Move the store; return the seconds up to the last vector, those after it, and those of each search then."""
    filled = started = time.perf_counter()
    searches: list[tuple[float, float]] = []

    def on_progress(_: Reembedding) -> None:
        nonlocal filled
        filled = time.perf_counter()

    async def search() -> None:
        queries = np.roll(corpus.queries, turn - 1, axis=1)
        async with open_store(server, embedder=_Rotated(corpus, turn - 1), namespace=NAMESPACE) as store:
            with suppress(EmbedderMismatchError):  # the end of the move
                while True:
                    before = time.perf_counter()
                    await store.search(queries[len(searches) % len(queries)], k=NEAREST)
                    searches.append((before, time.perf_counter() - before))
                    await anyio.sleep(0.1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        await reembed(server, embedder=_Rotated(corpus, turn), on_progress=on_progress)
        ended = time.perf_counter()
    return filled - started, ended - filled, [taken for before, taken in searches if before > filled]


if __name__ == "__main__":
    main()
