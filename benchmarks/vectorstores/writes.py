"""Measures durable writes and deletes of the folder store, compared with bare SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks.timing import Here, Side, Together, in_turn, median
from benchmarks.vectorstores.lines import Line, Run, milliseconds
from benchmarks.vectorstores.search import STORE, searching
from benchmarks.vectorstores.vectors import Corpus, identity
from vectorstores import Store

if TYPE_CHECKING:
    from benchmarks.timing import Call

_TABLE: Final = (
    "CREATE TABLE rows (row INTEGER PRIMARY KEY, id TEXT NOT NULL, content TEXT NOT NULL, metadata TEXT NOT NULL,"
    " vector BLOB NOT NULL) STRICT"
)
# Rounds of the writers in a repetition.
_CROWD: Final = 4
_BARE: Final = "bare SQLite commit"


def bare_commits(connection: sqlite3.Connection, corpus: Corpus) -> Call:
    """Return a call that durably commits one row to a table without an index."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE)

    async def call(number: int) -> None:
        chunk = corpus.chunk(number)
        row = (chunk.id, chunk.content, json.dumps(chunk.metadata, separators=(",", ":")), chunk.vector)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (id, content, metadata, vector) VALUES (?, ?, ?, ?)", row)
        connection.execute("COMMIT")

    return call


async def add_lines(run: Run, store: Store, corpus: Corpus, folder: Path) -> None:
    """Time single adds and concurrent writers, in a store that holds the corpus and has been searched."""
    settings, n = run.settings, len(corpus)

    async def add(number: int) -> None:
        await store.add([corpus.chunk(number)])

    with closing(sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)) as connection:
        bare = bare_commits(connection, corpus)
        sides: dict[str, Side] = {"ours": Here(add), "control": Here(bare)}
        taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls, first=n)
        name, both = (STORE, f"durable single add, {n:,} rows there"), (taken["ours"], taken["control"])
        run.compare(name, both, _BARE, "times", 1.5, "same row, same folder")
        first = n + (settings.repetitions + 1) * settings.calls
        calls = _CROWD * max(settings.calls, settings.width)
        span = (settings.repetitions + 1) * calls
        # All sides count whole bursts, so that occasional slow calls count too.
        crowd: dict[str, Side] = {
            "ours": Together(add, settings.width),
            _BARE: Together(bare, 1),
            "the store's own single add": Together(lambda number: add(number + span), 1),
        }
        taken = await in_turn(crowd, repetitions=settings.repetitions, calls=calls, first=first)
    note = "time of one of many at once; beside, one after the other"
    for against in list(crowd)[1:]:
        name, both = (STORE, f"{settings.width} concurrent writers"), (taken["ours"], taken[against])
        run.compare(name, both, against, "times faster", 5.0, note)


async def delete_lines(run: Run, store: Store, corpus: Corpus) -> None:
    """Time deleting one row of many while others search."""
    settings = run.settings
    call, _ = searching(store, corpus)
    deletes: list[float] = []
    numbers = count()

    async def search() -> None:
        for number in count():
            await call(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        for _ in range(settings.repetitions):
            taken: list[float] = []
            for _ in range(settings.calls):
                started = time.perf_counter()
                await store.delete([identity(next(numbers))])
                taken.append(time.perf_counter() - started)
                # Lessons are deleted now and then, among searches.
                await anyio.sleep(0.002)
            deletes.append(median(taken).value)
        tasks.cancel_scope.cancel()
    what = f"delete one of {len(corpus):,}, searches going on"
    run.add(Line(STORE, what, median(milliseconds(deletes)), "ms", at_most=5.0))
