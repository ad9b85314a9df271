"""``python -m benchmarks.humaneval``: ``score`` solutions by the hidden tests, ``judge`` own tests, or ``run``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import click

from jeeves_reflexion import Task
from jeeves_reflexion.cli.options import Number

from ..options import MessageGroup
from ..report import write_result
from .checking import OwnTestRunner
from .command import humaneval
from .evaluator import docstring_source, read_tests
from .figures import confusion_table
from .own_tests import OwnTest
from .problems import load_problems, load_samples
from .report import score_table
from .scoring import SECONDS, HiddenTests, score
from .verdicts import CANONICAL, LOGGED, Judges, verdicts_json, verdicts_page

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=MessageGroup)
def main() -> None:
    """HumanEval: scoring, judging of own tests, and runs."""


@main.command("score")
@click.argument("file", type=_FILE)
@click.option("--data", type=_FILE, required=True, help="The problems.")
@click.option(
    "--seconds",
    type=Number(min=0.1),
    default=SECONDS,
    show_default=True,
    help="Time for the tests of one solution.",
)
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--json", "as_json", is_flag=True, help="Print verdicts as JSON lines.")
def score_command(file: Path, data: Path, seconds: float, workers: int, *, as_json: bool) -> None:
    """Score the solutions of FILE by the hidden tests. Exits with 1 if a logged verdict differs."""
    problems, samples = load_problems(data), load_samples(file)
    scored = anyio.run(partial(score, problems, samples, HiddenTests(seconds=seconds), workers=workers))
    if as_json:
        for one in scored:
            row = {"task_id": one.sample.task_id, "status": one.verdict.status, "reason": one.verdict.reason}
            click.echo(json.dumps({**row, "logged": one.sample.logged}))
    else:
        click.echo(score_table(scored))
    if any(one.agrees is False for one in scored):
        raise SystemExit(1)


@main.command("judge")
@click.option("--data", type=_FILE, required=True, help="The problems, with canonical solutions.")
@click.option("--right", type=_FILE, help="More solutions, which are judged too.")
@click.option(
    "--own-tests", type=_FILE, help="Tests that a run has kept.  [default: the examples in the docstrings]"
)
@click.option(
    "--mutants", "wrong", type=click.IntRange(min=1), default=3, show_default=True, help="Per problem."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N problems.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the choice of mutants.")
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for humaneval_verdicts.md and .json.")
def judge_command(
    data: Path, right: Path | None, own_tests: Path | None, out: Path | None, **how: int
) -> None:
    """Measure how often own tests pass wrong programs (mutants that fail the hidden tests) and fail right ones."""
    samples = {CANONICAL: load_samples(data), LOGGED: load_samples(right) if right else []}
    kept = read_tests(own_tests) if own_tests else None

    async def tests(task: Task) -> Sequence[OwnTest]:
        return await docstring_source(task) if kept is None else kept.get(task.id, [])

    judges, problems = Judges(HiddenTests(), tests, OwnTestRunner()), load_problems(data)[: how.pop("limit")]
    found = anyio.run(partial(judges.judge, problems, samples, **how))
    click.echo(confusion_table(found))
    if out is not None:
        source = "the examples in the docstrings" if kept is None else "the asserts that a model wrote"
        options = f"--data {data.name}{f' --right {right.name}' if right else ''}"
        command = f"{options} --mutants {how['wrong']} --seed {how['seed']}"
        page = verdicts_page(found, judges.drawn, source, command)
        write_result(out, "humaneval_verdicts", verdicts_json(found, judges.drawn), page)


main.add_command(humaneval, "run")

if __name__ == "__main__":
    main()
