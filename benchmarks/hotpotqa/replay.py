"""``python -m benchmarks.hotpotqa.replay FILE...``: plays logged runs through our loop, and compares with the logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import click

from jeeves_reflexion.errors import ConfigurationError

from ..report import write_result
from .replay_log import LoggedRun, read_log
from .replay_play import Played, play
from .replay_tables import figures_of, page, story


async def _replay(runs: Sequence[LoggedRun]) -> list[Played]:
    played = []
    for run in runs:
        played.append(await play(run))
        click.echo(f"{story(played[-1])}\n")
    return played


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for hotpotqa_replay.md and .json."
)
def main(files: Sequence[Path], out: Path | None) -> None:
    """Replay logged HotpotQA runs. Exits with 1 if the loop's table differs from the log's, with 2 for a bad file."""
    try:
        played = anyio.run(_replay, [read_log(path) for path in files])
    except ConfigurationError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    if out is not None:
        write_result(out, "hotpotqa_replay", figures_of(played), page(played))
    if any(each.mismatches for each in played):
        click.echo("The table differs from the log's: see the differences above.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
