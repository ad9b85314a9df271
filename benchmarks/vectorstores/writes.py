"""Single durable writes and deletes of the folder store, beside bare SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks.timing import Here, Side, Together, in_turn, median, stalls
from benchmarks.vectorstores.lines import Amount, Bound, Line, Run
from benchmarks.vectorstores.search import SECTION, searching
from benchmarks.vectorstores.vectors import Corpus, identity, text
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
    """Return a call that commits one row, durable, to a table without an index. Its rows are made beforehand."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE)
    rows = [
        (
            identity(number),
            text(number),
            json.dumps(corpus.metadata(number), separators=(",", ":")),
            corpus.vectors[number],
        )
        for number in range(len(corpus))
    ]

    async def call(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO rows (id, content, metadata, vector) VALUES (?, ?, ?, ?)", rows[number]
        )
        connection.execute("COMMIT")

    return call


async def add_lines(run: Run, store: Store, fresh: Corpus, folder: Path, size: int) -> None:
    """Time adding rows one by one, and many writers at once, in a store of ``size`` rows that is being searched.

    ``fresh`` are rows whose ids are not in the store, in its first part those of the store.
    """
    settings = run.settings
    chunks = {number: fresh.chunk(number) for number in range(size, len(fresh))}

    async def add(number: int) -> None:
        await store.add([chunks[number]])

    with closing(sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)) as connection:
        bare = bare_commits(connection, fresh)
        sides: dict[str, Side] = {"ours": Here(add), "control": Here(bare)}
        taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls, first=size)
        run.compare(
            (SECTION, f"durable single add, {size:,} rows there"),
            (taken["ours"], taken["control"]),
            _BARE,
            Bound("at most", 1.5),
            note="same row, same folder",
        )
        first = await _crowd_lines(run, add, bare, size + (settings.repetitions + 1) * settings.calls)

    async def again(number: int) -> None:
        # Over again at the end: what is added then replaces its like.
        await add(first + number % (len(fresh) - first))

    run.stalled(await stalls("single add", again, seconds=settings.window))

    async def crowded(number: int) -> None:
        await Together(again, settings.writers).burst(
            range(number * settings.writers, (number + 1) * settings.writers)
        )

    run.stalled(await stalls(f"{settings.writers} concurrent adds", crowded, seconds=settings.window))


async def _crowd_lines(run: Run, add: Call, bare: Call, first: int) -> int:
    """Time many writers at once beside bare commits and beside adds one by one; return the first free number."""
    settings = run.settings
    calls = _CROWD * max(settings.calls, settings.writers)
    span = (settings.repetitions + 1) * calls
    # Rates are those of whole bursts on every side: what a call now and then takes longer counts for all.
    sides: dict[str, Side] = {
        "ours": Together(add, settings.writers),
        "control": Together(bare, 1),
        "single": Together(lambda number: add(number + span), 1),
    }
    taken = await in_turn(sides, repetitions=settings.repetitions, calls=calls, first=first)
    name = (SECTION, f"{settings.writers} concurrent writers")
    for side, against in (("control", _BARE), ("single", "the store's own single add")):
        run.compare(
            name,
            (taken["ours"], taken[side]),
            against,
            Bound("at least", 5.0),
            kind="times faster",
            note="time of one of many at once; beside, one after the other",
        )
    return first + 2 * span


def rows_needed(run: Run, size: int) -> int:
    """Return how many rows :func:`add_lines` draws on, those of the store included."""
    settings = run.settings
    crowd = 2 * _CROWD * max(settings.calls, settings.writers)
    return size + (settings.repetitions + 1) * (2 * settings.calls + crowd) + 1_000


async def delete_lines(run: Run, store: Store, corpus: Corpus) -> None:
    """Time deleting one row of many while others search."""
    n, settings = len(corpus), run.settings
    call, _ = searching(store, corpus)
    deletes: list[float] = []
    place = 0

    async def search() -> None:
        for number in count():
            await call(number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        for _ in range(settings.repetitions):
            taken: list[float] = []
            for _ in range(settings.calls):
                started = time.perf_counter()
                await store.delete([identity(place)])
                taken.append(time.perf_counter() - started)
                # As lessons are deleted: now and then, among searches.
                await anyio.sleep(0.002)
                place += 1
            deletes.append(median(taken).value)
        tasks.cancel_scope.cancel()
    what = f"delete one of {n:,}, searches going on"
    run.add(Line(SECTION, what, Amount(median(deletes), "ms"), Bound("at most", 0.005)))

    async def delete(number: int) -> None:
        await store.delete([identity((place + number) % n)])

    run.stalled(await stalls(f"delete one of {n:,}", delete, seconds=settings.window))
