"""Real outcomes to draw the recalls of a simulation from: ALFWorld games with a lesson and without.

Each game is played by the offline player of :mod:`benchmarks.alfworld` in several search orders: without any lesson,
with the one of an earlier try at it, with the one of a try at another game of its kind, and with a planted one
(:mod:`benchmarks.lessons.harm_lessons`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import anyio

from benchmarks.alfworld.agent import LESSONS_BLOCK, WON, GameAgent, OfflinePlayer, tasks_for, write_lesson
from benchmarks.alfworld.games import Game, load_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import STEP_LIMIT
from benchmarks.lessons.harm_lessons import misleading
from jeeves_reflexion import Attempt, Session, Task, Trial
from jeeves_reflexion.types import Evaluation

WITHOUT: Final = "no lesson"
_Written: TypeAlias = tuple[str, str]  # the lesson of a game, and a planted one
_LESSON_TRIES: Final = 8  # by which the right place is found, for the planted lesson to avoid


@dataclass(frozen=True)
class _Table:
    """Plays games, so many at once."""

    pool: EnginePool
    games: Mapping[str, Game]
    limiter: anyio.CapacityLimiter

    async def won(self, task: Task, lesson: str, order: int) -> Attempt:
        """Return one attempt with a lesson, or without one if it is empty."""
        session = Session(blocks={LESSONS_BLOCK: f"- {lesson}"} if lesson else {})
        player = partial(OfflinePlayer, seed=order)
        async with self.limiter:
            return await GameAgent(self.pool, self.games, player, step_limit=STEP_LIMIT)(task, session)

    async def write(self, written: dict[str, _Written], task: Task, seed: int) -> None:
        """Write the lesson of a first try at a game, and a planted one from the first try that won."""
        own = ""
        for number in range(_LESSON_TRIES):
            tried = await self.won(task, "", -1 - number)
            won = bool(tried.metadata[WON])
            own = own or write_lesson(task, [Trial(1, tried, Evaluation(float(won), passed=won))]).lesson
            if won:
                planted = misleading(task, tried, random.Random(f"{seed} {task.id}"))
                if planted is not None:
                    written[task.id] = own, planted
                return

    async def play(
        self, wins: Counter[tuple[str, str]], task: Task, had: str, lesson: str, orders: int
    ) -> None:
        """Count in how many search orders a game is won with a lesson."""
        for order in range(orders):
            wins[had, task.id] += bool((await self.won(task, lesson, order)).metadata[WON])


async def win_shares(
    folder: Path, *, count: int, orders: int, seed: int, workers: int
) -> dict[str, list[float]]:
    """Return the share of search orders in which each of ``count`` games was won, by which lesson the player had.

    A game that no try won, so that no lesson can be planted for it, is left out.
    """
    games = load_games(folder)
    random.Random(seed).shuffle(games)
    games = sorted(games[:count], key=lambda game: game.kind)
    written: dict[str, _Written] = {}
    wins: Counter[tuple[str, str]] = Counter()
    async with EnginePool(workers) as pool:
        tasks = await tasks_for(pool, games, workers=workers)
        table = _Table(pool, {game.id: game for game in games}, anyio.CapacityLimiter(workers))
        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(table.write, written, task, seed)
        able = [task for task in tasks if task.id in written]
        async with anyio.create_task_group() as group:
            for task, other in zip(able, [*able[1:], able[0]], strict=True):
                for had, lesson in _lessons(written[task.id], written[other.id]).items():
                    group.start_soon(table.play, wins, task, had, lesson, orders)
    return {had: [wins[had, task.id] / orders for task in able] for had in _lessons(("", ""), ("", ""))}


def _lessons(mine: _Written, others: _Written) -> dict[str, str]:
    return {WITHOUT: "", "its own": mine[0], "of another game": others[0], "planted": mine[1]}
