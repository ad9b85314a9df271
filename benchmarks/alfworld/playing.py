"""Makes the loop of each arm, in the process of the run or in worker processes elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from jeeves_reflexion import LessonReflector, LoopOptions, Reflexion, RewardEvaluator, Task
from jeeves_reflexion.experiments import ArmName, arm_lessons, arm_of
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation
from vectorstores import VectorStore

from ..runs import OpenTools
from .agent import WON, GameAgent, OfflinePlayer, write_lesson
from .games import Game, read_game_data
from .model_player import ModelPlayer
from .pool import EnginePool
from .setting import Setting

ScopeOf: TypeAlias = Callable[[ArmName, int], VectorStore]
"""Returns the store of an arm and a seed."""


@dataclass(frozen=True, slots=True)
class Table:
    """What all arms share."""

    pool: EnginePool
    games: Mapping[str, Game]
    tasks: Sequence[Task]
    scope: ScopeOf


def make_loop(setting: Setting, table: Table, arm: ArmName, seed: int) -> Reflexion:
    """Return the loop of one arm and seed; the arms differ only in how they remember."""
    model = setting.model
    player = partial(OfflinePlayer, seed=seed) if model is None else partial(ModelPlayer, model)
    agent = GameAgent(table.pool, table.games, player, step_limit=setting.step_limit, repeats=setting.repeats)
    scope = table.scope(arm, seed)
    return Reflexion(
        agent,
        evaluator=RewardEvaluator(WON),
        reflector=write_lesson if model is None else LessonReflector(model),
        lesson_store=arm_lessons(arm, scope, table.tasks, settings=setting.settings, seed=seed),
        max_attempts=setting.plan.trials,
        top_k_lessons=setting.plan.k,
        options=LoopOptions(learn=arm_of(arm).learns),
    )


def open_tools(games: Sequence[Game], tasks: Sequence[Task]) -> OpenTools:
    """Return a function that opens engines for the games in other processes.

    It carries what the engine needs of each game, because the game files are on this machine.
    """
    return partial(_open_tools, _with_data(games), tasks)


@asynccontextmanager
async def _open_tools(
    games: Sequence[Game], tasks: Sequence[Task], setting: Setting, place: LessonLocation, store: VectorStore
) -> AsyncIterator[Tools]:
    async with EnginePool(setting.plan.workers) as pool:
        table = Table(pool, {game.id: game for game in games}, tasks, partial(place.scope, store))
        yield Tools(partial(make_loop, setting, table))


def _with_data(games: Sequence[Game]) -> list[Game]:
    """Return the games with what the engine needs; a text that games share is one object, so it is sent once."""
    texts: dict[str, str] = {}
    return [
        replace(
            game,
            data={part: texts.setdefault(text, text) for part, text in read_game_data(game.path).items()},
        )
        for game in games
    ]
