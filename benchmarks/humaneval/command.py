"""The command ``jeeves-reflexion bench humaneval``."""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any, get_args

import anyio
import click

from benchmarks.humaneval.experiment import Setting, run
from benchmarks.humaneval.own_tests import MOST_TESTS
from benchmarks.humaneval.problems import load_problems, load_samples
from benchmarks.humaneval.report import run_json, run_table
from benchmarks.humaneval.scoring import SECONDS
from jeeves_reflexion import ChatModel, ConfigurationError, OpenAIModel
from jeeves_reflexion.experiments import ARMS, ArmName, Plan, Results, arm_names, arm_of, progress_for
from jeeves_reflexion.models.openai import Prices
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder

_USABLE = tuple(name for name in get_args(ArmName) if name != "irrelevant")  # all problems are of one kind


def _arms(_: click.Context, __: click.Parameter, value: str) -> tuple[ArmName, ...]:
    names = arm_names(value)
    if any(arm_of(name).kind == "irrelevant" for name in names):
        raise click.BadParameter(f"all problems are of one kind: choose from {', '.join(_USABLE)}")
    return names


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of whole numbers such as 0,1,2") from None


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("humaneval", epilog=f"Arms: {'; '.join(f'{name}: {ARMS[name]}' for name in _USABLE)}.")
@click.option(
    "--data", type=_FILE, required=True, help="Problems: HumanEval, MBPP or alike, .jsonl or .jsonl.gz."
)
@click.option("--challenge", is_flag=True, help="With MBPP: its challenge tests are hidden tests, too.")
@click.option("--limit", type=click.IntRange(min=1), help="The first so many problems.")
@click.option("--arms", callback=_arms, default="retry,reflexion", show_default=True, help="Arms, by commas.")
@click.option(
    "--trials", type=click.IntRange(min=1), default=4, show_default=True, help="Attempts at a problem."
)
@click.option("--seeds", callback=_numbers, default="0", show_default=True, help="Seeds (runs), by commas.")
@click.option(
    "--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1, help="Problems at a time."
)
@click.option(
    "-k", "k", type=click.IntRange(min=1), default=3, show_default=True, help="Lessons recalled per attempt."
)
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
    help="Own tests: the docstring's examples, or what"
    " the model writes; by default the latter where there is a model.",
)
@click.option(
    "--most-tests",
    type=click.IntRange(min=1),
    default=MOST_TESTS,
    show_default=True,
    help="Own tests that a model may write for a problem.",
)
@click.option("--model", help="A language model, by its name at an OpenAI-compatible endpoint.")
@click.option("--base-url", help="That endpoint; by default OPENAI_BASE_URL.")
@click.option("--temperature", type=float, default=0.2, show_default=True, help="Of the model's solutions.")
@click.option(
    "--logged", type=_FILE, help="Without a model: solutions to begin with, repaired by small changes."
)
@click.option(
    "--bugs",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Without a model: changes seeded in each of those.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=SECONDS,
    show_default=True,
    help="Time for the hidden tests of a solution.",
)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the run; by default runs/humaneval-<time>."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="Stop at so many US dollars.")
@click.option("--price-in", type=float, help="US dollars for a million input tokens.")
@click.option("--price-out", type=float, help="US dollars for a million output tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print figures as JSON.")
def humaneval(**options: Any) -> None:  # noqa: ANN401 - click hands over what its options made
    """Write functions, try them, learn from their own tests; the hidden tests only score.

    Needs --model, or --logged for the player that repairs programs without one.
    """
    setting = _setting(options)
    results = anyio.run(_run, setting)
    if options["as_json"]:
        click.echo(json.dumps({**run_json(results), "run": str(setting.out)}, indent=2))
    else:
        click.echo(f"\n{run_table(results)}\n\nRun: {setting.out}")


async def _run(setting: Setting) -> Results:
    try:
        return await run(
            setting, say=lambda line: click.echo(line, err=True), watcher=progress_for(sys.stderr)
        )
    finally:
        if isinstance(setting.model, OpenAIModel):
            await setting.model.aclose()


def _setting(options: dict[str, Any]) -> Setting:
    model: ChatModel | None = None
    if options["model"]:
        model = OpenAIModel(options["model"], base_url=options["base_url"], prices=_prices(options))
    elif options["base_url"]:
        raise ConfigurationError("--base-url goes with --model")
    elif not options["logged"]:
        raise ConfigurationError("name a --model, or --logged solutions that are repaired without one")
    if model and options["logged"]:
        raise ConfigurationError("--logged is for runs without a --model")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return Setting(
        plan=Plan(
            options["arms"],
            options["trials"],
            options["seeds"],
            options["workers"],
            options["k"],
            judged_by=options["judge"],
            max_cost_usd=options["max_cost"],
        ),
        out=options["out"] or Path("runs") / f"humaneval-{stamp}",
        embedder=embedder_called(options["embedder"]),
        problems=load_problems(options["data"], challenge=options["challenge"])[: options["limit"]],
        tests=options["tests"] or ("model" if model else "docstring"),
        most_tests=options["most_tests"],
        model=model,
        temperature=options["temperature"],
        logged=load_samples(options["logged"]) if options["logged"] else (),
        bugs=options["bugs"],
        seconds=options["seconds"],
        resume=options["resume"],
    )


def _prices(options: dict[str, Any]) -> Prices | None:
    given = (options["price_in"], options["price_out"])
    if given == (None, None):
        return None
    if None in given:
        raise ConfigurationError("--price-in and --price-out go together")
    return Prices(*given)


def embedder_called(name: str) -> Embedder:
    """Return the embedder of that name."""
    return HashingEmbedder() if name == "hashing" else default_embedder()
