"""The command: each size is made, measured and removed before the next."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.report import out_option, write_result
from benchmarks.vectorstores.lines import Line, Run, Settings, single
from benchmarks.vectorstores.report import figures, page
from benchmarks.vectorstores.search import (
    SECTION,
    fill,
    filter_lines,
    open_at,
    open_lines,
    search_lines,
    settle,
)
from benchmarks.vectorstores.vectors import clustered
from benchmarks.vectorstores.writes import add_lines, delete_lines, rows_needed

_HUGE: Final = 1_000_000
_OURS: Final = ("jeeves-reflexion", "faiss-cpu", "numpy", "psycopg")


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, seconds in all: to see that it runs.")
@click.option("--million", is_flag=True, help="Also 1,000,000 vectors, in both stores (an hour, 12 GB).")
@click.option("--store", type=click.Choice(["both", "folder", "postgres"]), default="both", show_default=True)
@click.option("--dsn", help="A PostgreSQL server to make and drop databases on; by default one is started.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the stores are made and removed again; decides which disk is measured.  [default: temporary]",
)
@out_option("vectorstores.json and .md")
def main(*, quick: bool, million: bool, store: str, dsn: str | None, folder: Path | None, out: Path) -> None:
    """Measure the stores beside bare engines; print the table, write it and its JSON."""
    if importlib.util.find_spec("faiss") is None:
        raise click.ClickException('FAISS is not installed: pip install "jeeves-reflexion[faiss]"')
    settings = Settings().quick() if quick else Settings()
    if million:
        settings = replace(settings, huge=_HUGE, postgres=(*settings.postgres, _HUGE))
    with tempfile.TemporaryDirectory(prefix="vectorstores-", dir=folder) as scratch:
        run = Run(settings, Path(scratch), lambda line: click.echo(line, err=True))
        anyio.run(partial(measure, run, store, dsn))
    chosen = " --quick" * quick + " --million" * million + f" --store {store}"
    command = f"python -m benchmarks.vectorstores{chosen}"
    text = page(run, command)
    write_result(out, "vectorstores", figures(run, command), text)
    click.echo(text)


async def measure(run: Run, store: str, dsn: str | None) -> None:
    """Measure all lines of the table that can be measured here."""
    for name in _OURS:
        try:
            run.versions[name] = version(name)
        except PackageNotFoundError:
            run.versions[name] = "not installed"
    settings = run.settings
    if store != "postgres":
        for n in settings.small:
            await _small(run, n, writes=n == settings.small[-1])
        for size in (settings.large, settings.huge):
            if size is not None:
                await _large(run, size)
        if settings.huge is None:
            run.left_out.append("1,000,000 vectors: `--million`")
    if store == "folder":
        run.left_out.append("PostgreSQL")
    elif importlib.util.find_spec("psycopg_pool") is None or importlib.util.find_spec("pgvector") is None:
        run.left_out.append('PostgreSQL: `pip install "jeeves-reflexion[postgres]" psycopg-pool`')
    else:
        from benchmarks.vectorstores.postgres import measure_postgres  # noqa: PLC0415 - its libraries are optional

        await measure_postgres(run, dsn)


async def _small(run: Run, n: int, *, writes: bool) -> None:
    """Search a small store; add to it."""
    settings = run.settings
    corpus = clustered(rows_needed(run, n) if writes else n, settings.queries, seed=settings.seed)
    folder = run.folder / f"small-{n}"
    async with open_at(folder, corpus.vectors.shape[1]) as store:
        await fill(run, store, corpus.first(n), f"load {n:,}")
        await settle(store, corpus, quiet=settings.quiet)
        await search_lines(run, store, corpus.first(n))
        if writes:
            await add_lines(run, store, corpus, folder, n)
    shutil.rmtree(folder)


async def _large(run: Run, n: int) -> None:
    """Load, search, filter, open, and delete from a large store."""
    settings = run.settings
    corpus = clustered(n, settings.queries, seed=settings.seed)
    folder, dim = run.folder / f"large-{n}", corpus.vectors.shape[1]
    async with open_at(folder, dim) as store:
        loaded = await fill(run, store, corpus, f"load {n:,}")
        run.add(Line(SECTION, f"load {n:,}", single(n / loaded, "per s"), note=f"{loaded:.1f} s"))
        await settle(store, corpus, quiet=settings.quiet)
        await search_lines(run, store, corpus)
        if n == settings.large:
            await filter_lines(run, store, corpus)
    await open_lines(run, corpus, folder)
    async with open_at(folder, dim) as store:
        await settle(store, corpus, quiet=settings.quiet)
        await delete_lines(run, store, corpus)
    shutil.rmtree(folder)
