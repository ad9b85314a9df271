"""Plays the ALFWorld games again and again with one library: clean, with planted lessons, and with credit besides."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

import anyio

from benchmarks.alfworld.agent import (
    LESSONS_BLOCK,
    WON,
    GameAgent,
    OfflinePlayer,
    write_lesson,
)
from benchmarks.alfworld.experiment import STEP_LIMIT
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.pool import EnginePool
from benchmarks.lessons.harm_kept import Kept, Play
from benchmarks.lessons.harm_lessons import Sentence, mixed
from jeeves_reflexion import (
    Attempt,
    Evaluation,
    LessonSettings,
    LoopOptions,
    Provenance,
    Reflection,
    Reflexion,
    RewardEvaluator,
    Session,
    Task,
    Trial,
    VectorLessonStore,
)
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit
from vectorstores import Embedder, InMemoryVectorStore

Arm: TypeAlias = Literal["clean", "planted", "credit"]
ARMS: Final[tuple[Arm, ...]] = get_args(Arm)

K: Final = 3
_FIRST_TRIES: Final = 2  # whose lessons make the library
_WIN_TRIES: Final = 8  # by which the right place is found, for the planted lessons to avoid
_SOURCE: Final = Provenance("library", 1, None)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is played: how often each game, in how many search orders, and with which shares withheld."""

    rounds: int
    orders: int
    share: float
    early: float
    workers: int
    embedder: Embedder
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Played:
    """One attempt: in which arm, seed and round (from 0), at which game, and whether it was won."""

    arm: Arm
    seed: int
    round: int
    game: str
    won: bool


@dataclass(frozen=True, slots=True)
class Library:
    """What one seed's library came to: lessons, planted ones, and in the end those retired, right and wrong."""

    seed: int
    true: int
    planted: int
    planted_retired: int
    true_retired: int


class Table:
    """Games, tasks and what was played with them: an attempt that would be the same again is played once.

    The engine and the offline player are deterministic: game, order of the search and lessons decide an attempt.
    ``played`` counts those that were asked for, ``kept`` those of them that an earlier run played.
    """

    def __init__(
        self, pool: EnginePool, games: Mapping[str, Game], tasks: Sequence[Task], store: Kept | None = None
    ) -> None:
        self.pool = pool
        self.games = games
        self.tasks = tasks
        self.played = self.kept = 0
        self.won: dict[tuple[Arm, int, str, int], bool] = {}
        self._store = store
        self._known: dict[Play, Attempt] = {}

    async def attempt(self, seed: int, task: Task, session: Session) -> Attempt:
        """Play, or remember."""
        key = (seed, task.id, session.blocks.get(LESSONS_BLOCK, ""))
        if key not in self._known:
            self._known[key] = await self._play(key, task, session)
            self.played += 1
        return self._known[key]

    async def _play(self, key: Play, task: Task, session: Session) -> Attempt:
        if self._store is not None and key in self._store.attempts:
            self.kept += 1
            return self._store.attempts[key]
        agent = GameAgent(
            self.pool,
            self.games,
            lambda task, session: OfflinePlayer(task, session, room_for=K, seed=key[0]),
            step_limit=STEP_LIMIT,
        )
        attempt = await agent(task, session)
        if self._store is not None:
            self._store.keep(key, attempt)
        return attempt


async def play(table: Table, seed: int, setting: Setting) -> tuple[list[Played], Library]:
    """Make a library, and play all arms with it; the search orders are the same in all arms."""
    rng = random.Random(f"harm {seed}")
    true, wins = await _learn(table, seed, setting)
    clean, both = mixed(true, wins, rng)
    played: list[Played] = []
    library: Library | None = None
    for arm in ARMS:
        early = max(setting.early, setting.share) if setting.share else None
        drawing = Withholding(setting.share, seed=seed, early=early)
        credit = Credit(drawing, max_age=math.inf) if arm == "credit" else None
        settings = LessonSettings(credit=credit)
        async with InMemoryVectorStore(setting.embedder, namespace=arm) as store:
            lessons = VectorLessonStore(store, settings=settings)
            ids = await _fill(lessons, clean if arm == "clean" else both)
            for number in range(setting.rounds):
                played += await _round(table, lessons, arm, seed, number, setting)
                setting.say(f"seed {seed}, {arm}: round {number + 1} of {setting.rounds}")
            if arm == "credit":
                library = await _outcome(lessons, ids, seed)
    if library is None:
        raise AssertionError("one arm has credit")
    return played, library


