"""The ALFWorld games of a measurement, in which equal attempts are played once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.alfworld.agent import LESSONS_BLOCK, GameAgent, OfflinePlayer, lessons_in
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.policy import Explorer
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import STEP_LIMIT
from jeeves_reflexion import Attempt, Session, Task


class Games:
    """Plays games with the offline player. Engine and player are deterministic, so equal attempts are played once."""

    def __init__(self, pool: EnginePool, games: Sequence[Game]) -> None:
        self._pool = pool
        self._games: Mapping[str, Game] = {game.id: game for game in games}
        self._played: dict[tuple[object, ...], Attempt] = {}

    async def attempt(self, seed: int, task: Task, session: Session) -> Attempt:
        """Play with the search order of this seed. Only lessons that the player can read make attempts differ."""
        lessons = lessons_in(session.blocks.get(LESSONS_BLOCK, ""))
        key = (seed, session.attempt, task.id, Explorer(task.prompt, lessons=lessons).read_lessons)
        if key not in self._played:
            player = partial(OfflinePlayer, seed=seed)
            agent = GameAgent(self._pool, self._games, player, step_limit=STEP_LIMIT)
            self._played[key] = await agent(task, session)
        return self._played[key]

    @property
    def played(self) -> int:
        """How many attempts the engine played."""
        return len(self._played)
