"""The command: it makes, measures and removes one size after the other."""

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
from benchmarks.timing import median
from benchmarks.vectorstores.lines import QUICK, Line, Run, Settings, figures, page
from benchmarks.vectorstores.search import STORE, fill, open_lines, search_lines, settle
from benchmarks.vectorstores.vectors import SHARES, clustered, open_at
from benchmarks.vectorstores.writes import add_lines, delete_lines

_HUGE: Final = 1_000_000
_NEEDED: Final = {
    "folder": ({"faiss"}, 'pip install "jeeves-reflexion[faiss]"'),
    "postgres": ({"pgvector", "psycopg_pool"}, 'pip install "jeeves-reflexion[postgres]" psycopg-pool'),
}
_OURS: Final = ("jeeves-reflexion", "faiss-cpu", "numpy", "psycopg")


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, to see within seconds that it runs.")
@click.option("--million", is_flag=True, help="Also 1,000,000 vectors, in both stores (an hour, 12 GB).")
@click.option("--store", type=click.Choice(["both", *_NEEDED]), default="both", show_default=True)
@click.option("--dsn", help="A PostgreSQL server for temporary databases; by default one is started.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder for the temporary stores, on the disk to measure.  [default: the system's]",
)
@out_option("vectorstores.json and .md")
def main(*, quick: bool, million: bool, store: str, dsn: str | None, folder: Path | None, out: Path) -> None:
    """Measure the stores beside bare engines, and print and write the table."""
    stores = [name for name in _NEEDED if store in ("both", name)]
    for modules, install in (_NEEDED[name] for name in stores):
        if not all(map(importlib.util.find_spec, modules)):
            raise click.ClickException(f"{' or '.join(sorted(modules))} is not installed: {install}")
    settings = QUICK if quick else Settings()
    if million:
        settings = replace(settings, large=(*settings.large, _HUGE), postgres=(*settings.postgres, _HUGE))
    chosen = " --quick" * quick + " --million" * million + f" --store {store}"
    with tempfile.TemporaryDirectory(prefix="vectorstores-", dir=folder) as scratch:
        command = f"python -m benchmarks.vectorstores{chosen}"
        run = Run(settings, Path(scratch), command, partial(click.echo, err=True))
        anyio.run(partial(measure, run, stores, dsn))
    text = page(run)
    write_result(out, "vectorstores", figures(run), text)
    click.echo(text)


async def measure(run: Run, stores: list[str], dsn: str | None) -> None:
    """Measure all lines of the table."""
    for name in _OURS:
        try:
            run.versions[name] = version(name)
        except PackageNotFoundError:
            run.versions[name] = "not installed"
    if "folder" in stores:
        for n in run.settings.small:
            await _small(run, n, writes=n == run.settings.small[-1])
        for n in run.settings.large:
            await _large(run, n)
    if "postgres" in stores:
        from benchmarks.vectorstores.postgres import measure_postgres  # noqa: PLC0415 - its libraries are optional

        await measure_postgres(run, dsn)


async def _small(run: Run, n: int, *, writes: bool) -> None:
    """Search a small store, and add to it."""
    corpus, folder = clustered(n, run.settings.queries), run.folder / f"small-{n}"
    async with open_at(str(folder), corpus.dim) as store:
        await fill(store, corpus)
        await settle(store, corpus, quiet=run.settings.quiet)
        await search_lines(run, store, corpus)
        if writes:
            await add_lines(run, store, corpus, folder)
    shutil.rmtree(folder)


async def _large(run: Run, n: int) -> None:
    """Load, search, filter, open, and delete from a large store."""
    corpus, folder = clustered(n, run.settings.queries), run.folder / f"large-{n}"
    async with open_at(str(folder), corpus.dim) as store:
        loaded = await fill(store, corpus)
        run.add(Line(STORE, f"load {n:,}", median([n / loaded]), "per s", note=f"{loaded:.1f} s"))
        await settle(store, corpus, quiet=run.settings.quiet)
        await search_lines(run, store, corpus)
        for value in SHARES if n == run.settings.large[0] else ():
            await search_lines(run, store, corpus, value)
    await open_lines(run, corpus, folder)
    async with open_at(str(folder), corpus.dim) as store:
        await settle(store, corpus, quiet=run.settings.quiet)
        await delete_lines(run, store, corpus)
    shutil.rmtree(folder)
