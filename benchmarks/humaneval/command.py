"""The command ``jeeves-reflexion bench humaneval``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from jeeves_reflexion.cli.bench_options import (
    cores,
    executor_options,
    folder_options,
    plan_options,
    spending_options,
    track_option,
)
from jeeves_reflexion.cli.options import Number, embedder
from jeeves_reflexion.experiments import ARMS, ArmName, PlainProgress, arm_of

from ..options import arms_option, endpoint_options, required_model, run_command, setting_of
from .experiment import Setting, run
from .own_tests import MOST_TESTS
from .problems import load_problems
from .report import own_figures, run_table
from .scoring import SECONDS

_USABLE = tuple(name for name in get_args(ArmName) if name != "irrelevant")  # all problems are of one kind


@click.command("humaneval", epilog=f"Arms: {'; '.join(f'{name}: {ARMS[name]}' for name in _USABLE)}.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="HumanEval, or problems of its form: .jsonl or .jsonl.gz.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first N problems.")
@arms_option("retry,reflexion")
@plan_options("problem", k=3, workers=cores)
@executor_options
@click.option(
    "--judge",
    type=click.Choice(["self", "oracle"]),
    default="self",
    show_default=True,
    help="What stops the attempts: own tests or the hidden tests. Their figures are never in one column.",
)
@click.option(
    "--tests",
    type=click.Choice(["docstring", "model"]),
    default="model",
    show_default=True,
    help="Own tests: the docstring's examples, or what the model writes.",
)
@click.option(
    "--most-tests",
    type=click.IntRange(min=1),
    default=MOST_TESTS,
    show_default=True,
    help="How many own tests a model may write for a problem.",
)
@endpoint_options
@click.option("--temperature", type=float, default=0.2, show_default=True, help="Of the model's solutions.")
@click.option(
    "--seconds",
    type=Number(min=0.1),
    default=SECONDS,
    show_default=True,
    help="Time for the hidden tests of a solution.",
)
@embedder
@folder_options
@track_option
@spending_options
@click.option("--json", "as_json", is_flag=True, help="Print figures as JSON.")
def humaneval(**options: Any) -> None:  # noqa: ANN401 - click hands over what its options made
    """Write functions, run own tests on them, and learn from these; the hidden tests only score."""
    if any(arm_of(name).kind == "irrelevant" for name in options["arms"]):
        raise click.UsageError(f"all problems are of one kind: choose from {', '.join(_USABLE)}")
    setting = Setting(
        **setting_of(options, "humaneval", judged_by=options["judge"]),
        problems=load_problems(options["data"])[: options["limit"]],
        model=required_model(options, "nobody writes the functions"),
        tests=options["tests"],
        most_tests=options["most_tests"],
        temperature=options["temperature"],
        seconds=options["seconds"],
    )
    go = partial(run, setting, say=partial(click.echo, err=True), watcher=PlainProgress())
    run_command(options, "humaneval", setting, go, (run_table, own_figures))
