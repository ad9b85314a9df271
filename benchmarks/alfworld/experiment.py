"""One run of the benchmark: games, arms, trials, seeds, and the files that it writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from jeeves_reflexion import ChatModel, ConfigurationError, VectorLessonStore
from jeeves_reflexion.experiments import (
    ArmName,
    Results,
    RunLog,
    Watcher,
    estimate,
    run_experiment,
    withholding_json,
)
from jeeves_reflexion.experiments.arms import order_json
from jeeves_reflexion.summary import counted
from vectorstores import JSON, FaissVectorStore, VectorStore

from ..report import tell_quarters, write_run_report
from ..runs import MODEL, Setup
from .agent import tasks_for, with_rooms
from .games import Game, load_games, spread
from .generator import MIX, generate_games
from .playing import ScopeOf, Table, make_loop, open_tools
from .pool import EnginePool
from .setting import NAMESPACE, Setting


@dataclass(frozen=True, slots=True)
class Finished:
    """A run's results, its picture (if an arm was finished), the location of its lessons, and its report.

    ``known`` counts the lessons that the selective arm had before the first trial.
    """

    results: Results
    picture: Path | None
    lessons_at: str
    known: int
    report: Path


async def run(setting: Setting, *, say: Callable[[str], None], watcher: Watcher | None = None) -> Finished:
    """Get the games, play them in every arm, and write log, table and picture to ``setting.out``."""
    log = RunLog(setting.out)
    # Refuse wrong settings before the games are made, which takes longest.
    async with EnginePool(setting.workers_here) as pool, _lessons(setting, log) as lessons:
        if setting.resume and log.exists:
            # Now the store also holds what this run itself has learned.
            known = log.started_with("lessons_at_start", 0)
        else:
            known = await _known(setting, lessons.lasting, say)
        await log.open({**_config(setting), "lessons_at_start": known}, resume=setting.resume)
        games = await _games(setting, say)
        if not log.resumed:
            await log.tell("games", {"ids": [game.id for game in games]})
        opened = partial(tell_quarters, say, "opening games")
        tasks = await tasks_for(pool, games, workers=setting.workers_here, progress=opened)
        if setting.plan.holdout:
            # Only with a holdout, so that runs from before there was one can be resumed.
            tasks = with_rooms(tasks, games)
        table = Table(pool, {game.id: game for game in games}, tasks, lessons.scope)
        results = await _played(setting, table, log, say, watcher)
    await log.save("curve.md", results.table() + "\n")
    written = await write_run_report(results, setting.out, title=f"ALFWorld, {_played_by(setting)}")
    picture = next(iter(written.pictures), None)
    return Finished(results, picture, lessons_at(setting, log), known, written.html)


async def _played(
    setting: Setting, table: Table, log: RunLog, say: Callable[[str], None], watcher: Watcher | None
) -> Results:
    plan, tasks, models = setting.plan, table.tasks, dict[str, ChatModel]()
    if setting.model is not None:
        say(f"{counted(len(tasks), 'game')}: {estimate(plan, tasks, setting.expected, setting.prices)}")
        models[MODEL] = await log.recorded(setting.model)
    make = partial(make_loop, replace(setting, model=models.get(MODEL)), table)
    runs_on = setting.runs_on
    if runs_on.ray is None:
        return await run_experiment(plan, tasks, make, log=log, watcher=watcher)
    await table.pool.rest()  # the games are played elsewhere
    games = [table.games[task.id] for task in tasks]
    place = runs_on.lesson_location(NAMESPACE, setting.out).of(log)
    setup = Setup.of(setting, place, await anyio.to_thread.run_sync(open_tools, games, tasks))
    async with runs_on.executor(setup, workers=plan.workers, models=models) as executor:
        return await run_experiment(plan, tasks, make, log=log, watcher=watcher, executor=executor)


@dataclass(frozen=True, slots=True)
class _Lessons:
    """The stores of a run, and the one of them that outlives the run, if any."""

    scope: ScopeOf
    lasting: VectorStore | None = None


@asynccontextmanager
async def _lessons(setting: Setting, log: RunLog) -> AsyncIterator[_Lessons]:
    embedder, place = setting.embedder, setting.runs_on.lesson_location(NAMESPACE, setting.out)
    if place.address is not None:
        async with place.store(embedder) as store:
            yield _Lessons(lambda arm, seed: place.of(log).scope(store, arm, seed))
        return
    lasting = FaissVectorStore(lasting_place(setting), embedder=embedder, namespace=NAMESPACE)
    passing = FaissVectorStore(setting.out / "arms", embedder=embedder, namespace=NAMESPACE)

    def scope(arm: ArmName, seed: int) -> VectorStore:
        lasts = arm == "selective" and seed == setting.plan.seeds[0]
        return lasting if lasts else passing.scoped(f"{arm}-{seed}")

    async with lasting, passing:
        yield _Lessons(scope, lasting)


def lasting_place(setting: Setting) -> Path:
    """Return the folder of the selective arm's lessons."""
    return setting.lessons or setting.out / "lessons"


