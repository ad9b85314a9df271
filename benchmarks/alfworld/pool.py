"""Plays many games at once, each in a worker process of its own.

::

    async with EnginePool(workers=2) as pool:
        async with pool.episode(game) as episode:
            print(episode.opening)
            observation = await episode.step("go to desk 1")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import anyio

from jeeves_reflexion.errors import ConfigurationError

from .failures import EngineError, GameFileError
from .games import Game
from .process import WorkerProcess
from .requirements import require_engine

_BANNER: Final = "-= Welcome to TextWorld, ALFRED! =-"


@dataclass(frozen=True, slots=True)
class Observation:
    """The game's answer to one command, whether the game is won, and the commands that would have an effect next."""

    text: str
    won: bool
    admissible: tuple[str, ...]


class Episode:
    """One game being played; made by :meth:`EnginePool.episode`."""

    def __init__(self, game: Game, process: WorkerProcess, first: Observation, timeout: float) -> None:
        self.game = game
        self.first = first
        self.won = first.won
        self._process = process
        self._timeout = timeout
        self._over = False

    @property
    def opening(self) -> str:
        """The first observation: what is in sight in the room, then "Your task is to: ..."."""
        return self.first.text

    async def step(self, command: str) -> Observation:
        """Give one command. The answer to a command that is not admissible is "Nothing happens.".

        Raises :class:`~benchmarks.alfworld.failures.EngineError` if the engine fails or gives no answer in time; then
        the episode is over.
        """
        if self._over:
            raise EngineError(f"game {self.game.id} is over: it takes no command {command!r} any more")
        try:
            observation = await _ask(self._process, self.game, {"step": command}, self._timeout)
        except BaseException:
            self._over = True
            raise
        self.won = observation.won
        return observation

    def close(self) -> None:
        """Refuse further commands; the worker will play another game."""
        self._over = True


class EnginePool:
    """Worker processes that play games; an async context manager.

    ``workers`` episodes run at a time, others wait for their turn. ``open_timeout`` and ``step_timeout`` are seconds
    for one answer of the engine; a worker that exceeds them or dies is replaced.

    The constructor raises :class:`~jeeves_reflexion.errors.ConfigurationError` or
    :class:`~jeeves_reflexion.errors.MissingDependencyError` if the engine can't run here.
    """

    def __init__(self, workers: int, *, open_timeout: float = 120.0, step_timeout: float = 30.0) -> None:
        if workers < 1:
            raise ConfigurationError(f"workers must be at least 1, not {workers}")
        if open_timeout <= 0 or step_timeout <= 0:
            raise ConfigurationError("open_timeout and step_timeout must be more than 0 seconds")
        require_engine()
        self._open_timeout = open_timeout
        self._step_timeout = step_timeout
        self._turns = anyio.Semaphore(workers)
        self._idle: list[WorkerProcess] = []
        self._entered = False

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered = False
        with anyio.CancelScope(shield=True):
            await self.rest()

    @asynccontextmanager
    async def episode(self, game: Game) -> AsyncIterator[Episode]:
        """Play ``game`` from its beginning; waits for a free worker.

        Raises :class:`~benchmarks.alfworld.failures.GameFileError` if the file is no game, and
        :class:`~benchmarks.alfworld.failures.EngineError` if the engine can't open it.
        """
        self._check_open(game)
        async with self._turns:
            self._check_open(game)
            # The worker that played last has the game in its caches most likely.
            process = self._idle.pop() if self._idle else await WorkerProcess.start()
            try:
                episode = await self._start(process, game)
                try:
                    yield episode
                finally:
                    episode.close()
            finally:
                if process.alive and self._entered:
                    self._idle.append(process)
                else:
                    await process.close()

    async def rest(self) -> None:
        """End the idle processes; the next game starts a new one."""
        idle, self._idle = self._idle, []
        async with anyio.create_task_group() as group:
            for process in idle:
                group.start_soon(process.close)

    def _check_open(self, game: Game) -> None:
        if not self._entered:
            raise EngineError(
                f"game {game.id}: the pool is not open; use it inside 'async with EnginePool(...)'"
            )

    async def _start(self, process: WorkerProcess, game: Game) -> Episode:
        opening = {"open": str(game.path.absolute())} if game.data is None else {"begin": dict(game.data)}
        first = await _ask(process, game, opening, self._open_timeout)
        text = first.text.removeprefix(_BANNER).strip()
        return Episode(game, process, Observation(text, first.won, first.admissible), self._step_timeout)


async def _ask(
    process: WorkerProcess, game: Game, request: Mapping[str, object], timeout: float
) -> Observation:
    doing = f"game {game.id}, command {request['step']!r}" if "step" in request else f"opening game {game.id}"
    try:
        reply = await process.ask(request, timeout=timeout)
    except TimeoutError as error:
        raise EngineError(
            f"{doing}: no answer from the engine within {timeout:g} s; its process is replaced"
        ) from error
    except EngineError as error:
        raise EngineError(f"{doing}: {error}") from error
    if "error" in reply:
        raise (GameFileError if reply.get("file") else EngineError)(f"{doing}: {reply['error']}")
    return Observation(text=reply["text"], won=reply["won"], admissible=tuple(reply["admissible"]))
