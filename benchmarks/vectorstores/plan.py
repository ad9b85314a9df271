"""The order of a run: each size is made, measured and removed before the next."""

from __future__ import annotations

import importlib.util
import shutil
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from benchmarks.vectorstores.lines import Line, Run, single
from benchmarks.vectorstores.rows_open import open_lines
from benchmarks.vectorstores.rows_search import SECTION, fill, filter_lines, open_at, search_lines, settle
from benchmarks.vectorstores.rows_writes import add_lines, delete_lines, rows_needed
from benchmarks.vectorstores.vectors import clustered

_OURS: Final = ("jeeves-reflexion", "faiss-cpu", "numpy", "psycopg")


async def measure(run: Run, *, faiss: bool, postgres: str | None) -> None:
    """Measure all lines of the table that can be measured here."""
    for name in _OURS:
        try:
            run.versions[name] = version(name)
        except PackageNotFoundError:
            run.versions[name] = "not installed"
    if faiss:
        settings = run.settings
        for n in settings.small:
            await _small(run, n, writes=n == settings.small[-1])
        await _large(run, settings.large)
        if settings.huge is None:
            run.left_out.append("1,000,000 vectors: `--million`")
        else:
            await _large(run, settings.huge)
    if postgres is None:
        run.left_out.append("PostgreSQL")
        return
    if importlib.util.find_spec("psycopg_pool") is None or importlib.util.find_spec("pgvector") is None:
        run.left_out.append('PostgreSQL: `pip install "jeeves-reflexion[postgres]" pgvector`')
        return
    from benchmarks.vectorstores.plan_postgres import measure_postgres  # noqa: PLC0415 - its libraries are optional

    await measure_postgres(run, postgres)


async def _small(run: Run, n: int, *, writes: bool) -> None:
    """Search a small store; add to it."""
    settings = run.settings
    corpus = clustered(rows_needed(run, n) if writes else n, settings.queries, seed=settings.seed)
    folder = run.folder / f"small-{n}"
    async with open_at(folder, corpus.vectors.shape[1]) as store:
        await fill(run, store, corpus.first(n), f"load {n:,}")
        await settle(store, corpus, quiet=settings.window)
        await search_lines(run, store, corpus.first(n))
        if writes:
            await add_lines(run, store, corpus, folder, n)
    shutil.rmtree(folder)


async def _large(run: Run, n: int) -> None:
    """Load, search, filter, open, and delete from a large store."""
    settings = run.settings
    corpus = clustered(n, settings.queries, seed=settings.seed)
    folder = run.folder / f"large-{n}"
    dim = corpus.vectors.shape[1]
    async with open_at(folder, dim) as store:
        loaded = await fill(run, store, corpus, f"load {n:,}")
        run.add(Line(SECTION, f"load {n:,}", single(n / loaded, "per s"), note=f"{loaded:.1f} s"))
        built = single(await settle(store, corpus, quiet=settings.window), "s")
        run.add(Line(SECTION, f"from the end of the load to the last slow search, {n:,}", built))
        await search_lines(run, store, corpus)
        if n == settings.large:
            await filter_lines(run, store, corpus)
        closing = time.perf_counter()
    run.say(f"closed in {time.perf_counter() - closing:.1f} s")
    await open_lines(run, corpus, folder)
    async with open_at(folder, dim) as store:
        await settle(store, corpus, quiet=settings.window)
        await delete_lines(run, store, corpus)
    shutil.rmtree(folder)
