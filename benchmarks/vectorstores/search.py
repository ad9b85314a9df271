"""Measures loading, searching and opening the folder store, compared with a bare product and exact FAISS."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import numpy as np

from benchmarks.timing import Here, Side, in_turn, median
from benchmarks.vectorstores.lines import Line, Run
from benchmarks.vectorstores.vectors import KEY, NEAREST, SHARES, Corpus, exact, recall
from vectorstores import Store

if TYPE_CHECKING:
    from benchmarks.timing import Call
    from vectorstores.base import Filter

STORE: Final = "FAISS"
# Up to this size, a search is compared with a bare numpy product, above it with exact FAISS.
_BARE: Final = 10_000
_BATCH: Final = 5_000
_BLOCK: Final = 1_000
_OPENINGS: Final = 5
_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT: Final = 300.0


async def fill(store: Store, corpus: Corpus) -> float:
    """Add all rows of a corpus, and return the seconds that the store took."""
    total = 0.0
    for first in range(0, len(corpus), _BATCH):
        # Chunks are made before the clock starts.
        batch = [corpus.chunk(number) for number in range(first, min(first + _BATCH, len(corpus)))]
        started = time.perf_counter()
        await store.add(batch)
        total += time.perf_counter() - started
    return total


async def settle(store: Store, corpus: Corpus, *, quiet: float = 1.0, patience: float = 300.0) -> None:
    """Search until searches have not become faster for ``quiet`` seconds: then the index is built and in use."""
    started = last = time.perf_counter()
    best = float("inf")
    while (now := time.perf_counter()) - last < quiet and now - started < patience:
        await store.search(corpus.queries[0], k=NEAREST)
        taken = time.perf_counter() - now
        if taken < 0.7 * best:
            best, last = taken, now


def searching(store: Store, corpus: Corpus, where: Filter | None = None) -> tuple[Call, dict[int, list[str]]]:
    """Return a call that searches for the query with its number, and the dict that collects the ids."""
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
    import faiss  # noqa: PLC0415 - optional: the command says so if it is missing

    index = faiss.IndexFlatIP(corpus.dim)
    index.add(corpus.vectors)

    async def call(number: int) -> None:
        faiss.omp_set_num_threads(1)
        index.search(corpus.queries[number % len(corpus.queries)][np.newaxis], NEAREST)

    return call


def bare_product(corpus: Corpus) -> Call:
    """Return a call that only multiplies all vectors by a query, in blocks for which numpy uses one thread."""
    blocks = [corpus.vectors[start : start + _BLOCK] for start in range(0, len(corpus), _BLOCK)]

    async def call(number: int) -> None:
        query = corpus.queries[number % len(corpus.queries)]
        for block in blocks:
            _ = block @ query

    return call


async def search_lines(run: Run, store: Store, corpus: Corpus, value: str | None = None) -> None:
    """Time searches of one size, over all rows or those with a value of the key, and compute their recall."""
    n, settings = len(corpus), run.settings
    what = f"search {n:,}" if value is None else f"search {n:,}, filter {SHARES[value]:.0%}"
    call, found = searching(store, corpus, None if value is None else {KEY: value})
    small = n <= _BARE
    control = bare_product(corpus) if small and value is None else exact_search(corpus)
    started = time.perf_counter()
    await call(0)
    first = f"the first such search took {1e3 * (time.perf_counter() - started):.3g} ms"
    sides: dict[str, Side] = {"ours": Here(call), "control": Here(control)}
    taken = await in_turn(sides, repetitions=settings.repetitions, calls=settings.calls)
    both, name = (taken["ours"], taken["control"]), (STORE, what)
    if value is not None:
        run.compare(name, both, "unfiltered exact IndexFlatIP, 1 thread", "times", 1.0, first)
    elif small:
        run.compare(name, both, "bare numpy product", "difference", 0.3)
    else:
        least = 5.0 if n <= 100_000 else 8.0
        run.compare(name, both, "exact IndexFlatIP, 1 thread", "times faster", least)
    share = await recall_of(call, found, exact(corpus, None if value is None else corpus.labels == value))
    run.add(Line(STORE, f"{what}, recall@5", median([share]), at_least=0.99 if value is None else 1.0))


async def open_lines(run: Run, corpus: Corpus, folder: Path) -> None:
    """Time opening and a first search in fresh processes, and measure their memory."""
    n, large = len(corpus), len(corpus) > 100_000
    queries = run.folder / "open-queries.npy"
    np.save(queries, corpus.queries)
    # Not counted: the first process after the store was made may write a snapshot.
    await _child("open", folder, queries)
    openings = range(min(_OPENINGS, run.settings.repetitions))
    taken = [float((await _child("open", folder, queries))["seconds"]) for _ in openings]
    what, note = f"open {n:,} with a snapshot, first search answered", "fresh process, FAISS not yet loaded"
    run.add(Line(STORE, what, median(taken), "s", note=note, at_most=3.0 if large else 0.5))
    grown = await _child("memory", folder, queries)
    private, file = grown["private"] / n, grown["file"] / n
    note = f"private {private:,.0f}, mapped from files {file:,.0f}, raw vector {4 * corpus.dim:,} bytes"
    beyond = median([beyond_raw(4 * n * corpus.dim, grown) / n])
    what = f"memory per lesson at {n:,}, beyond its raw vector"
    run.add(Line(STORE, what, beyond, "bytes", note=note, at_most=None if large else 1_000.0))


def beyond_raw(raw: int, grown: Mapping[str, int]) -> int:
    """Return the memory beyond the raw vectors, whether these are private or mapped from files.

    Mapped vectors are read on demand; those that are not resident are not subtracted.
    """
    private, file = grown["private"], grown["file"]
    return private + file - raw if private >= raw else private + max(0, file - raw)


async def _child(what: str, folder: Path, queries: Path) -> dict[str, Any]:
    """Run :mod:`benchmarks.vectorstores.child` and return its JSON object."""
    command = [sys.executable, "-m", "benchmarks.vectorstores.child", what, str(folder), str(queries)]
    with anyio.fail_after(_TIMEOUT):
        found: dict[str, Any] = json.loads((await anyio.run_process(command, cwd=_ROOT)).stdout)
    return found
