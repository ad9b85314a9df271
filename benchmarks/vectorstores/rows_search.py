"""Searches in the FAISS store: beside a bare product and exact FAISS."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.timing import (
    Here,
    Side,
    differences,
    in_turn,
    median,
    ratios,
    stalls,
    stalls_of,
)
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
_GROUP: Final = 10
_SETTLED: Final = 5


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


async def settle(store: Store, corpus: Corpus, *, quiet: float = 0.5, patience: float = 300.0) -> float:
    """Search until that is as quick as it gets; return how long after the start searches were last slow.

    That is when an index which is built in the background is in use, as a caller sees it. Slow are ten searches in
    a row whose median is more than 1.5 times that of the last fifty.
    """
    started = time.perf_counter()
    groups: list[tuple[float, float]] = []
    while True:
        taken = []
        for number in range(len(groups) * _GROUP, (len(groups) + 1) * _GROUP):
            before = time.perf_counter()
            await store.search(corpus.queries[number % len(corpus.queries)], k=NEAREST)
            taken.append(time.perf_counter() - before)
        now = time.perf_counter() - started
        groups.append((now, float(np.median(taken))))
        usual = float(np.median([each for _, each in groups[-_SETTLED:]]))
        last = max((at for at, each in groups if each > 1.5 * usual), default=0.0)
        if (len(groups) >= _SETTLED and now - last > max(quiet, last / 2)) or now > patience:
            return last


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


def bare_product(corpus: Corpus, rows: int) -> Call:
    """Return the product of all vectors with a query, so many rows at a time, and nothing else."""
    blocks = [corpus.vectors[start : start + rows] for start in range(0, len(corpus), rows)]

    async def call(number: int) -> None:
        query = corpus.queries[number % len(corpus.queries)]
        for block in blocks:
            _ = block @ query

    return call


def controls(corpus: Corpus) -> tuple[str, dict[str, Side]]:
    """Return what a search of this size is held against; where there are several, the quickest counts."""
    if len(corpus) > BARE:
        return "exact IndexFlatIP, 1 thread", {"control": Here(exact_search(corpus))}
    # Whole, numpy takes several threads for it, which wait for each other on a busy machine; in blocks, it takes one.
    sizes = {"control": len(corpus), "blocks": _BLOCK}
    return "bare numpy product", {name: Here(bare_product(corpus, rows)) for name, rows in sizes.items()}


async def search_lines(run: Run, store: Store, corpus: Corpus) -> None:
    """Time unfiltered searches of one size, and count what they find."""
    n, settings = len(corpus), run.settings
    call, found = searching(store, corpus)
    against, held = controls(corpus)
    sides: dict[str, Side] = {"ours": Here(call), **held}
    taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls)
    control = min((taken[name] for name in held), key=lambda each: median(each).value)
    truth = exact(corpus)
    share = await recall_of(call, found, truth)
    ours, beside = Amount(median(taken["ours"]), "ms"), Amount(median(control), "ms")
    what = f"search {n:,}, whole call"
    if n <= BARE:
        over = Amount(differences(taken["ours"], control), "ms")
        run.add(Line(SECTION, what, over, Bound("at most", 0.0003), ours, beside, against, "difference"))
    else:
        faster = Amount(ratios(control, taken["ours"]), "times")
        limit = Bound("at least", 5.0 if n <= 100_000 else 12.0)
        run.add(Line(SECTION, what, faster, limit, ours, beside, against, "times faster"))
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
            first = time.perf_counter() - started
            sides: dict[str, Side] = {"ours": Here(call), "control": Here(control)}
            taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls)
            truth = exact(corpus, corpus.labels[key] == value)
            share = await recall_of(call, found, truth)
            declared = "declared" if key == DECLARED else "undeclared"
            what = f"search {n:,}, filter {portion:.0%} on a key that is {declared}"
            ours, beside = Amount(median(taken["ours"]), "ms"), Amount(median(taken["control"]), "ms")
            ratio = Amount(ratios(taken["ours"], taken["control"]), "times")
            bound = Bound("at most", 1.0) if key == DECLARED else None
            note = f"unfiltered exact; the first such search took {single(first, 'ms')}"
            run.add(Line(SECTION, what, ratio, bound, ours, beside, "exact IndexFlatIP, 1 thread", note))
            run.add(Line(SECTION, f"{what}, recall@5", single(share, "share"), Bound("at least", 1.0)))
            run.stalled(await stalls(f"{what}", call, seconds=settings.window))
