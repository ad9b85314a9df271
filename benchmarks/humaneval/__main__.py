"""``python -m benchmarks.humaneval``: ``score`` solutions by the hidden tests, or ``run`` the benchmark."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import anyio
import click

from jeeves_reflexion import ReflexionError

from .command import humaneval
from .problems import load_problems, load_samples
from .report import score_table
from .scoring import SECONDS, HiddenTests, score

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _Group(click.Group):
    """Shows this package's errors as messages."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ReflexionError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group)
def main() -> None:
    """HumanEval, MBPP and alike: scoring, runs."""


@main.command("score")
@click.argument("file", type=_FILE)
@click.option("--data", type=_FILE, required=True, help="The problems.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=SECONDS,
    show_default=True,
    help="For one solution's tests.",
)
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--challenge", is_flag=True, help="With MBPP: its challenge tests are hidden tests, too.")
@click.option("--json", "as_json", is_flag=True, help="Print verdicts as JSON lines.")
def score_command(
    file: Path, data: Path, seconds: float, workers: int, *, challenge: bool, as_json: bool
) -> None:
    """Score the solutions of FILE by the hidden tests; exit status 1 where a logged verdict differs."""
    problems, samples = load_problems(data, challenge=challenge), load_samples(file)
    scored = anyio.run(partial(score, problems, samples, HiddenTests(seconds=seconds), workers=workers))
    if as_json:
        for one in scored:
            row = {"task_id": one.sample.task_id, "status": one.verdict.status, "reason": one.verdict.reason}
            click.echo(json.dumps({**row, "logged": one.sample.logged}))
    else:
        click.echo(score_table(scored))
    if any(one.agrees is False for one in scored):
        raise SystemExit(1)


main.add_command(humaneval, "run")

if __name__ == "__main__":
    main()
