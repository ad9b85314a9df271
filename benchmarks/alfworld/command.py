"""The command ``jeeves-reflexion bench alfworld``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import click

from jeeves_reflexion import OpenAIModel
from jeeves_reflexion.cli.bench_options import (
    check_executor,
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
from jeeves_reflexion.experiments import ARMS, PlainProgress, recall_settings
from jeeves_reflexion.experiments.location import run_location

from ..options import (
    arms_option,
    embedder_called,
    expected_of,
    key_option,
    plan_of,
    prices_of,
    run_folder,
)
from ..report import share_json
from .agent import ROOM
from .experiment import MODEL_STEP_LIMIT, STEP_LIMIT, Finished, Setting, lessons_at, run
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
    check_executor(options)
    setting = _setting(options)
    track = tracked(options["track"], "alfworld")
    try:
        finished = anyio.run(_run, setting)
    except KeyboardInterrupt:
        click.echo(
            f"Kept: lessons in {lessons_at(setting)}, the log in {setting.out / 'rows.jsonl'}", err=True
        )
        raise
    track(finished.results, setting.out)
    if options["as_json"]:
        click.echo(json.dumps(_as_json(finished, setting), indent=2))
    else:
        click.echo("\n" + summary(finished, setting))
    if finished.results.interrupted:
        click.get_current_context().exit(1)


async def _run(setting: Setting) -> Finished:
    watcher = PlainProgress()
    try:
        return await run(setting, say=lambda line: click.echo(line, err=True), watcher=watcher)
    finally:
        if isinstance(setting.model, OpenAIModel):
            await setting.model.aclose()


def _setting(options: dict[str, Any]) -> Setting:
    model = model_of(options)
    lessons = options["lessons"]
    in_database = lessons is not None and "://" in lessons
    return Setting(
        plan=replace(plan_of(options), holdout_by=ROOM, cluster="opening"),
        out=run_folder(options, "alfworld"),
        embedder=embedder_called(options["embedder"]),
        games_folder=options["games"],
        made_games=options["made_games"],
        count=options["limit"],
        game_seed=options["game_seed"],
        step_limit=options["step_limit"] or (MODEL_STEP_LIMIT if model else STEP_LIMIT),
        lessons=None if lessons is None or in_database else Path(lessons),
        model=model,
        repeats=repeats_of(options, model),
        show_commands=options["admissible"],
        free_thoughts=options["free_thoughts"],
        prices=prices_of(options),
        expected=expected_of(options),
        resume=options["resume"],
        settings=recall_settings(
            options["min_similarity"],
            withhold=options["withhold"],
            key=options["key"],
            order=options["order"],
        ),
        runs_on=replace(run_location(options), lessons=lessons if in_database else None),
    )


def _as_json(finished: Finished, setting: Setting) -> dict[str, Any]:
    results = finished.results
    return {
        "games": len(results.tasks),
        "seeds": list(results.seeds),
        "step_limit": setting.step_limit,
        "curves": {
            arm: [
                {"trial": p.trial, **(share_json(p.share, "solved") or {})} for p in results.curve(arm).points
            ]
            for arm in results.arms
        },
        "held_out": {
            arm: share_json(results.transfer(arm), "solved") for arm in results.arms if results.held_out
        },
        "costs": {arm: results.cost(arm).as_json() for arm in results.arms},
        "interrupted": results.interrupted,
        "lessons": {arm: results.lessons(arm) for arm in results.arms},
        "run": str(setting.out),
        "lessons_at": finished.lessons_at,
        "lessons_at_start": finished.known,
        "report": str(finished.report),
        "picture": str(finished.picture) if finished.picture else None,
    }
