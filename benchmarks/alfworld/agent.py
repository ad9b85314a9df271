"""Plays an ALFWorld game as an agent of the framework: a player decides, the engine answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import anyio
import anyio.to_thread

from jeeves_reflexion import Attempt, ConfigurationError, ModelError, Reflection, Session, Step, Task, Trial
from jeeves_reflexion.events import StepTaken
from vectorstores import JSON

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
"""In a task's metadata: how its game calls putting a thing somewhere (:mod:`benchmarks.alfworld.dialect`)."""

ROOM = "room"
"""In a task's metadata, where games are held out by it: the floor plan of its game."""

THINK = "think: "
"""Begins a turn that is a thought: it goes to no game, and is answered with :data:`HEARD`."""

HEARD = "OK."

REPEATED = "repeated_action"


class Player(Protocol):
    """Decides the next move from what the game said last."""

    async def next(self, observation: str) -> Move:
        """Return a thought and a command."""
        ...


PlayerFactory: TypeAlias = Callable[[Task, Session], Player]


class GameAgent:
    """Plays the game of a task for at most ``step_limit`` turns: commands, and thoughts that a player takes a turn for.

    The player gets the opening, the lessons of the session and each observation, all as text; nothing else of the game
    reaches it.
    ``Attempt.metadata["won"]`` is the environment's own flag.

    ``repeats`` ends an attempt once a command was given that often again in a row and got the same answer each
    time. With 3 it is the heuristic of Shinn et al. 2023, section 4.1 ("executes the same action and receives the
    same response for more than 3 cycles"); the code that they published ends at the first, whatever the answer.
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
        """Play once; an engine or a model that fails after the first command leaves the steps up to there."""
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
    # The game would say "Nothing happens." to a thought, and stay as it is.
    if move.command.startswith(THINK):
        return replace(last, text=HEARD)
    return await episode.step(move.command)


class OfflinePlayer:
    """The rule-based explorer as a player; the order of its search is drawn anew for each attempt.

    It reads the block of lessons as sentences of advice, and steps in it as the record of its earlier attempts.
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
    """Return the sentences of a block of bullets."""
    return [line.removeprefix("- ") for line in block.splitlines() if line.strip()]


def write_lesson(task: Task, trials: Sequence[Trial]) -> Reflection:
    """Reflect on the last trial by rules, from the opening and the trajectory alone; no model is asked."""
    last = trials[-1]
    steps = [(step.thought, step.action, step.observation) for step in last.attempt.steps]
    lesson = reflect(task.prompt, steps, won=last.passed)
    return Reflection(lesson, outcome="success" if last.passed else "failed")


async def tasks_for(
    pool: EnginePool, games: Sequence[Game], *, workers: int, progress: Progress | None = None
) -> list[Task]:
    """Return a task for each game, in order; its prompt is what the game says at its opening."""
    openings: dict[str, str] = {}
    dialects: dict[str, JSON] = {}
    limiter = anyio.CapacityLimiter(workers)

    async def open_one(game: Game) -> None:
        async with limiter, pool.episode(game) as episode:
            openings[game.id] = episode.opening
            dialects[game.id] = await anyio.to_thread.run_sync(dialect_of, game)
        if progress is not None:
            progress(len(openings), len(games))

    async with anyio.create_task_group() as group:
        for game in games:
            group.start_soon(open_one, game)
    return [
        Task(openings[game.id], id=game.id, kind=game.kind, metadata={DIALECT: dialects[game.id]})
        for game in games
    ]


def with_rooms(tasks: Sequence[Task], games: Sequence[Game]) -> list[Task]:
    """Return the tasks of games with the room of each in their metadata."""
    return [
        replace(task, metadata={**task.metadata, ROOM: game.room})
        for task, game in zip(tasks, games, strict=True)
    ]
