"""The command: what to measure, how often, and where the figures go."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import click

from benchmarks.report import out_option, write_result
from benchmarks.vectorstores.lines import Run, Settings
from benchmarks.vectorstores.plan import measure
from benchmarks.vectorstores.report import figures, page

_HUGE = 1_000_000


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, seconds in all: to see that it runs.")
@click.option("--million", is_flag=True, help="Also 1,000,000 vectors, in both stores (an hour, 12 GB).")
@click.option("--repetitions", type=click.IntRange(min=1), help="Repetitions of every line.  [default: 15]")
@click.option("--calls", type=click.IntRange(min=1), help="Calls per repetition.  [default: 40]")
@click.option(
    "--postgres",
    metavar="URL",
    help="A server to make and drop databases on; 'embedded' starts one; 'none' leaves it out.",
    default="embedded",
    show_default=True,
)
@click.option(
    "--postgres-size", type=click.IntRange(min=100), multiple=True, help="Rows.  [default: 10000, 100000]"
)
@click.option("--no-faiss", is_flag=True, help="PostgreSQL alone.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the stores are made and removed again; decides which disk is measured.  [default: temporary]",
)
@out_option("vectorstores.json and .md")
@click.option("--docs", type=click.Path(dir_okay=False, path_type=Path), help="File for the Markdown, too.")
def main(  # noqa: PLR0913 - the options of a command
    *,
    quick: bool,
    million: bool,
    repetitions: int | None,
    calls: int | None,
    postgres: str,
    postgres_size: tuple[int, ...],
    no_faiss: bool,
    folder: Path | None,
    out: Path,
    docs: Path | None,
) -> None:
    """Measure the stores beside bare engines; print the table, write it and its JSON."""
    if importlib.util.find_spec("faiss") is None:
        raise click.ClickException('FAISS is not installed: pip install "jeeves-reflexion[faiss]"')
    settings = Settings().quick() if quick else Settings()
    settings = replace(
        settings,
        huge=_HUGE if million else None,
        repetitions=repetitions or settings.repetitions,
        calls=calls or settings.calls,
        postgres=postgres_size or (*settings.postgres, *([_HUGE] if million else [])),
    )
    with tempfile.TemporaryDirectory(prefix="vectorstores-", dir=folder) as scratch:
        run = Run(settings, Path(scratch), lambda line: click.echo(line, err=True))
        anyio.run(
            partial(measure, run, faiss=not no_faiss, postgres=None if postgres == "none" else postgres)
        )
    found, text = figures(run, _command()), page(run, _command())
    write_result(out, "vectorstores", found, text)
    if docs is not None:
        docs.write_text(text, encoding="utf-8")
    click.echo(text)


def _command() -> str:
    """Return the command without the places of this machine."""
    kept: list[str] = []
    words = iter(sys.argv[1:])
    for word in words:
        name, equals, _ = word.partition("=")
        if name in ("--out", "--docs", "--folder"):
            if not equals:
                next(words, None)
        elif name == "--postgres":
            value = word.partition("=")[2] if equals else next(words, "")
            shown = value if value in ("none", "embedded") else name.removeprefix("--").upper()
            kept += [name, shown]
        else:
            kept.append(word)
    return " ".join(["python -m benchmarks.vectorstores", *kept])
