"""Single durable writes and deletes of the FAISS store, beside bare SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from benchmarks.timing import Here, Side, Together, in_turn, median, ratios, stalls
from benchmarks.vectorstores.lines import Amount, Bound, Line, Run
from benchmarks.vectorstores.rows_search import SECTION, searching
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


def bare_commits(connection: sqlite3.Connection, corpus: Corpus, *, aside: bool = False) -> Call:
    """Return a call that commits one row, durable, to a table without an index; ``aside`` in a worker thread.

    Its rows are made beforehand.
    """
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

    def commit(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO rows (id, content, metadata, vector) VALUES (?, ?, ?, ?)", rows[number]
        )
        connection.execute("COMMIT")

    async def call(number: int) -> None:
        if aside:
            await anyio.to_thread.run_sync(commit, number)
        else:
            commit(number)

    return call


@contextmanager
def bare_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that worker threads may use too, and close it."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


async def _empty(_: int) -> None:
    await anyio.to_thread.run_sync(_nothing)


def _nothing() -> None:
    """What a thread is asked for when only the asking is timed."""


async def add_lines(run: Run, store: Store, fresh: Corpus, folder: Path, size: int) -> None:
    """Time adding rows one by one, and many writers at once, in a store of ``size`` rows that is being searched.

    ``fresh`` are rows whose ids are not in the store, in its first part those of the store.
    """
    settings = run.settings
    chunks = {number: fresh.chunk(number) for number in range(size, len(fresh))}

    async def add(number: int) -> None:
        await store.add([chunks[number]])

    with (
        bare_database(folder / "bare.sqlite3") as connection,
        bare_database(folder / "aside.sqlite3") as other,
    ):
        bare = bare_commits(connection, fresh)
        aside = Here(bare_commits(other, fresh, aside=True))
        plain: dict[str, Side] = {
            "ours": Here(add),
            "control": Here(bare),
            "aside": aside,
            "empty": Here(_empty),
        }
        taken = await in_turn(plain, repetitions=settings.repetitions, calls=settings.calls, first=size)
        _single_lines(run, taken, size)
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


def _single_lines(run: Run, taken: Mapping[str, Sequence[float]], size: int) -> None:
    ours, beside = Amount(median(taken["ours"]), "ms"), Amount(median(taken["control"]), "ms")
    against, what = "bare SQLite commit", f"durable single add, {size:,} rows there"
    ratio = Amount(ratios(taken["ours"], taken["control"]), "times")
    run.add(Line(SECTION, what, ratio, Bound("at most", 1.5), ours, beside, against, "same row, same folder"))
    free = "same row, same folder; bare, too, while the event loop goes on"
    ratio, beside = (
        Amount(ratios(taken["ours"], taken["aside"]), "times"),
        Amount(median(taken["aside"]), "ms"),
    )
    run.add(Line(SECTION, what, ratio, None, ours, beside, "bare SQLite commit in a worker thread", free))
    empty, bare = Amount(median(taken["empty"]), "ms"), Amount(median(taken["control"]), "ms")
    ratio = Amount(ratios(taken["empty"], taken["control"]), "times")
    what = "a call to a worker thread and back, nothing done in it"
    run.add(
        Line(SECTION, what, ratio, None, empty, bare, against, "what keeping the event loop free takes here")
    )


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
    rates = {name: Amount(median([1 / each for each in taken[name]]), "per s") for name in sides}
    what = f"{settings.writers} concurrent writers"
    beside = {
        "control": ("bare SQLite commit", "rate of bare commits, one after the other"),
        "single": ("single add", "rate of the store's own adds, one after the other"),
    }
    for name, (against, note) in beside.items():
        faster = Amount(ratios(taken[name], taken["ours"]), "times")
        run.add(
            Line(SECTION, what, faster, Bound("at least", 5.0), rates["ours"], rates[name], against, note)
        )
    return first + 2 * span


def rows_needed(run: Run, size: int) -> int:
    """Return how many rows :func:`add_lines` draws on, those of the store included."""
    settings = run.settings
    crowd = 2 * _CROWD * max(settings.calls, settings.writers)
    return size + (settings.repetitions + 1) * (2 * settings.calls + crowd) + 1_000


async def delete_lines(run: Run, store: Store, corpus: Corpus) -> None:
    """Time deleting one row of many while others search, and those searches beside undisturbed ones."""
    n, settings = len(corpus), run.settings
    call, _ = searching(store, corpus)
    alone: list[float] = []
    beside: list[float] = []
    deletes: list[float] = []
    place = 0
    for repetition in range(settings.repetitions + 1):
        quiet = await Here(call).burst(range(settings.calls))
        disturbed: list[float] = []
        taken: list[float] = []

        async def search(disturbed: list[float] = disturbed) -> None:
            while True:
                disturbed += await Here(call).burst([len(disturbed)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            for _ in range(settings.calls):
                started = time.perf_counter()
                await store.delete([identity(place)])
                taken.append(time.perf_counter() - started)
                # As lessons are deleted: now and then, among searches.
                await anyio.sleep(0.002)
                place += 1
            tasks.cancel_scope.cancel()
        if repetition:
            deletes.append(median(taken).value)
            alone.append(median(quiet).value)
            beside.append(median(disturbed or [float("inf")]).value)
    what = f"delete one of {n:,}, searches going on"
    found = Amount(median(deletes), "ms")
    run.add(Line(SECTION, what, found, Bound("under", 0.005)))
    ratio = Amount(ratios(beside, alone), "times")
    searched = Amount(median(beside), "ms")
    run.add(
        Line(
            SECTION,
            f"search {n:,} while rows are deleted",
            ratio,
            None,
            searched,
            Amount(median(alone), "ms"),
            "no deletes",
        )
    )

    async def delete(number: int) -> None:
        await store.delete([identity((place + number) % n)])

    run.stalled(await stalls(f"delete one of {n:,}", delete, seconds=settings.window))
