"""What all arms share: the games, the player, the verdict, the lessons' words and the vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchmarks.alfworld.agent import LESSONS_BLOCK, USED, WON, GameAgent, OfflinePlayer, lessons_in
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.rules_reflector import reflect
from benchmarks.peers.child import ChildError
from benchmarks.peers.known_games import RememberingPool
from jeeves_reflexion import Session, Task
from vectorstores import Embedder

ROOM = 3
"""Lessons that the player reads, and that every arm recalls at most."""


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt at a game: whether it was won, and what the framework had recalled for it.

    ``recalled`` are the lessons in the block, of which ``same_game`` come from this game, ``same_kind`` from a game of
    its kind, and ``used`` told the player something about this game.
    """

    task: str
    number: int
    won: bool
    steps: int
    recalled: int
    same_game: int
    same_kind: int
    used: int


@dataclass(slots=True)
class Referee:
    """Plays and embeds for all lanes; remembers vectors."""

    pool: RememberingPool
    games: Mapping[str, Game]
    tasks: Sequence[Task]
    embedder: Embedder
    step_limit: int
    _vectors: dict[str, list[float]] = field(default_factory=dict)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the texts' vectors."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, (await self.embedder.embed(new)).tolist(), strict=True))
        return [self._vectors[text] for text in texts]

    def agent(self, seed: int) -> GameAgent:
        """Return the player of a seed, as the ALFWorld benchmark has it."""
        return GameAgent(
            self.pool,
            self.games,
            partial(OfflinePlayer, room_for=ROOM, seed=seed),
            step_limit=self.step_limit,
        )


class Lane:
    """The referee's side of one arm and seed: answers what a framework's process asks, and keeps the tries."""

    def __init__(self, referee: Referee, seed: int) -> None:
        self._referee = referee
        self._agent = referee.agent(seed)
        self._task: Task | None = None
        self._sources: dict[str, list[Task]] = {}
        self._number = 0
        self.tries: list[Try] = []
        self.written = 0
        self.unknown = 0

    def begin(self, task: Task) -> None:
        """Start a game: attempts are counted from 1, since not every framework says which attempt it is at."""
        self._task, self._number = task, 0

    @property
    def made(self) -> int:
        """Attempts at the present game so far."""
        return self._number

    async def answer(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a question of the framework's process."""
        match said["ask"]:
            case "embed":
                return {"vectors": await self._referee.embed(said["texts"])}
            case "play":
                return await self._play(said["block"])
            case "reflect":
                return {"lesson": self._reflect(said["steps"], won=said["won"])}
            case what:
                raise ChildError(f"there is no answer to {what!r}")

    async def _play(self, block: str) -> Mapping[str, Any]:
        task = self._now()
        self._number += 1
        session = Session().for_attempt(self._number, {LESSONS_BLOCK: block})
        attempt = await self._agent(task, session)
        if attempt.error:
            raise ChildError(f"game {task.id}: {attempt.error}")
        won, used = attempt.metadata[WON] is True, attempt.metadata[USED]
        sources = self._sources_of(block)
        self.tries.append(
            Try(
                task.id,
                self._number,
                won,
                len(attempt.steps),
                recalled=len(sources),
                same_game=sum(any(t.id == task.id for t in source) for source in sources),
                same_kind=sum(any(t.kind == task.kind for t in source) for source in sources),
                used=len(used) if isinstance(used, Sequence) else 0,
            )
        )
        return {"steps": [[s.thought, s.action, s.observation] for s in attempt.steps], "won": won}

    def cut(self, unplayed: int) -> None:
        """Take back the end of the last attempt, which the framework stopped before its last ``unplayed`` steps."""
        if unplayed:
            last = self.tries[-1]
            self.tries[-1] = replace(last, won=False, steps=last.steps - unplayed)

    def _reflect(self, steps: Sequence[Sequence[str]], *, won: bool) -> str:
        task = self._now()
        lesson = reflect(task.prompt, [(t, a, o) for t, a, o in steps], won=won)
        self.written += 1
        self._sources.setdefault(lesson, []).append(task)
        return lesson

    def _sources_of(self, block: str) -> list[list[Task]]:
        """The tasks that taught each lesson in a block; a line may hold several lessons that ran into each other."""
        found: list[list[Task]] = []
        for line in lessons_in(block):
            whole = self._sources.get(line)
            inside = [whole] if whole else [tasks for text, tasks in self._sources.items() if text in line]
            self.unknown += not inside
            found += inside
        return found

    def _now(self) -> Task:
        if self._task is None:
            raise ChildError("no game has begun")
        return self._task
