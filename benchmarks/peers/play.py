"""Plays the arms: first for success, lanes side by side; then for time, the frameworks taking turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks.peers.arms import OURS, Arm
from benchmarks.peers.child import OUR_MODULE, PEER_MODULE, Child
from benchmarks.peers.referee import ROOM, Lane, Referee, Try
from jeeves_reflexion import Task


@dataclass(frozen=True, slots=True)
class Own:
    """What a run of one game took of a framework itself: seconds, CPU seconds, attempts."""

    seconds: float
    cpu: float
    attempts: int


@dataclass(slots=True)
class Played:
    """One arm and seed: all tries in the order made, the framework's own time per game, memory in MB, lessons."""

    arm: Arm
    seed: int
    tries: list[Try] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)
    written: int = 0
    kept: int | None = None
    unknown: int = 0
    cut: int = 0
    memory: Mapping[str, float | None] = field(default_factory=dict)
    version: str = ""


@dataclass(frozen=True, slots=True)
class Sides:
    """How the processes are started; ``modules`` by side."""

    peer_python: Path
    trials: int
    our_module: str = OUR_MODULE
    peer_module: str = PEER_MODULE

    def child(self, arm: Arm) -> Child:
        """Return the process of an arm, not started yet."""
        return (
            Child(self.our_module) if arm.side == OURS else Child(self.peer_module, python=self.peer_python)
        )


class Turn:
    """One arm's process with its lane."""

    def __init__(self, child: Child, referee: Referee, arm: Arm, seed: int) -> None:
        self._child = child
        self._lane = Lane(referee, seed)
        self._referee = referee
        self.played = Played(arm, seed)

    async def start(self, trials: int) -> None:
        """Have the framework made ready, with empty memory."""
        arm, embedder = self.played.arm, self._referee.embedder
        self.played.version = str(self._child.ready["version"])
        name = arm.embedder if arm.embedder != "referee" else embedder.id
        ready = await self._child.do(
            "start",
            self._lane.answer,
            memory=arm.memory,
            store=arm.store,
            embedder=name,
            dim=embedder.dim,
            base=arm.base,
            max_turns=arm.max_turns,
            trials=trials,
            k=ROOM,
        )
        self.played.memory = {"ready": ready["now"]}

    async def play(self, task: Task) -> None:
        """Have one game tried, as often as the framework does."""
        self._lane.begin(task)
        done = await self._child.do(
            "run", self._lane.answer, task=task.id, prompt=task.prompt, kind=task.kind
        )
        unplayed = int(done.get("unplayed", 0))
        self._lane.cut(unplayed)
        self.played.cut += unplayed > 0
        self.played.own.append(Own(done["seconds"], done["cpu"], self._lane.made))

    async def close(self) -> Played:
        """Return what was played."""
        done: Mapping[str, Any] = await self._child.do("close", self._lane.answer)
        played, lane = self.played, self._lane
        played.tries, played.written, played.unknown = lane.tries, lane.written, lane.unknown
        played.kept = done["lessons"]
        played.memory = {**played.memory, "peak": done["peak"]}
        return played


async def play_all(
    referee: Referee,
    sides: Sides,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    *,
    workers: int,
    say: Callable[[str], None],
) -> list[Played]:
    """Play every arm with every seed over all games, each in a process of its own, ``workers`` at a time.

    Within one, games are played one after the other: each sees the lessons of all before it. Attempts depend on
    the seed, the game, the number of the attempt and the lessons alone, so ``workers`` changes no result.
    """
    lanes = [(arm, seed) for seed in seeds for arm in arms]
    found: dict[tuple[str, int], Played] = {}
    limiter = anyio.CapacityLimiter(workers)

    async def one(arm: Arm, seed: int) -> None:
        async with limiter, sides.child(arm) as child:
            turn = Turn(child, referee, arm, seed)
            await turn.start(sides.trials)
            for task in referee.tasks:
                await turn.play(task)
            found[arm.title, seed] = await turn.close()
        say(
            f"{arm.title}, seed {seed}: {sum(t.won for t in found[arm.title, seed].tries)} of {len(referee.tasks)}"
        )

    async with anyio.create_task_group() as group:
        for arm, seed in lanes:
            group.start_soon(one, arm, seed)
    return [found[arm.title, seed] for arm in arms for seed in seeds]


async def take_turns(referee: Referee, sides: Sides, arms: Sequence[Arm], seed: int) -> list[Played]:
    """Play the games of one seed with all arms in turn, game by game, each going first in turn."""
    async with AsyncExitStack() as stack:
        turns = []
        for arm in arms:
            child = await stack.enter_async_context(sides.child(arm))
            turns.append(Turn(child, referee, arm, seed))
            await turns[-1].start(sides.trials)
        for number, task in enumerate(referee.tasks):
            shift = number % len(turns)
            for turn in turns[shift:] + turns[:shift]:
                await turn.play(task)
        return [await turn.close() for turn in turns]
