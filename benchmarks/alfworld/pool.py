"""Plays many games at once, each in a worker process of its own.

::

    async with EnginePool(workers=2) as pool:
        async with pool.episode(game) as episode:
            print(episode.opening)
            observation = await episode.step("go to desk 1")
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio

from benchmarks.alfworld.failures import EngineError, GameFileError
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.process import WorkerProcess
from benchmarks.alfworld.requirements import require_engine
from jeeves_reflexion.errors import ConfigurationError

_REMEMBERED: Final = 512  # games whose translation a worker keeps (see speedups)
_BANNER: Final = "-= Welcome to TextWorld, ALFRED! =-"


@dataclass(frozen=True, slots=True)
class Observation:
    """What the game says to one command, whether it is won, and the commands that would do something next."""

    text: str
    won: bool
    admissible: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Slot:
    """A place for one worker; the process is started at its first use and replaced when it fails."""

    process: WorkerProcess | None = None
    loaded: OrderedDict[Path, None] = field(default_factory=OrderedDict)

    def remember(self, path: Path) -> None:
        self.loaded[path] = None
        self.loaded.move_to_end(path)
        while len(self.loaded) > _REMEMBERED:
            self.loaded.popitem(last=False)


@dataclass(slots=True, eq=False)
class _Waiting:
    """An episode that waits for a free worker."""

    path: Path
    ready: anyio.Event
    slot: _Slot | None = None


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
        """The first observation: the room at a glance, then "Your task is to: ..."."""
        return self.first.text

    async def step(self, command: str) -> Observation:
        """Give one command; one that is not admissible is answered "Nothing happens.".

        Raises :class:`~benchmarks.alfworld.failures.EngineError` when the engine fails or gives no answer in
        time; the episode is over then.
        """
        if self._over:
            raise EngineError(
                f"game {self.game.id} is over: no command {command!r} can be given to it any more"
            )
        try:
            observation = await _ask(self._process, self.game, {"step": command}, self._timeout)
        except BaseException:
            self._over = True
            raise
        self.won = observation.won
        return observation

    def close(self) -> None:
        """Refuse further commands; the worker plays another game from now on."""
        self._over = True


class EnginePool:
    """Worker processes that play; an async context manager.

    ``workers`` episodes run at once, others wait for their turn; one that waits is preferably given to the
    worker that has played its game before, which then opens it in a fraction of the time. ``open_timeout``
    and ``step_timeout`` are seconds for one answer of the engine; a worker that exceeds them or dies is
    replaced.

    Raises :class:`~jeeves_reflexion.errors.ConfigurationError` and
    :class:`~jeeves_reflexion.errors.MissingDependencyError` when it is made and the engine can't run here.
    """

    def __init__(self, workers: int, *, open_timeout: float = 120.0, step_timeout: float = 30.0) -> None:
        if workers < 1:
            raise ConfigurationError(f"workers must be at least 1, not {workers}")
        if open_timeout <= 0 or step_timeout <= 0:
            raise ConfigurationError("open_timeout and step_timeout must be more than 0 seconds")
        require_engine()
        self._open_timeout = open_timeout
        self._step_timeout = step_timeout
        self._slots = [_Slot() for _ in range(workers)]
        self._free: list[_Slot] = []
        self._queue: list[_Waiting] = []
        self._entered = False

    async def __aenter__(self) -> Self:
        self._free = list(self._slots)
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered = False
        waiting, self._queue = self._queue, []
        for one in waiting:
            one.ready.set()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for slot in self._slots:
                    group.start_soon(self._end, slot)

    @asynccontextmanager
    async def episode(self, game: Game) -> AsyncIterator[Episode]:
        """Play ``game`` from its beginning; waits for a free worker.

        Raises :class:`~benchmarks.alfworld.failures.GameFileError` for a file that is no game and
        :class:`~benchmarks.alfworld.failures.EngineError` when the engine can't open it.
        """
        if not self._entered:
            raise EngineError(
                f"game {game.id}: the pool is not open; use it inside 'async with EnginePool(...)'"
            )
        slot = await self._take(game)
        try:
            episode = await self._start(slot, game)
            try:
                yield episode
            finally:
                episode.close()
        finally:
            await self._give_back(slot)

    async def rest(self) -> None:
        """End the processes that have nothing to do; the next game starts one again."""
        async with anyio.create_task_group() as group:
            for slot in self._free:
                group.start_soon(self._end, slot)

    async def _start(self, slot: _Slot, game: Game) -> Episode:
        if slot.process is None:
            slot.process = await WorkerProcess.start()
        opening = {"open": str(game.path.absolute())} if game.data is None else {"begin": dict(game.data)}
        first = await _ask(slot.process, game, opening, self._open_timeout)
        slot.remember(game.path)
        text = first.text.removeprefix(_BANNER).strip()
        return Episode(game, slot.process, Observation(text, first.won, first.admissible), self._step_timeout)

    async def _take(self, game: Game) -> _Slot:
        path = game.path
        if self._free:
            # Of the workers that have not played it, the one with the fewest games shares the work best; but no process
            # is started while one has nothing to do.
            slot = min(
                self._free, key=lambda free: (path not in free.loaded, free.process is None, len(free.loaded))
            )
            self._free.remove(slot)
            return slot
        waiting = _Waiting(path, anyio.Event())
        self._queue.append(waiting)
        try:
            await waiting.ready.wait()
        except BaseException:
            if waiting.slot is not None:  # it was handed over at the moment of the cancellation
                self._pass_on(waiting.slot)
            elif waiting in self._queue:
                self._queue.remove(waiting)
            raise
        if waiting.slot is None:
            raise EngineError(f"game {game.id}: the pool was closed while the game waited for a worker")
        return waiting.slot

    async def _give_back(self, slot: _Slot) -> None:
        try:
            if slot.process is not None and not slot.process.alive:
                await self._end(slot)
        finally:
            self._pass_on(slot)

    def _pass_on(self, slot: _Slot) -> None:
        if not self._queue:
            self._free.append(slot)
            return
        elsewhere = {path for other in self._slots if other is not slot for path in other.loaded}
        # Own games first, then new ones, then those another worker has; the first come of each.
        waiting = min(self._queue, key=lambda one: (one.path not in slot.loaded, one.path in elsewhere))
        self._queue.remove(waiting)
        waiting.slot = slot
        waiting.ready.set()

    async def _end(self, slot: _Slot) -> None:
        process, slot.process = slot.process, None
        slot.loaded.clear()
        if process is not None:
            await process.close()


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
    return _observation(reply)


def _observation(reply: dict[str, Any]) -> Observation:
    return Observation(text=reply["text"], won=reply["won"], admissible=tuple(reply["admissible"]))
