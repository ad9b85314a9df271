"""Remembers what the engine said: a game is deterministic, so the same commands get the same answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

from benchmarks.alfworld.games import Game
from benchmarks.alfworld.pool import EnginePool, Episode, Observation

_Replies: TypeAlias = dict[tuple[str, ...], Observation]


class RememberingPool(EnginePool):
    """A pool that asks the engine only what it has not been asked yet in this run.

    Arms that play a game alike, as most first attempts do, cost the engine once; and a second round of the very same
    attempts costs it nothing, which leaves the frameworks alone on the clock.

    ``asked`` counts the attempts for which the engine was needed, and ``seconds`` is what it took for them.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._known: dict[str, _Replies] = {}
        self.asked = 0
        self.seconds = 0.0

    @asynccontextmanager
    async def episode(self, game: Game) -> AsyncIterator[Episode]:
        """Play ``game`` from its beginning, as far as possible from memory."""
        replies = self._known.setdefault(game.id, {})
        async with AsyncExitStack() as stack:
            if () not in replies:
                opened = await stack.enter_async_context(super().episode(game))
                replies[()] = _without_list(opened.first)
                await stack.aclose()
            yield _Remembered(game, replies, self, stack)

    async def really(self, game: Game, stack: AsyncExitStack, commands: Sequence[str]) -> Episode:
        """Open ``game`` in the engine and give it the commands so far."""
        self.asked += 1
        started = time.perf_counter()
        episode = await stack.enter_async_context(super().episode(game))
        for command in commands:
            await episode.step(command)
        self.seconds += time.perf_counter() - started
        return episode


class _Remembered(Episode):
    """An episode that goes to the engine at the first command that is not known."""

    def __init__(self, game: Game, replies: _Replies, pool: RememberingPool, stack: AsyncExitStack) -> None:
        self.game = game
        self.first = replies[()]
        self.won = self.first.won
        self._replies = replies
        self._pool = pool
        self._stack = stack
        self._given: tuple[str, ...] = ()
        self._real: Episode | None = None

    async def step(self, command: str) -> Observation:
        """Give one command."""
        before, self._given = self._given, (*self._given, command)
        known = self._replies.get(self._given)
        if known is None or self._real is not None:
            if self._real is None:
                self._real = await self._pool.really(self.game, self._stack, before)
            started = time.perf_counter()
            known = self._replies[self._given] = _without_list(await self._real.step(command))
            self._pool.seconds += time.perf_counter() - started
        self.won = known.won
        return known


def _without_list(seen: Observation) -> Observation:
    """Drop the admissible commands: they are most of an answer, and the player is not shown them."""
    return Observation(seen.text, seen.won, ())
