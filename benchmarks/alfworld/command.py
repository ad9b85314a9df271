"""The command ``jeeves-reflexion bench alfworld``."""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import click

from benchmarks.alfworld.experiment import MODEL_STEP_LIMIT, STEP_LIMIT, Finished, Setting, lessons_at, run
from benchmarks.alfworld.model_options import arms_of, model_of, model_options, repeats_of
from benchmarks.alfworld.report import summary
from jeeves_reflexion import ConfigurationError, LessonSettings, OpenAIModel
from jeeves_reflexion.experiments import ARMS, ArmName, Plan, arm_names, progress_for
from vectorstores import Embedder, HashingEmbedder
from vectorstores.embedders import default_embedder

_ARMS_HELP = "; ".join(f"{name}: {what}" for name, what in ARMS.items())


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[ArmName, ...]:
    try:
        return arm_names(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def _numbers(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of whole numbers such as 0,1,2") from None


@click.command("alfworld", epilog=f"Arms: {_ARMS_HELP}.")
@click.option(
    "--games", type=click.Path(path_type=Path), help="A folder of games as alfworld-download writes it."
)
@click.option(
    "--count", type=click.IntRange(min=1), help="How many games; by default 134, or all of --games."
)
@click.option("--game-seed", type=int, default=0, show_default=True, help="Seed of the games that are made.")
@click.option(
    "--arms", callback=_names, default="retry,selective", show_default=True, help="Arms, by commas."
)
@click.option("--trials", type=click.IntRange(min=1), default=4, show_default=True, help="Tries per game.")
@click.option(
    "--seeds", callback=_numbers, default="0", show_default=True, help="Seeds of the player, by commas."
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1, help="Games at a time."
)
@click.option(
    "--step-limit",
    type=click.IntRange(min=1),
    help=f"Commands per try; {STEP_LIMIT}, with a model {MODEL_STEP_LIMIT}.",
)
@click.option(
    "-k", "k", type=click.IntRange(min=1), default=3, show_default=True, help="Lessons recalled per try."
)
@click.option(
    "--key",
    type=click.Choice(["task", "lesson", "both"]),
    default="task",
    show_default=True,
    help="What a lesson is found by.",
)
@click.option(
    "--min-similarity",
    type=float,
    default=0.3,
    show_default=True,
    help="Floor of recall, as cosine similarity.",
)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@model_options
@click.option(
    "--lessons", type=click.Path(path_type=Path), help="A lesson store to start from and to leave behind."
)
@click.option(
    "--made-games",
    type=click.Path(path_type=Path),
    default=Path("runs/games"),
    show_default=True,
    help="Where made games are kept.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The run's folder; by default a new one below runs/."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out where it was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def alfworld(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Household tasks in the real ALFWorld engine, with memory and without.

    Without --model a rule-based player plays: it needs no model, and learns by reading recalled lessons.
    """
    setting = _setting(options)
    try:
        finished = anyio.run(_run, setting)
    except KeyboardInterrupt:
        click.echo(
            f"Kept: lessons in {lessons_at(setting)}, the log in {setting.out / 'rows.jsonl'}", err=True
        )
        raise
    if options["as_json"]:
        click.echo(json.dumps(_as_json(finished, setting), indent=2))
    else:
        click.echo("\n" + summary(finished, step_limit=setting.step_limit))


async def _run(setting: Setting) -> Finished:
    watcher = progress_for(sys.stderr)
    try:
        return await run(setting, say=lambda line: click.echo(line, err=True), watcher=watcher)
    finally:
        if isinstance(setting.model, OpenAIModel):
            await setting.model.aclose()


def _setting(options: dict[str, Any]) -> Setting:
    model = model_of(options)
    if options["resume"] and options["out"] is None:
        raise ConfigurationError("--resume goes with --out, the folder of the run")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
    return Setting(
        plan=Plan(arms_of(options), options["trials"], options["seeds"], options["workers"], options["k"]),
        out=options["out"] or Path("runs") / f"alfworld-{stamp}",
        embedder=_embedder(options["embedder"]),
        games_folder=options["games"],
        made_games=options["made_games"],
        count=options["count"],
        game_seed=options["game_seed"],
        step_limit=options["step_limit"] or (MODEL_STEP_LIMIT if model else STEP_LIMIT),
        lessons=options["lessons"],
        model=model,
        repeats=repeats_of(options, model),
        show_commands=options["admissible"],
        resume=options["resume"],
        settings=LessonSettings(key=options["key"], min_similarity=options["min_similarity"]),
    )


def _embedder(name: str) -> Embedder:
    return HashingEmbedder() if name == "hashing" else default_embedder()


def _as_json(finished: Finished, setting: Setting) -> dict[str, Any]:
    results = finished.results
    return {
        "games": len(results.tasks),
        "seeds": list(results.seeds),
        "step_limit": setting.step_limit,
        "curves": {
            arm: [
                {
                    "trial": p.trial,
                    "solved": p.share.successes,
                    "n": p.share.n,
                    "low": round(p.share.low, 4),
                    "high": round(p.share.high, 4),
                }
                for p in results.curve(arm).points
            ]
            for arm in results.arms
        },
        "lessons": {arm: results.lessons(arm) for arm in results.arms},
        "run": str(setting.out),
        "lessons_at": finished.lessons_at,
        "lessons_at_start": finished.known,
        "picture": str(finished.picture) if finished.picture else None,
    }
