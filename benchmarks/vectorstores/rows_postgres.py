"""The PostgreSQL store beside raw SQL over its own table."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.timing import Here, Side, Together, in_turn, median, ratios, stalls
from benchmarks.vectorstores import raw_postgres as raw
from benchmarks.vectorstores.lines import Amount, Bound, Line, Run, single
from benchmarks.vectorstores.rows_search import NAMESPACE, fill, recall_of, searching
from benchmarks.vectorstores.vectors import DECLARED, SHARES, Corpus, exact, no_embedder
from vectorstores import Store, open_store

if TYPE_CHECKING:
    from vectorstores.base import Filter

SECTION: Final = "PostgreSQL"
_PATIENCE: Final = 2.0
"""Seconds that a repetition may take: where a call is slow, fewer are made."""
_FEWEST: Final = 5


async def postgres_lines(run: Run, corpus: Corpus, n: int, conninfo: str) -> None:
    """Load ``n`` rows of a corpus into an empty database; time searches at 1 and many at a time, and more loading."""
    part = corpus.first(n)
    async with (
        open_store(conninfo, embedder=no_embedder(corpus.vectors.shape[1]), namespace=NAMESPACE) as store,
        raw.raw_pool(conninfo) as pool,
    ):
        await store.count()  # makes the tables
        definition = await raw.drop_vector_index(pool)
        seconds = await fill(run, store, part, f"pgvector load {n:,}")
        note = f"{seconds:.1f} s; the index of vectors was made afterwards, in "
        started = time.perf_counter()
        await raw.make_vector_index(pool, definition, n)
        note += f"{time.perf_counter() - started:.1f} s"
        run.add(Line(SECTION, f"load {n:,} without its index", single(n / seconds, "per s"), note=note))
        await _search(run, store, pool, part, None)
        for value in SHARES:
            await _search(run, store, pool, part, value)
        await _bulk(run, store, pool, corpus, n)


async def _search(run: Run, store: Store, pool: raw.Pool, corpus: Corpus, value: str | None) -> None:
    n, settings = len(corpus), run.settings
    where: Filter | None = None if value is None else {DECLARED: value}
    truth = exact(corpus, None if value is None else corpus.labels[DECLARED] == value)
    key = None if value is None else DECLARED
    statement, share_of_raw = await raw.best_statement(pool, corpus, NAMESPACE, truth, key=key, value=value)
    bare, _ = raw.searching(pool, statement, corpus, NAMESPACE, value)
    call, found = searching(store, corpus, where)
    started = time.perf_counter()
    share = await recall_of(call, found, truth)
    most = round(_PATIENCE * len(truth) / (time.perf_counter() - started))
    calls = max(min(settings.calls, most), min(settings.calls, _FEWEST))
    what = f"search {n:,}" + ("" if value is None else f", filter {SHARES[value]:.0%}")
    note = f"raw: {statement.name}, recall {share_of_raw:.4f}"
    if calls < settings.calls:
        note += f"; {calls} calls a repetition"
    against = "raw prepared statement"
    sides: dict[str, Side] = {"ours": Here(call), "control": Here(bare)}
    taken = await in_turn(sides, repetitions=settings.repetitions, calls=calls)
    ours, beside = Amount(median(taken["ours"]), "ms"), Amount(median(taken["control"]), "ms")
    ratio = Amount(ratios(taken["ours"], taken["control"]), "times")
    run.add(Line(SECTION, f"{what}, 1 at a time", ratio, Bound("at most", 1.3), ours, beside, against, note))
    crowd: dict[str, Side] = {
        "ours": Together(call, settings.searchers),
        "control": Together(bare, settings.searchers),
    }
    calls = max(settings.searchers, min(max(settings.calls, 4 * settings.searchers), most))
    together = await in_turn(crowd, repetitions=settings.repetitions, calls=calls)
    rates = [Amount(median([1 / each for each in together[name]]), "per s") for name in ("ours", "control")]
    ratio = Amount(ratios(together["ours"], together["control"]), "times")
    many = f"{what}, {settings.searchers} at a time"
    run.add(
        Line(SECTION, many, ratio, Bound("at most", 1.3), rates[0], rates[1], against, "time; searches per s")
    )
    run.add(Line(SECTION, f"{what}, recall@5", single(share, "share"), Bound("at least", raw.ENOUGH)))
    run.stalled(await stalls(f"pgvector {what}", call, seconds=settings.window))


def bulk_rows(run: Run) -> int:
    """Return how many rows the loads take beyond those that are there."""
    return 2 * _loads(run) * run.settings.bulk


def _loads(run: Run) -> int:
    # Each takes seconds: the index is what a load costs.
    return min(run.settings.repetitions, 7)


async def _bulk(run: Run, store: Store, pool: raw.Pool, corpus: Corpus, n: int) -> None:
    """Load more rows, by the store and by a raw COPY of as many, into the one table."""
    size, repetitions = run.settings.bulk, _loads(run)
    taken: dict[str, list[float]] = {"ours": [], "control": []}
    place = n
    for repetition in range(repetitions):
        chunks = [corpus.chunk(at) for at in range(place, place + size)]
        statement, data = await raw.copy_bytes(pool, corpus, range(place + size, place + 2 * size), "raw")
        place += 2 * size

        pair: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            ("ours", partial(store.add, chunks)),
            ("control", partial(raw.copy_in, pool, statement, data)),
        ]
        for name, load in pair if repetition % 2 == 0 else reversed(pair):
            started = time.perf_counter()
            await load()
            taken[name].append(time.perf_counter() - started)
    share = Amount(ratios(taken["control"], taken["ours"]), "share")
    rates = [Amount(median([size / each for each in taken[name]]), "per s") for name in ("ours", "control")]
    what = f"bulk load of {size:,} rows into {n:,}"
    run.add(
        Line(
            SECTION, what, share, Bound("at least", 0.6), rates[0], rates[1], "raw binary COPY", "rows per s"
        )
    )
