"""Opening a store with a snapshot, and the memory that it takes, each in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import numpy as np

from benchmarks.timing import median, stalls_of
from benchmarks.vectorstores.lines import Amount, Bound, Line, Run, single
from benchmarks.vectorstores.rows_search import SECTION, open_at
from benchmarks.vectorstores.vectors import NEAREST, Corpus

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPENINGS: Final = 5
_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT: Final = 300.0


async def open_lines(run: Run, corpus: Corpus, folder: Path) -> None:
    """Time opening and a first search in fresh processes, and what they hold in memory."""
    n, dim = len(corpus), corpus.vectors.shape[1]
    queries = run.folder / "open-queries.npy"
    np.save(queries, corpus.queries)
    # One that is not counted: the first process after the store was made may have a snapshot to write.
    await child("open", folder, queries, dim)
    cold, warm = [], []
    for _ in range(min(_OPENINGS, run.settings.repetitions)):
        cold.append(float((await child("open", folder, queries, dim))["seconds"]))
        warm.append(float((await child("warm", folder, queries, dim))["seconds"]))
    limit = 0.5 if n <= 100_000 else 3.0
    what = f"open {n:,} with a snapshot, first search answered"
    note = f"fresh process, FAISS not yet loaded; with it loaded {Amount(median(warm), 's')}"
    run.add(Line(SECTION, what, Amount(median(cold), "s"), Bound("under", limit), note=note))
    memory_line(run, n, dim, await child("memory", folder, queries, dim))

    async def opening() -> None:
        async with open_at(folder, dim) as store:
            await store.search(corpus.queries[0], k=NEAREST)

    _, stall = await stalls_of(f"open {n:,}, first search", opening, seconds=run.settings.window)
    run.stalled(stall)


def memory_line(run: Run, n: int, dim: int, grown: Mapping[str, int]) -> None:
    """Keep what a row takes beyond its raw vector."""
    raw = 4 * n * dim
    beyond = beyond_raw(raw, grown) / n
    private, file = grown["private"] / n, grown["file"] / n
    note = f"private {private:,.0f}, mapped from files {file:,.0f}, raw vector {4 * dim:,} bytes"
    bound = Bound("under", 1_000.0) if n <= 100_000 else None
    run.add(
        Line(
            SECTION,
            f"memory per lesson at {n:,}, beyond its raw vector",
            single(beyond, "bytes"),
            bound,
            note=note,
        )
    )


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

    def run() -> str:
        return subprocess.run(  # noqa: S603 - this interpreter, with our own arguments
            command, cwd=_ROOT, check=True, capture_output=True, text=True, timeout=_TIMEOUT
        ).stdout

    said: dict[str, Any] = json.loads(await anyio.to_thread.run_sync(run))
    return said
