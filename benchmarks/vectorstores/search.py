"""Loading, searching and opening the folder store, beside a bare product and exact FAISS."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import numpy as np

from benchmarks.timing import Here, Side, in_turn, median, stalls, stalls_of
from benchmarks.vectorstores.lines import Amount, Bound, Line, Run, single
from benchmarks.vectorstores.vectors import (
    DECLARED,
    NEAREST,
    SHARES,
    UNDECLARED,
    Corpus,
    exact,
    no_embedder,
    recall,
)
from vectorstores import Chunk, Store, open_store

if TYPE_CHECKING:
    from benchmarks.timing import Call
    from vectorstores.base import Filter

SECTION: Final = "FAISS"
NAMESPACE: Final = "benchmark"
# Above this size, exact FAISS is what a search is held against; up to it, a bare numpy product.
BARE: Final = 10_000
_PART: Final = 50_000
_BLOCK: Final = 1_000
_OPENINGS: Final = 5
_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT: Final = 300.0


def open_at(folder: Path, dim: int) -> Store:
    """Return the store in a folder, for vectors that the caller brings."""
    return open_store(folder, embedder=no_embedder(dim), namespace=NAMESPACE)


async def fill(run: Run, store: Store, corpus: Corpus, name: str) -> float:
    """Add all rows of a corpus, watching the event loop for the first of them; return the seconds."""
    total = 0.0
    for start in range(0, len(corpus), _PART):
        # Made before the clock starts: they are the caller's.
        batches = list(corpus.batches(start, min(start + _PART, len(corpus))))

        async def work(batches: Sequence[Sequence[Chunk]] = batches) -> None:
            for batch in batches:
                await store.add(batch)

        started = time.perf_counter()
        if start == 0:
            _, stall = await stalls_of(name, work, seconds=run.settings.window)
            run.stalled(stall)
            total += time.perf_counter() - started - 2 * run.settings.window
        else:
            await work()
            total += time.perf_counter() - started
    return total


async def settle(store: Store, corpus: Corpus, *, quiet: float = 1.0, patience: float = 300.0) -> None:
    """Search until that has been as quick as it gets for ``quiet`` seconds: then the index made meanwhile is in use."""
    started = last = time.perf_counter()
    best = float("inf")
    while (now := time.perf_counter()) - last < quiet and now - started < patience:
        await store.search(corpus.queries[0], k=NEAREST)
        taken = time.perf_counter() - now
        if taken < 0.7 * best:
            best, last = taken, now


def searching(store: Store, corpus: Corpus, where: Filter | None = None) -> tuple[Call, dict[int, list[str]]]:
    """Return a call that searches for the query of its number, and where the ids go that it finds."""
    found: dict[int, list[str]] = {}

    async def call(number: int) -> None:
        place = number % len(corpus.queries)
        hits = await store.search(corpus.queries[place], k=NEAREST, filter=where)
        found[place] = [hit.chunk.id for hit in hits]

    return call, found


async def recall_of(call: Call, found: dict[int, list[str]], truth: Sequence[Sequence[int]]) -> float:
    """Return the share of the true nearest rows that a call finds, over all queries."""
    for number in range(len(truth)):
        await call(number)
    return recall([found[place] for place in range(len(truth))], truth)


def exact_search(corpus: Corpus) -> Call:
    """Return a search of exact FAISS in one thread, in memory, without texts."""
    import faiss  # noqa: PLC0415 - optional: the command says so where it is missing

    index = faiss.IndexFlatIP(corpus.vectors.shape[1])
    index.add(corpus.vectors)

    async def call(number: int) -> None:
        faiss.omp_set_num_threads(1)
        index.search(corpus.queries[number % len(corpus.queries)][np.newaxis], NEAREST)

    return call


def bare_product(corpus: Corpus) -> Call:
    """Return the product of all vectors with a query, in blocks for which numpy takes one thread, and nothing else."""
    blocks = [corpus.vectors[start : start + _BLOCK] for start in range(0, len(corpus), _BLOCK)]

    async def call(number: int) -> None:
        query = corpus.queries[number % len(corpus.queries)]
        for block in blocks:
            _ = block @ query

    return call


async def search_lines(run: Run, store: Store, corpus: Corpus) -> None:
    """Time unfiltered searches of one size, and count what they find."""
    n, settings = len(corpus), run.settings
    call, found = searching(store, corpus)
    small = n <= BARE
    control = bare_product(corpus) if small else exact_search(corpus)
    sides: dict[str, Side] = {"ours": Here(call), "control": Here(control)}
    taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls)
    both = (taken["ours"], taken["control"])
    share = await recall_of(call, found, exact(corpus))
    name = (SECTION, f"search {n:,}, whole call")
    if small:
        run.compare(name, both, "bare numpy product", Bound("at most", 0.0003), kind="difference")
    else:
        bound = Bound("at least", 5.0 if n <= 100_000 else 8.0)
        run.compare(name, both, "exact IndexFlatIP, 1 thread", bound, kind="times faster")
    run.add(Line(SECTION, f"search {n:,}, recall@5", single(share, "share"), Bound("at least", 0.99)))
    run.stalled(await stalls(f"search {n:,}", call, seconds=settings.window))


async def filter_lines(run: Run, store: Store, corpus: Corpus) -> None:
    """Time filtered searches on a declared and on an undeclared key, and count what they find."""
    n, settings = len(corpus), run.settings
    control = exact_search(corpus)
    for key in (DECLARED, UNDECLARED):
        for value, portion in SHARES.items():
            where: Filter = {key: value}
            call, found = searching(store, corpus, where)
            started = time.perf_counter()
            await call(0)
            note = (
                f"unfiltered exact; the first such search took {single(time.perf_counter() - started, 'ms')}"
            )
            sides: dict[str, Side] = {"ours": Here(call), "control": Here(control)}
            taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls)
            share = await recall_of(call, found, exact(corpus, corpus.labels[key] == value))
            declared = "declared" if key == DECLARED else "undeclared"
            what = f"search {n:,}, filter {portion:.0%} on a key that is {declared}"
            bound = Bound("at most", 1.0) if key == DECLARED else None
            against = "exact IndexFlatIP, 1 thread"
            run.compare((SECTION, what), (taken["ours"], taken["control"]), against, bound, note=note)
            run.add(Line(SECTION, f"{what}, recall@5", single(share, "share"), Bound("at least", 1.0)))
            run.stalled(await stalls(what, call, seconds=settings.window))


async def open_lines(run: Run, corpus: Corpus, folder: Path) -> None:
    """Time opening and a first search in fresh processes, and what they hold in memory."""
    n, dim = len(corpus), corpus.vectors.shape[1]
    queries = run.folder / "open-queries.npy"
    np.save(queries, corpus.queries)
    # One that is not counted: the first process after the store was made may have a snapshot to write.
    await child("open", folder, queries, dim)
    openings = range(min(_OPENINGS, run.settings.repetitions))
    taken = [float((await child("open", folder, queries, dim))["seconds"]) for _ in openings]
    what, bound = f"open {n:,} with a snapshot, first search answered", 0.5 if n <= 100_000 else 3.0
    note = "fresh process, FAISS not yet loaded"
    run.add(Line(SECTION, what, Amount(median(taken), "s"), Bound("at most", bound), note=note))
    grown = await child("memory", folder, queries, dim)
    private, file = grown["private"] / n, grown["file"] / n
    what = f"memory per lesson at {n:,}, beyond its raw vector"
    note = f"private {private:,.0f}, mapped from files {file:,.0f}, raw vector {4 * dim:,} bytes"
    beyond = single(beyond_raw(4 * n * dim, grown) / n, "bytes")
    run.add(Line(SECTION, what, beyond, Bound("at most", 1_000.0) if n <= 100_000 else None, note=note))

    async def opening() -> None:
        async with open_at(folder, dim) as store:
            await store.search(corpus.queries[0], k=NEAREST)

    _, stall = await stalls_of(f"open {n:,}, first search", opening, seconds=run.settings.window)
    run.stalled(stall)


def beyond_raw(raw: int, grown: Mapping[str, int]) -> int:
    """Return what was taken beyond the raw vectors, wherever these lie.

    Vectors that are mapped are read in as they are needed: what is not resident of them is not given as credit.
    """
    private, file = grown["private"], grown["file"]
    return private + file - raw if private >= raw else private + max(0, file - raw)


async def child(what: str, folder: Path, queries: Path, dim: int) -> dict[str, Any]:
    """Run :mod:`benchmarks.vectorstores.child` and return what it says."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.vectorstores.child",
        what,
        str(folder),
        str(queries),
        str(dim),
    ]
    with anyio.fail_after(_TIMEOUT):
        said: dict[str, Any] = json.loads((await anyio.run_process(command, cwd=_ROOT)).stdout)
    return said
