"""The command ``jeeves-reflexion bench alfworld``."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click

from jeeves_reflexion.cli.bench_options import (
    cluster_options,
    cores,
    folder_options,
    holdout_option,
    plan_options,
    recall_options,
    spending_options,
    track_option,
    tracked,
)
from jeeves_reflexion.cli.options import COUNT, embedder
from jeeves_reflexion.experiments import ARMS, PlainProgress, figures

from ..options import arms_option, closing, key_option, setting_of
from .agent import ROOM
from .experiment import MODEL_STEP_LIMIT, STEP_LIMIT, Setting, lessons_at, run
from .model_options import model_of, model_options, repeats_of
from .report import summary

_ARMS_HELP = "; ".join(f"{name}: {what}" for name, what in ARMS.items())


@click.command("alfworld", epilog=f"Arms: {_ARMS_HELP}.")
@click.option(
    "--games", type=click.Path(path_type=Path), help="A folder of games as alfworld-download writes it."
)
@click.option(
    "--limit",
    metavar="N",
    type=COUNT,
    help="How many games; by default 134, or all of --games.",
)
@click.option("--game-seed", type=int, default=0, show_default=True, help="Seed of the games that are made.")
@arms_option("retry,selective")
@plan_options("game", k=3, workers=cores)
@holdout_option("game")
@click.option(
    "--step-limit",
    type=click.IntRange(min=1),
    help=f"Commands per try; {STEP_LIMIT}, with a model {MODEL_STEP_LIMIT}, its thoughts among them.",
)
@key_option
@recall_options
@embedder
@model_options
@cluster_options
@click.option(
    "--lessons",
    metavar="PLACE",
    envvar="JEEVES_BENCH_LESSONS",
    show_envvar=True,
    help="A folder: a lesson store to start from and to leave behind. Or a database for this run's lessons:"
    " postgresql://...  [default: the run's folder]",
)
@click.option(
    "--made-games",
    type=click.Path(path_type=Path),
    default=Path("runs/games"),
    show_default=True,
    help="Where made games are kept.",
)
@folder_options
@track_option
@spending_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def alfworld(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Household tasks in the real ALFWorld engine, with memory and without.

    Without --model a rule-based player plays: it needs no model, and learns by reading recalled lessons.
    """
    setting = _setting(options)
    track = tracked(options["track"], "alfworld")
    play = partial(run, setting, say=partial(click.echo, err=True), watcher=PlainProgress())
    try:
        finished = anyio.run(closing, setting.model, play)
    except KeyboardInterrupt:
        click.echo(
            f"Kept: lessons in {lessons_at(setting)}, the log in {setting.out / 'rows.jsonl'}", err=True
        )
        raise
    results = finished.results
    track(results, setting.out)
    if options["as_json"]:
        found = {
            "run": str(setting.out),
            "report": str(finished.report),
            "picture": str(finished.picture) if finished.picture else None,
            "step_limit": setting.step_limit,
            "lessons_at": finished.lessons_at,
            "lessons_at_start": finished.known,
            "lessons": {arm: results.lessons(arm) for arm in results.arms},
            **figures(results),
        }
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo("\n" + summary(finished, setting))
    if results.interrupted:
        click.get_current_context().exit(1)


def _setting(options: dict[str, Any]) -> Setting:
    lessons, model = options["lessons"], model_of(options)
    folder = None
    if lessons is not None and "://" not in lessons:
        folder, options = Path(lessons), {**options, "lessons": None}
    shared = setting_of(options, "alfworld")
    shared["plan"] = replace(shared["plan"], holdout_by=ROOM, cluster="opening")
    return Setting(
        **shared,
        games_folder=options["games"],
        made_games=options["made_games"],
        count=options["limit"],
        game_seed=options["game_seed"],
        step_limit=options["step_limit"] or (MODEL_STEP_LIMIT if model else STEP_LIMIT),
        lessons=folder,
        model=model,
        repeats=repeats_of(options, model),
    )
