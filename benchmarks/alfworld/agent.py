"""An agent of the framework that plays an ALFWorld game: a player decides, the engine answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol, TypeAlias

import anyio.to_thread

from jeeves_reflexion import Attempt, ConfigurationError, ModelError, Reflection, Session, Step, Task, Trial
from jeeves_reflexion.events import StepTaken

from ..runs import some_at_a_time
from .dialect import dialect_of
from .failures import EngineError
from .games import Game
from .generator import Progress
from .policy import Explorer, Move
from .pool import EnginePool, Episode, Observation
from .record import read_record
from .rules_reflector import reflect

LESSONS_BLOCK = "reflexion_lessons"
WON = "won"
DIALECT = "dialect"
"""The key in a task's metadata for the dialect of its game (:mod:`benchmarks.alfworld.dialect`)."""

ROOM = "room"
"""The key in a task's metadata for the floor plan of its game, if games are held out by room."""

THINK = "think: "
"""Begins a turn that is a thought. It does not go to the game, and is answered with :data:`HEARD`."""

HEARD = "OK."
REPEATED = "repeated_action"


class Player(Protocol):
    """Decides on the next move from the game's last answer."""

    async def next(self, observation: str) -> Move:
        """Return a thought and a command."""
        ...


PlayerFactory: TypeAlias = Callable[[Task, Session], Player]


class GameAgent:
    """Plays the game of a task for at most ``step_limit`` turns, which are commands and the thoughts of a model.

    The player gets the opening, the lessons of the session and each observation, all as text, and nothing else of the
    game. ``Attempt.metadata["won"]`` is the environment's own flag.

    ``repeats`` ends an attempt when the same command was repeated that many times in a row with the same answer. The
    value 3 is the heuristic of Shinn et al. 2023, section 4.1 ("executes the same action and receives the same response
    for more than 3 cycles"); their published code ends at the first repetition, whatever the answer.
    """

    name = "alfworld"
    retry_safe = True

    def __init__(
        self,
        pool: EnginePool,
        games: Mapping[str, Game],
        player: PlayerFactory,
        *,
        step_limit: int,
        repeats: int | None = None,
    ) -> None:
        if step_limit < 1:
            raise ConfigurationError(f"step_limit must be at least 1, not {step_limit}")
        if repeats is not None and repeats < 1:
            raise ConfigurationError(f"repeats must be at least 1, or None for no such end; not {repeats}")
        self._pool = pool
        self._games = games
        self._player = player
        self._step_limit = step_limit
        self._repeats = repeats

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Play once. If engine or model fail after the first command, the attempt has the steps up to there."""
        steps: list[Step] = []
        player = self._player(task, session)
        error: str | None = None
        try:
            won = await self._play(task, session, player, steps)
        except (EngineError, ModelError) as failure:
            if not steps:
                raise
            won, error = False, f"{type(failure).__name__}: {failure}"
        return Attempt(
            steps[-1].observation if steps else "",
            tuple(steps),
            error=error,
            interrupted=None if won or error else self._reason(steps),
            metadata={WON: won},
        )

    async def _play(self, task: Task, session: Session, player: Player, steps: list[Step]) -> bool:
        async with self._pool.episode(self._games[task.id]) as episode:
            observation, won = episode.first, episode.won
            while not won and len(steps) < self._step_limit and not self._stuck(steps):
                move = await player.next(observation.text)
                observation = await _answered(episode, move, observation)
                won = observation.won
                steps.append(Step(move.thought, move.command, observation.text))
                await session.emit(
                    StepTaken(run_id=session.id, attempt=session.attempt, number=len(steps), step=steps[-1])
                )
        return won

    def _stuck(self, steps: Sequence[Step]) -> bool:
        if self._repeats is None or len(steps) <= self._repeats:
            return False
        last = {(step.action, step.observation) for step in steps[-self._repeats - 1 :]}
        return len(last) == 1

    def _reason(self, steps: Sequence[Step]) -> str:
        return REPEATED if self._stuck(steps) else "max_turns"


async def _answered(episode: Episode, move: Move, last: Observation) -> Observation:
    # A thought does not go to the game, which would answer "Nothing happens.".
    if move.command.startswith(THINK):
        return replace(last, text=HEARD)
    return await episode.step(move.command)


class OfflinePlayer:
    """The rule-based explorer as a player, with a new random order of search for each attempt.

    It reads the block of lessons as sentences of advice, or as the record of earlier attempts if it contains steps.
    """

    def __init__(self, task: Task, session: Session, *, seed: int) -> None:
        draw = f"{seed}:{task.id}:{session.attempt}".encode()
        block = session.blocks.get(LESSONS_BLOCK, "")
        record = read_record(block)
        self._explorer = Explorer(
            task.prompt,
            lessons=() if record else lessons_in(block),
            record=record,
            seed=int.from_bytes(hashlib.sha256(draw).digest()[:8]),
        )

    async def next(self, observation: str) -> Move:
        """Return the explorer's move."""
        return self._explorer.next(observation)


def lessons_in(block: str) -> list[str]:
    """Return the lines of a list with bullets."""
    return [line.removeprefix("- ") for line in block.splitlines() if line.strip()]


def write_lesson(task: Task, trials: Sequence[Trial]) -> Reflection:
    """Reflect on the last trial by rules, from the opening and the trajectory alone."""
    last = trials[-1]
    steps = [(step.thought, step.action, step.observation) for step in last.attempt.steps]
    lesson = reflect(task.prompt, steps, won=last.passed)
    return Reflection(lesson, outcome="success" if last.passed else "failed")


async def tasks_for(
    pool: EnginePool, games: Sequence[Game], *, workers: int, progress: Progress | None = None
) -> list[Task]:
    """Return a task for each game, in order; its prompt is the opening of the game."""
    opened = count(1)

    async def open_one(game: Game) -> Task:
        async with pool.episode(game) as episode:
            dialect = await anyio.to_thread.run_sync(dialect_of, game)
        if progress is not None:
            progress(next(opened), len(games))
        return Task(episode.opening, id=game.id, kind=game.kind, metadata={DIALECT: dialect})

    return await some_at_a_time([partial(open_one, game) for game in games], workers)


def with_rooms(tasks: Sequence[Task], games: Sequence[Game]) -> list[Task]:
    """Return the tasks with the room of each game in their metadata."""
    return [
        replace(task, metadata={**task.metadata, ROOM: game.room})
        for task, game in zip(tasks, games, strict=True)
    ]