def lessons_at(setting: Setting, log: RunLog | None = None) -> str:
    """Describe where a run keeps its lessons."""
    if setting.runs_on.lessons is not None:
        run_id = log.id if log is not None else "<id of the run>"
        return f"the database, namespaces {NAMESPACE}-{run_id}-<arm>-<seed>"
    if "selective" in setting.plan.arms:
        return f"{lasting_place(setting)} (namespace {NAMESPACE})"
    return f"{setting.out / 'arms'} (a namespace for each arm and seed, such as {setting.plan.arms[0]}-0)"


async def _games(setting: Setting, say: Callable[[str], None]) -> list[Game]:
    if setting.games_folder is not None:
        games = await anyio.to_thread.run_sync(load_games, setting.games_folder)
        return spread(games)[: setting.count]
    count = setting.count or sum(MIX.values())
    say(f"Making {count} games (seed {setting.game_seed}), each won once in the engine to prove it ...")
    return await generate_games(
        setting.made_games,
        count=count,
        seed=setting.game_seed,
        workers=setting.workers_here,
        progress=partial(tell_quarters, say, "making games"),
    )


async def _known(setting: Setting, lasting: VectorStore | None, say: Callable[[str], None]) -> int:
    """Count and report the lessons that the selective arm starts from; only one seed may start from any."""
    if lasting is None or "selective" not in setting.plan.arms:
        return 0
    # A lesson is several chunks; a store with chunks that are no lessons is not empty either.
    known = await VectorLessonStore(lasting).count() or await lasting.count()
    if known and len(setting.plan.seeds) > 1:
        raise ConfigurationError(
            f"{lasting_place(setting)} already holds {known} lessons, and only one seed can start from them: name one "
            "seed, or another folder for the lessons"
        )
    if known:
        say(f"The lesson store holds {known} lessons of earlier runs: the selective arm starts from those.")
    else:
        say("The lesson store is empty: every arm starts without a lesson.")
    return known


def _config(setting: Setting) -> dict[str, JSON]:
    plan = setting.plan
    return {
        "benchmark": "alfworld",
        "arms": list(plan.arms),
        "trials": plan.trials,
        "seeds": list(plan.seeds),
        "workers": plan.workers,
        "k": plan.k,
        **({"holdout": plan.holdout, "holdout_by": plan.holdout_by} if plan.holdout else {}),
        "games_from": str(setting.games_folder)
        if setting.games_folder
        else f"generated, seed {setting.game_seed}",
        "step_limit": setting.step_limit,
        "repeats": setting.repeats,
        # Former options, which keep old runs resumable.
        "show_commands": False,
        "free_thoughts": False,
        "player": setting.model.name if setting.model else "offline",
        "embedder": setting.embedder.id,
        "key": setting.settings.key,
        "min_similarity": setting.settings.min_similarity,
        **withholding_json(setting.settings),
        **order_json(setting.settings.order),
    }


def _played_by(setting: Setting) -> str:
    return setting.model.name if setting.model else "offline player"
