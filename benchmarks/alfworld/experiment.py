"""One run of the benchmark: games, arms, trials, seeds, and the files that it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

import anyio.to_thread

from benchmarks.alfworld.agent import WON, GameAgent, OfflinePlayer, PlayerFactory, tasks_for, write_lesson
from benchmarks.alfworld.games import Game, load_games
from benchmarks.alfworld.generator import MIX, generate_games
from benchmarks.alfworld.model_player import ModelPlayer
from benchmarks.alfworld.pool import EnginePool
from benchmarks.run_reports import write_run_report
from jeeves_reflexion import (
    ChatModel,
    ConfigurationError,
    LessonReflector,
    LessonSettings,
    LoopOptions,
    MissingDependencyError,
    Reflexion,
    RewardEvaluator,
    Session,
    Task,
    VectorLessonStore,
)
from jeeves_reflexion.comparisons import counted
from jeeves_reflexion.experiments import (
    ArmName,
    Expected,
    Plan,
    Results,
    RunLog,
    arm_lessons,
    arm_of,
    estimate,
    run_experiment,
)
from jeeves_reflexion.experiments.plot import plot_curves
from jeeves_reflexion.experiments.runner import Watcher
from jeeves_reflexion.models import Prices
from vectorstores import JSON, Embedder, FaissVectorStore, VectorStore

STEP_LIMIT = 16
"""Commands per attempt of the offline player, chosen on games of other seeds than those reported
(``python -m benchmarks.alfworld.choose_step_limit``) so that the first trial solves about half."""

MODEL_STEP_LIMIT = 50
"""Turns per attempt of a language model, as in the paper."""

NAMESPACE = "alfworld"
"""The namespace of the selective arm's lessons, which outlive the run where a place is named for them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run plays, and with what.

    ``free_thoughts`` lets a model think without taking a turn for it. ``prices`` and ``expected`` are for the estimate
    of what a run with a model costs.
    """

    plan: Plan
    out: Path
    embedder: Embedder
    games_folder: Path | None = None
    made_games: Path = Path("runs/games")
    count: int | None = None
    game_seed: int = 0
    step_limit: int = STEP_LIMIT
    lessons: Path | None = None
    model: ChatModel | None = None
    resume: bool = False
    repeats: int | None = None
    show_commands: bool = False
    free_thoughts: bool = False
    prices: Prices | None = None
    expected: Expected | None = None
    settings: LessonSettings = field(default_factory=LessonSettings)


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run leaves: its results, the picture (where it could be drawn), where its lessons are, and its report.

    ``known`` counts the lessons that the selective arm had before the first trial.
    """

    results: Results
    picture: Path | None
    lessons_at: str
    known: int
    report: Path


async def run(setting: Setting, *, say: Callable[[str], None], watcher: Watcher | None = None) -> Finished:
    """Get the games, play them in every arm, and write log, table and picture to ``setting.out``."""
    plan = setting.plan
    watcher = watcher or Watcher()
    lasting = FaissVectorStore(lasting_place(setting), embedder=setting.embedder, namespace=NAMESPACE)
    passing = FaissVectorStore(setting.out / "arms", embedder=setting.embedder, namespace=NAMESPACE)
    log = RunLog(setting.out)
    # What can be refused is refused before the games are made, which takes longest.
    async with EnginePool(plan.workers) as pool, lasting, passing:
        if setting.resume and log.exists:
            # What the store holds now is what this run itself has learned, too.
            known = log.started_with("lessons_at_start", 0)
        else:
            known = await _known(setting, lasting, say)
        await log.open({**_config(setting), "lessons_at_start": known}, resume=setting.resume)
        games = await _games(setting, say, watcher)
        if not log.resumed:
            await log.write("games", {"ids": [game.id for game in games]})
        opened = partial(watcher.prepared, "opening games")
        tasks = await tasks_for(pool, games, workers=plan.workers, progress=opened)
        if setting.model is not None:
            say(f"{counted(len(tasks), 'game')}: {estimate(plan, tasks, setting.expected, setting.prices)}")
        table = _Table(pool, {game.id: game for game in games}, tasks, lasting, passing)
        make = partial(_loop, setting, table)
        if setting.model is not None:
            make = partial(_loop, replace(setting, model=await log.recorded(setting.model)), table)
        results = await run_experiment(plan, tasks, make, log=log, watcher=watcher)
    await log.save("curve.md", results.table() + "\n")
    written = await write_run_report(
        results, setting.out, title=f"ALFWorld, {_played_by(setting)}", unit="game"
    )
    picture = await _picture(setting, results, known, say)
    return Finished(results, picture, lessons_at(setting), known, written.html)


def lasting_place(setting: Setting) -> Path:
    """Return the folder of the selective arm's lessons."""
    return setting.lessons or setting.out / "lessons"


