"""How each arm of a run plays, in the process that runs it or in worker processes elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias

from jeeves_reflexion import (
    ChatModel,
    LessonReflector,
    LoopOptions,
    Reflexion,
    RewardEvaluator,
    ScriptedModel,
    Session,
    Task,
)
from jeeves_reflexion.experiments import ArmName, arm_lessons, arm_of
from jeeves_reflexion.experiments.executors import Tools
from jeeves_reflexion.experiments.location import LessonLocation, RunLocation, embedder_factory
from vectorstores import Embedder, HashingEmbedder, VectorStore

from .agent import WON, GameAgent, OfflinePlayer, PlayerFactory, write_lesson
from .games import Game, read_game_data
from .model_player import ModelPlayer
from .pool import EnginePool
from .setting import Setting

MODEL = "model"

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
    """Return the loop of one arm and seed: all arms share everything but how they remember."""
    plan = setting.plan
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
        lesson_store=arm_lessons(
            arm, table.scope(arm, seed), table.tasks, settings=setting.settings, seed=seed
        ),
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


@dataclass(frozen=True, slots=True)
class GamesKit:
    """What plays a run's games in other processes, each with an engine of its own for each game played at a time.

    It carries what the engine needs of each game, for game files are on one machine; its setting has stand-ins for the
    model and the embedder.
    """

    setting: Setting
    games: Sequence[Game]
    tasks: Sequence[Task]
    place: LessonLocation
    make_embedder: Callable[[], Embedder]

    @classmethod
    def of(
        cls, setting: Setting, games: Sequence[Game], tasks: Sequence[Task], place: LessonLocation
    ) -> Self:
        """Return the kit of a run; reads the games' files."""
        model = None if setting.model is None else ScriptedModel((), name=setting.model.name)
        bare = replace(setting, model=model, embedder=HashingEmbedder(), runs_on=RunLocation())
        return cls(bare, _with_data(games), tasks, place, embedder_factory(setting.embedder))

    @asynccontextmanager
    async def open(self, models: Callable[[str], ChatModel]) -> AsyncIterator[Tools]:
        """Open the engines and the lessons."""
        model = None if self.setting.model is None else models(MODEL)
        setting = replace(self.setting, model=model, embedder=self.make_embedder())
        async with EnginePool(setting.plan.workers) as pool, self.place.store(setting.embedder) as store:
            games = {game.id: game for game in self.games}
            table = Table(pool, games, self.tasks, partial(self.place.scope, store))
            yield Tools(partial(make_loop, setting, table))


def _with_data(games: Sequence[Game]) -> list[Game]:
    """Return the games with what the engine needs; a text that several games have is there, and is sent, once."""
    texts: dict[str, str] = {}
    return [
        replace(
            game,
            data={part: texts.setdefault(text, text) for part, text in read_game_data(game.path).items()},
        )
        for game in games
    ]