async def _learn(table: Table, seed: int, setting: Setting) -> tuple[list[Sentence], dict[str, Attempt]]:
    """The lessons of the first tries at each game, and one attempt at each that won."""
    said: dict[str, list[Sentence]] = {}
    wins: dict[str, Attempt] = {}
    limiter = anyio.CapacityLimiter(setting.workers)

    async def one(task: Task) -> None:
        for number in range(_WIN_TRIES):
            if number >= _FIRST_TRIES and task.id in wins:
                return
            async with limiter:
                attempt = await table.attempt(-(100 * seed + number + 1), task, Session())
            won = bool(attempt.metadata[WON])
            if won:
                wins.setdefault(task.id, attempt)
            if number < _FIRST_TRIES:
                trial = Trial(1, attempt, Evaluation(float(won)), passed=won)
                said.setdefault(task.id, []).append(
                    Sentence(task, write_lesson(task, [trial]).lesson, planted=False)
                )

    async with anyio.create_task_group() as group:
        for task in table.tasks:
            group.start_soon(one, task)
    return [each for task in table.tasks for each in said[task.id]], wins


async def _fill(lessons: VectorLessonStore, sentences: Sequence[Sentence]) -> dict[str, bool]:
    """Store the lessons in order; returns which of them are planted."""
    ids: dict[str, bool] = {}
    for each in sentences:
        lesson = await lessons.record(each.task, Reflection(each.text), provenance=_SOURCE)
        ids.setdefault(lesson.id, each.planted)  # a lesson that says the same is merged into the first
    return ids


async def _round(
    table: Table, lessons: VectorLessonStore, arm: Arm, seed: int, number: int, setting: Setting
) -> list[Played]:
    def order_of(task: Task) -> int:
        return random.Random(f"{seed} {number} {task.id}").randrange(setting.orders)

    async def agent(task: Task, session: Session) -> Attempt:
        return await table.attempt(1000 * seed + order_of(task), task, session)

    loop = Reflexion(
        agent,
        evaluator=RewardEvaluator(WON),
        reflector=write_lesson,
        lesson_store=lessons,
        max_attempts=1,
        top_k_lessons=K,
        options=LoopOptions(learn=False),
    )
    won: dict[str, bool] = {}
    limiter = anyio.CapacityLimiter(setting.workers)

    async def one(task: Task) -> None:
        key = (arm, seed, task.id, order_of(task))
        if key in table.won:
            won[task.id] = table.won[key]
            return
        async with limiter:
            session = replace(loop.session(), id=f"{seed}-{number}-{task.id}")
            won[task.id] = (await loop.run(task, session=session)).passed
        if arm != "credit":
            # Nothing changes between its rounds: the same order comes to the same again.
            table.won[key] = won[task.id]

    async with anyio.create_task_group() as group:
        for task in table.tasks:
            group.start_soon(one, task)
    if arm == "credit":
        # Between rounds and not within, so that the number of workers changes nothing.
        await lessons.ledger.credits(max_age=0)
    return [Played(arm, seed, number, task.id, won[task.id]) for task in table.tasks]


async def _outcome(lessons: VectorLessonStore, ids: Mapping[str, bool], seed: int) -> Library:
    known = await lessons.ledger.credits(max_age=0)
    retired = [id for id in ids if known.judge(id).kind == "retire"]
    return Library(
        seed,
        true=sum(not planted for planted in ids.values()),
        planted=sum(ids.values()),
        planted_retired=sum(ids[id] for id in retired),
        true_retired=sum(not ids[id] for id in retired),
    )
