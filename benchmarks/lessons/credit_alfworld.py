"""Real outcomes for a simulation of recalls: ALFWorld games with a lesson and without.

The offline player of :mod:`benchmarks.alfworld` plays each game in several search orders: without a lesson, with the
lesson of an earlier try at the game, with that of a try at another game of its kind, and with a planted one
(:mod:`benchmarks.lessons.harm_lessons`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.alfworld.agent import LESSONS_BLOCK, WON, GameAgent, OfflinePlayer, tasks_for, write_lesson
from benchmarks.alfworld.games import Game, load_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import STEP_LIMIT
from benchmarks.lessons.harm_lessons import misleading
from benchmarks.runs import some_at_a_time
from jeeves_reflexion import Attempt, Session, Task, Trial
from jeeves_reflexion.types import Evaluation

WITHOUT: Final = "no lesson"
_Written: TypeAlias = tuple[str, str]  # the lesson of a game, and a planted one
_LESSON_TRIES: Final = 8  # tries to win a game; the planted lesson avoids the place that a won try found


@dataclass(frozen=True)
class _Table:
    """Plays games."""

    pool: EnginePool
    games: Mapping[str, Game]

    async def attempt(self, task: Task, lesson: str, order: int) -> Attempt:
        """Return one attempt with a lesson, or without one if ``lesson`` is empty."""
        session = Session(blocks={LESSONS_BLOCK: f"- {lesson}"} if lesson else {})
        player = partial(OfflinePlayer, seed=order)
        return await GameAgent(self.pool, self.games, player, step_limit=STEP_LIMIT)(task, session)

    async def write(self, task: Task, seed: int) -> _Written | None:
        """Write the lesson of the first try at a game, and a planted one from the first try that won, if any."""
        own = ""
        for number in range(_LESSON_TRIES):
            tried = await self.attempt(task, "", -1 - number)
            won = bool(tried.metadata[WON])
            own = own or write_lesson(task, [Trial(1, tried, Evaluation(float(won), passed=won))]).lesson
            if won:
                planted = misleading(task, tried, random.Random(f"{seed} {task.id}"))
                return None if planted is None else (own, planted)
        return None

    async def win_share(self, task: Task, lesson: str, orders: int) -> float:
        """Return the share of search orders in which a game is won with a lesson."""
        won = [(await self.attempt(task, lesson, order)).metadata[WON] for order in range(orders)]
        return sum(map(bool, won)) / orders


async def win_shares(
    folder: Path, *, count: int, orders: int, seed: int, workers: int
) -> dict[str, list[float]]:
    """Return the share of search orders in which each of ``count`` games was won, by the kind of lesson.

    Games that no try won are left out, because no lesson can be planted for them.
    """
    games = load_games(folder)
    random.Random(seed).shuffle(games)
    games = sorted(games[:count], key=lambda game: game.kind)
    async with EnginePool(workers) as pool:
        tasks = await tasks_for(pool, games, workers=workers)
        table = _Table(pool, {game.id: game for game in games})
        written = await some_at_a_time([partial(table.write, task, seed) for task in tasks], workers)
        able = [(task, lessons) for task, lessons in zip(tasks, written, strict=True) if lessons is not None]
        shares: dict[str, list[float]] = {}
        for kind in (WITHOUT, "its own", "of another game", "planted"):
            calls = []
            for (task, (own, planted)), (_, (another, _)) in zip(able, [*able[1:], *able[:1]], strict=True):
                lessons = {WITHOUT: "", "its own": own, "of another game": another, "planted": planted}
                calls.append(partial(table.win_share, task, lessons[kind], orders))
            shares[kind] = await some_at_a_time(calls, workers)
    return shares
