"""``python -m benchmarks.humaneval``: ``score``, ``internal``, ``run``, and ``report`` for the results page."""

from __future__ import annotations

import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import get_args

import anyio
import click

from benchmarks.humaneval.checking import OwnTestRunner
from benchmarks.humaneval.command import humaneval
from benchmarks.humaneval.experiment import Setting, run
from benchmarks.humaneval.internal import KINDS, Internal, measure
from benchmarks.humaneval.page import figures, page
from benchmarks.humaneval.problems import Problem, Sample, load_problems, load_samples
from benchmarks.humaneval.report import internal_table, score_table
from benchmarks.humaneval.scoring import SECONDS, HiddenTests, score
from benchmarks.results import out_option, write_result
from jeeves_reflexion import ReflexionError
from jeeves_reflexion.experiments import JudgedBy, Plan, Results, progress_for
from vectorstores import HashingEmbedder

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_data = click.option("--data", type=_FILE, required=True, help="The problems.")
_logged = click.option(
    "--logged", type=_FILE, required=True, help="Solutions with or without logged verdicts."
)
_seconds = click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=SECONDS,
    show_default=True,
    help="For one solution's tests.",
)
_workers = click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
_changes = click.option(
    "--changes",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Seeded changes of each right solution.",
)


class _Group(click.Group):
    """Shows this package's errors as messages."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ReflexionError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group)
def main() -> None:
    """HumanEval, MBPP and alike: scoring, examples in docstrings, runs."""


@main.command("score")
@click.argument("file", type=_FILE)
@_data
@_seconds
@_workers
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


@main.command("internal")
@_data
@_logged
@_seconds
@_workers
@_changes
@click.option("--json", "as_json", is_flag=True, help="Print figures as JSON.")
def internal_command(
    data: Path, logged: Path, seconds: float, workers: int, changes: int, *, as_json: bool
) -> None:
    """Measure how often docstrings have examples, and how well these foretell the hidden verdict."""
    problems, samples = load_problems(data), load_samples(logged)
    hidden = HiddenTests(seconds=seconds)
    found = anyio.run(
        partial(measure, problems, samples, hidden, OwnTestRunner(), changes=changes, workers=workers)
    )
    click.echo(json.dumps(internal_json(found), indent=1) if as_json else internal_table(found))


@main.command("report")
@_data
@_logged
@_seconds
@_workers
@_changes
@click.option(
    "--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Seeds of the repairs' runs."
)
@out_option("humaneval.json and humaneval.md")
def report_command(
    data: Path, logged: Path, seconds: float, workers: int, changes: int, seeds: int, out: Path
) -> None:
    """Measure all that needs no model, and write the results page."""
    problems, samples = load_problems(data), load_samples(logged)
    hidden = HiddenTests(seconds=seconds)
    found = anyio.run(
        partial(measure, problems, samples, hidden, OwnTestRunner(), changes=changes, workers=workers)
    )
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            anyio.run(partial(_repairs, problems, samples, workers, seeds, Path(folder, judge), judge))
            for judge in get_args(JudgedBy)
        ]
    text = page(data.name, logged.name, found, runs)
    write_result(out, "humaneval", figures(internal_json(found), runs), text)
    click.echo(text)


async def _repairs(
    problems: list[Problem], samples: list[Sample], workers: int, seeds: int, out: Path, judge: JudgedBy
) -> Results:
    setting = Setting(
        plan=Plan(("retry", "reflexion"), 5, tuple(range(seeds)), workers, 5, judged_by=judge),
        out=out,
        embedder=HashingEmbedder(),
        problems=problems,
        logged=samples,
    )
    return await run(setting, say=lambda line: click.echo(line, err=True), watcher=progress_for())


def internal_json(found: Internal) -> dict[str, object]:
    """Return the figures of the docstrings' examples."""
    return {
        "solutions": len(found.logged),
        "empty": found.empty,
        "agree_with_the_log": sum(one.agrees is True for one in found.logged),
        "solved": sum(one.verdict.passed for one in found.logged),
        "kinds": {
            kind: {
                "problems": found.coverage[kind].problems.successes,
                "of": found.coverage[kind].problems.n,
                "tests": found.coverage[kind].tests,
                **{what: found.confusion(kind, what).as_json() for what in ("logged", "changed")},
            }
            for kind in KINDS
        },
        "right_but_refused": [list(one) for one in found.broken_promises],
    }


main.add_command(humaneval, "run")

if __name__ == "__main__":
    main()
