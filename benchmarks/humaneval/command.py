"""The command ``jeeves-reflexion bench humaneval``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import anyio
import click

from jeeves_reflexion import ConfigurationError, OpenAIModel
from jeeves_reflexion.cli.bench_options import (
    check_executor,
    cores,
    executor_options,
    folder_options,
    plan_options,
    spending_options,
    track_option,
    tracked,
)
from jeeves_reflexion.cli.options import embedder
from jeeves_reflexion.experiments import ARMS, ArmName, PlainProgress, Results, arm_of
from jeeves_reflexion.experiments.location import run_location

from ..options import (
    arms_option,
    embedder_called,
    endpoint_options,
    expected_of,
    named_model,
    plan_of,
    prices_of,
    run_folder,
)
from .experiment import Setting, report_at, run
from .own_tests import MOST_TESTS
from .problems import load_problems
from .report import run_json, run_table
from .scoring import SECONDS

_USABLE = tuple(name for name in get_args(ArmName) if name != "irrelevant")  # all problems are of one kind


@click.command("humaneval", epilog=f"Arms: {'; '.join(f'{name}: {ARMS[name]}' for name in _USABLE)}.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="Problems: HumanEval, MBPP or alike, .jsonl or .jsonl.gz.",
)
@click.option("--challenge", is_flag=True, help="With MBPP: its challenge tests are hidden tests, too.")
@click.option("--limit", type=click.IntRange(min=1), help="The first so many problems.")
@arms_option("retry,reflexion")
@plan_options("problem", k=3, workers=cores)
@executor_options
@click.option(
    "--judge",
    type=click.Choice(["self", "oracle"]),
    default="self",
    show_default=True,
    help="What stops the attempts: own tests, or the hidden tests (never in one column with the first).",
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
    help="Own tests that a model may write for a problem.",
)
@endpoint_options
@click.option("--temperature", type=float, default=0.2, show_default=True, help="Of the model's solutions.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
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
    """Write functions, try them, learn from their own tests; the hidden tests only score."""
    setting = _setting(options)
    track = tracked(options["track"], "humaneval")
    results = anyio.run(_run, setting)
    track(results, setting.out)
    if options["as_json"]:
        click.echo(json.dumps({**run_json(results), "run": str(setting.out)}, indent=2))
    else:
        click.echo(f"\n{run_table(results)}\n\nRun: {setting.out}\nReport: {report_at(setting)}")
    if results.interrupted:
        click.get_current_context().exit(1)


async def _run(setting: Setting) -> Results:
    try:
        return await run(setting, say=lambda line: click.echo(line, err=True), watcher=PlainProgress())
    finally:
        if isinstance(setting.model, OpenAIModel):
            await setting.model.aclose()


def _setting(options: dict[str, Any]) -> Setting:
    check_executor(options)
    _check_arms(options["arms"])
    problems = load_problems(options["data"], challenge=options["challenge"])[: options["limit"]]
    model = named_model(options)
    if model is None:
        raise ConfigurationError("nobody writes the functions: name a --model")
    return Setting(
        plan=plan_of(options, judged_by=options["judge"]),
        out=run_folder(options, "humaneval"),
        embedder=embedder_called(options["embedder"]),
        problems=problems,
        tests=options["tests"],
        most_tests=options["most_tests"],
        model=model,
        temperature=options["temperature"],
        seconds=options["seconds"],
        resume=options["resume"],
        runs_on=run_location(options),
        prices=prices_of(options),
        expected=expected_of(options),
    )


def _check_arms(names: Sequence[ArmName]) -> None:
    if any(arm_of(name).kind == "irrelevant" for name in names):
        raise click.UsageError(f"all problems are of one kind: choose from {', '.join(_USABLE)}")
