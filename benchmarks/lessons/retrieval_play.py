"""Plays ALFWorld games twice, the second time with what one way of recall offers of everybody's first lessons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.alfworld.agent import LESSONS_BLOCK, WON, GameAgent, OfflinePlayer, tasks_for, write_lesson
from benchmarks.alfworld.experiment import STEP_LIMIT
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.lessons.retrieval_recall import Way
from jeeves_reflexion import (
    Attempt,
    LessonSettings,
    LoopOptions,
    Reflexion,
    RewardEvaluator,
    Session,
    Task,
    VectorLessonStore,
)
from jeeves_reflexion.experiments import Plan, RunLog, run_experiment
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.lessons import lexical
from vectorstores import Embedder, Filter, InMemoryVectorStore

K: Final = 3
TRIES: Final = 2


@dataclass(frozen=True, slots=True)
class Field:
    """What is played: how many games, of which game seed, with which seeds of the player, how many at a time."""

    count: int
    game_seed: int
    seeds: tuple[int, ...]
    workers: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one way: by game, which seeds' second tries were won, of those whose first was not.

    ``others`` says that a game's own lessons were kept from it. ``offered`` is how many lessons a second try had on
    average, ``empty`` the share of second tries that had none. ``way`` None is no memory at all.
    """

    way: Way | None
    others: bool
    won: Mapping[str, Sequence[bool]]
    first: int
    games: int
    offered: float
    empty: float

    @property
    def solved(self) -> int:
        """How many games were solved by the second try."""
        return self.first + sum(sum(each) for each in self.won.values())


class Table:
    """Games and what was played: an attempt that would be the same again is played once.

    The engine and the offline player are deterministic: game, search order and lessons decide an attempt.
    """

    def __init__(self, pool: EnginePool, games: Sequence[Game], tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.played = 0
        self._pool = pool
        self._games = {game.id: game for game in games}
        self._known: dict[tuple[int, int, str, str], Attempt] = {}

    async def attempt(self, seed: int, task: Task, session: Session) -> Attempt:
        """Play, or remember."""
        key = (seed, session.attempt, task.id, session.blocks.get(LESSONS_BLOCK, ""))
        if key not in self._known:
            agent = GameAgent(
                self._pool,
                self._games,
                lambda task, session: OfflinePlayer(task, session, room_for=K, seed=seed),
                step_limit=STEP_LIMIT,
            )
            self._known[key] = await agent(task, session)
            self.played += 1
        return self._known[key]


async def play(
    folder: Path, field: Field, ways: Sequence[Way], embedder: Embedder, say: Callable[[str], None]
) -> tuple[list[Outcome], int]:
    """Make the games and play each way, with a game's own lessons and without; how many attempts the engine played."""
    # Attempts that are remembered take no time: a second try would search an index from before the first.
    lexical.MAX_AGE = 0.0
    games = await generate_games(
        folder / "games", count=field.count, seed=field.game_seed, workers=field.workers
    )
    async with EnginePool(field.workers) as pool:
        table = Table(pool, games, await tasks_for(pool, games, workers=field.workers))
        found = [await _played(table, None, field, embedder, folder, others=False)]
        for way in ways:
            for others in (False, True):
                found.append(await _played(table, way, field, embedder, folder, others=others))
                say(f"{way.name}{', others only' if others else ''}: {found[-1].solved} solved")
    return found, table.played


async def _played(
    table: Table, way: Way | None, field: Field, embedder: Embedder, folder: Path, *, others: bool
) -> Outcome:
    plan = Plan(("retry" if way is None else "selective",), TRIES, field.seeds, field.workers, K)
    log = RunLog(folder / "runs" / f"{'none' if way is None else way.name}-{others}".replace(" ", "_"))
    await log.open({"way": str(way), "others": others})
    stores = {seed: InMemoryVectorStore(embedder, namespace="lessons") for seed in field.seeds}
    try:
        results = await run_experiment(
            plan, table.tasks, lambda _, seed: _loop(table, way, seed, stores[seed], others=others), log=log
        )
    finally:
        for store in stores.values():
            await store.close()
    return _outcome(results, way, others=others)


def _loop(table: Table, way: Way | None, seed: int, store: InMemoryVectorStore, *, others: bool) -> Reflexion:
    async def agent(task: Task, session: Session) -> Attempt:
        return await table.attempt(seed, task, session)

    lessons = None
    if way is not None:
        where = _of_others if others else None
        lessons = VectorLessonStore(
            store,
            settings=LessonSettings(key=way.key, min_similarity=way.floor, picking=way.picking, where=where),
        )
    return Reflexion(
        agent,
        evaluator=RewardEvaluator(WON),
        reflector=write_lesson,
        lesson_store=lessons,
        max_attempts=TRIES,
        top_k_lessons=K,
        options=LoopOptions(learn=way is not None),
    )


def _of_others(task: Task) -> Filter:
    return {"task_id": {"$ne": task.id}}


def _outcome(results: Results, way: Way | None, *, others: bool) -> Outcome:
    won: dict[str, list[bool]] = defaultdict(list)
    offered: list[int] = []
    for row in results.rows:
        if row.trial.number == TRIES:
            won[row.task.id].append(row.trial.passed)
            offered.append(len(row.trial.recall.offered) if row.trial.recall else 0)
    first = sum(row.trial.passed for row in results.rows if row.trial.number < TRIES)
    again = max(len(offered), 1)
    return Outcome(
        way,
        others,
        dict(won),
        first,
        len(results.tasks) * len(results.seeds),
        sum(offered) / again,
        sum(number == 0 for number in offered) / again,
    )
