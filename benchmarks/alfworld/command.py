"""The command ``jeeves-reflexion bench alfworld``."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion import ChatModel, ConfigurationError
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
from jeeves_reflexion.experiments import PlainProgress, figures

from ..options import ARMS_HELP, arms_option, closing, endpoint_options, key_option, named_model, setting_of
from .agent import ROOM
from .dry_run import dry_run_model
from .experiment import lessons_at, run
from .report import summary
from .setting import MODEL_STEP_LIMIT, STEP_LIMIT, Setting

REPEATS: Final = 3
"""How often a model may repeat a command that gets the same answer, as in the paper."""


@click.command("alfworld", epilog=ARMS_HELP)
@click.option(
    "--games", type=click.Path(path_type=Path), help="A folder of games, as alfworld-download writes it."
)
@click.option(
    "--limit", metavar="N", type=COUNT, help="The number of games; by default 134, or all of --games."
)
@click.option("--game-seed", type=int, default=0, show_default=True, help="Seed of the generated games.")
@arms_option("retry,selective")
@plan_options("game", k=3, workers=cores)
@holdout_option("game")
@click.option(
    "--step-limit",
    type=click.IntRange(min=1),
    help=f"Commands per try; by default {STEP_LIMIT}, with a model {MODEL_STEP_LIMIT}, including its thoughts.",
)
@key_option
@recall_options
@embedder
@endpoint_options
@click.option(
    "--dry-run",
    is_flag=True,
    help="Use a scripted model instead of --model: no key and no cost; its figures mean nothing.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=0),
    help="With a model, end a try when a command was repeated this many times in a row with the same answer; "
    f"by default {REPEATS}, as in the paper; 0 for never.",
)
@cluster_options
@click.option(
    "--lessons",
    metavar="PLACE",
    envvar="JEEVES_BENCH_LESSONS",
    show_envvar=True,
    help="A folder with the lessons to start from, which keeps the new ones too. Or a database for this run's"
    " lessons: postgresql://...  [default: the run's folder]",
)
@click.option(
    "--made-games",
    type=click.Path(path_type=Path),
    default=Path("runs/games"),
    show_default=True,
    help="The folder of generated games.",
)
@folder_options
@track_option
@spending_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def alfworld(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Household tasks in the real ALFWorld engine, with memory and without.

    Without --model, a rule-based player plays; it learns by reading recalled lessons.
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
        result = {
            "run": str(setting.out),
            "report": str(finished.report),
            "picture": str(finished.picture) if finished.picture else None,
            "step_limit": setting.step_limit,
            "lessons_at": finished.lessons_at,
            "lessons_at_start": finished.known,
            "lessons": {arm: results.lessons(arm) for arm in results.arms},
            **figures(results),
        }
        click.echo(json.dumps(result, indent=2))
    else:
        click.echo("\n" + summary(finished, setting))
    if results.interrupted:
        click.get_current_context().exit(1)


def _setting(options: dict[str, Any]) -> Setting:
    lessons, model, repeats, folder = options["lessons"], _model(options), options["repeats"], None
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
        repeats=(REPEATS if repeats is None else repeats or None) if model else None,
    )


def _model(options: dict[str, Any]) -> ChatModel | None:
    """Return the model that the options name; None for the offline player. Raises if options don't go together."""
    if options["dry_run"]:
        if options["model"] or options["base_url"]:
            raise ConfigurationError("--dry-run uses a scripted model: leave --model and --base-url out")
        return dry_run_model()
    model = named_model(options)
    if model is None and options["repeats"] is not None:
        raise ConfigurationError("--repeats goes with --model or --dry-run")
    return model