def lessons_at(setting: Setting) -> str:
    """Say where a run keeps its lessons, for a person."""
    if "selective" in setting.plan.arms:
        return f"{lasting_place(setting)} (namespace {NAMESPACE})"
    return f"{setting.out / 'arms'} (a namespace for each arm and seed, such as {setting.plan.arms[0]}-0)"


async def _games(setting: Setting, say: Callable[[str], None], watcher: Watcher) -> list[Game]:
    if setting.games_folder is not None:
        games = await anyio.to_thread.run_sync(load_games, setting.games_folder)
        return _spread(games)[: setting.count]
    count = setting.count or sum(MIX.values())
    say(f"Making {count} games (seed {setting.game_seed}), each won once in the engine to prove it ...")
    return await generate_games(
        setting.made_games,
        count=count,
        seed=setting.game_seed,
        workers=setting.plan.workers,
        progress=partial(watcher.prepared, "making games"),
    )


def _spread(games: Sequence[Game]) -> list[Game]:
    """Order games so that any first few are of all kinds: the first of each kind, then the second of each, ..."""
    by_kind: dict[str, list[Game]] = {}
    for game in games:
        by_kind.setdefault(game.kind, []).append(game)
    turns = zip_longest(*by_kind.values())
    return [game for turn in turns for game in turn if game is not None]


async def _known(setting: Setting, lasting: VectorStore, say: Callable[[str], None]) -> int:
    """Count and say what the selective arm knows already; one seed alone may start from it."""
    # A lesson is several chunks; a chunk that is none is still not an empty store.
    known = await VectorLessonStore(lasting).count() or await lasting.count()
    if "selective" not in setting.plan.arms:
        return 0
    if known and len(setting.plan.seeds) > 1:
        raise ConfigurationError(
            f"{lasting_place(setting)} holds {known} lessons already: only one seed can start from them, so name one "
            "seed, or another place for the lessons"
        )
    if known:
        say(f"The lesson store holds {known} lessons of earlier runs: the selective arm starts from those.")
    else:
        say("The lesson store is empty: every arm starts without a lesson.")
    return known


@dataclass(frozen=True, slots=True)
class _Table:
    """What all arms share. ``lasting`` keeps the selective arm's lessons, ``passing`` those of the others."""

    pool: EnginePool
    games: dict[str, Game]
    tasks: Sequence[Task]
    lasting: VectorStore
    passing: VectorStore


def _loop(setting: Setting, table: _Table, arm: ArmName, seed: int) -> Reflexion:
    """The loop of one arm and seed: all arms share everything but how they remember."""
    plan = setting.plan
    lasting = arm == "selective" and seed == plan.seeds[0]
    scope = table.lasting if lasting else table.passing.scoped(f"{arm}-{seed}")
    return Reflexion(
        GameAgent(
            table.pool,
            table.games,
            _player(setting, seed),
            step_limit=setting.step_limit,
            repeats=setting.repeats,
            show_commands=setting.show_commands,
        ),
        evaluator=RewardEvaluator(WON),
        reflector=write_lesson if setting.model is None else LessonReflector(setting.model),
        lesson_store=arm_lessons(arm, scope, table.tasks, settings=setting.settings, seed=seed),
        max_attempts=plan.trials,
        top_k_lessons=plan.k,
        options=LoopOptions(learn=arm_of(arm).learns),
    )


def _player(setting: Setting, seed: int) -> PlayerFactory:
    model = setting.model
    if model is not None:
        return partial(ModelPlayer, model, thoughts_cost=not setting.free_thoughts)

    def offline(task: Task, session: Session) -> OfflinePlayer:
        return OfflinePlayer(task, session, room_for=setting.plan.k, seed=seed)

    return offline


def _config(setting: Setting) -> dict[str, JSON]:
    plan = setting.plan
    return {
        "benchmark": "alfworld",
        "arms": list(plan.arms),
        "trials": plan.trials,
        "seeds": list(plan.seeds),
        "workers": plan.workers,
        "k": plan.k,
        "games_from": str(setting.games_folder)
        if setting.games_folder
        else f"generated, seed {setting.game_seed}",
        "step_limit": setting.step_limit,
        "repeats": setting.repeats,
        "show_commands": setting.show_commands,
        "free_thoughts": setting.free_thoughts,
        "player": setting.model.name if setting.model else "offline",
        "embedder": setting.embedder.id,
        "key": setting.settings.key,
        "min_similarity": setting.settings.min_similarity,
    }


def _played_by(setting: Setting) -> str:
    return setting.model.name if setting.model else "offline player"


async def _picture(setting: Setting, results: Results, known: int, say: Callable[[str], None]) -> Path | None:
    title = (
        f"ALFWorld, {len(results.tasks)} games x {len(results.seeds)} seeds, {_played_by(setting)}, "
        f"{setting.step_limit} commands a try" + (f"\nselective starts from {known} lessons" if known else "")
    )
    draw = partial(plot_curves, results, setting.out / "curve.png", title=title)
    try:
        return await anyio.to_thread.run_sync(draw)
    except MissingDependencyError as error:
        say(str(error))
        return None
