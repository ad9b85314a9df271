"""``python -m benchmarks.lessons.harm``: what do planted harmful lessons cost, without credit and with?

The ALFWorld games and the offline player of :mod:`benchmarks.alfworld`. A fifth of the library is planted: sentences
in the words of true lessons that send the player elsewhere and call the right place empty. The same games are played
round after round, in the real engine, over the real lesson store.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import anyio
import click

from benchmarks.alfworld.agent import LESSONS_BLOCK, WON, GameAgent, OfflinePlayer, tasks_for, write_lesson
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import STEP_LIMIT
from benchmarks.lessons.harm_lessons import PLANTED_SHARE, Sentence, mixed
from benchmarks.options import embedder_called
from benchmarks.report import counted_share, out_option, points, share_of, table, write_result
from jeeves_reflexion import (
    Attempt,
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
from jeeves_reflexion.cli.bench_options import numbers
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit
from jeeves_reflexion.statistics import Difference
from jeeves_reflexion.types import Evaluation
from vectorstores import Embedder, InMemoryVectorStore

Arm: TypeAlias = Literal["clean", "planted", "credit"]
ARMS: Final[Mapping[Arm, str]] = {
    "clean": "true lessons only",
    "planted": "planted lessons, no credit",
    "credit": "planted lessons, credit",
}
K: Final = 3
_FIRST_TRIES: Final = 2  # whose lessons make the library
_WIN_TRIES: Final = 8  # by which the right place is found, for the planted lessons to avoid
_RESAMPLES: Final = 2000
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """What is played: how often each game, in how many search orders, and with which shares withheld."""

    rounds: int
    orders: int
    share: float
    early: float
    workers: int
    embedder: Embedder


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
    true_retired: int
    planted: int
    planted_retired: int


class Games:
    """The games of a run. Engine and player are deterministic, so an attempt that would be the same is played once."""

    def __init__(self, agent: Callable[[int], GameAgent], tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self._agent = agent
        self._known: dict[tuple[int, str, str], Attempt] = {}

    async def attempt(self, seed: int, task: Task, session: Session) -> Attempt:
        """Play with a search order of this seed, or remember."""
        key = (seed, task.id, session.blocks.get(LESSONS_BLOCK, ""))
        if key not in self._known:
            self._known[key] = await self._agent(seed)(task, session)
        return self._known[key]

    @property
    def played(self) -> int:
        """How many attempts the engine played."""
        return len(self._known)


async def measure(
    folder: Path, count: int, game_seed: int, seeds: Sequence[int], setting: Setting
) -> tuple[list[Played], list[Library], int]:
    """Make the games and play all arms for each seed; also say how many attempts the engine played."""
    games = await generate_games(folder, count=count, seed=game_seed, workers=setting.workers)
    by_id = {game.id: game for game in games}
    played: list[Played] = []
    libraries: list[Library] = []
    async with EnginePool(setting.workers) as pool:

        def agent(seed: int) -> GameAgent:
            player = partial(OfflinePlayer, seed=seed)
            return GameAgent(pool, by_id, player, step_limit=STEP_LIMIT)

        table_of_games = Games(agent, await tasks_for(pool, games, workers=setting.workers))
        for seed in seeds:
            found, library = await play(table_of_games, seed, setting)
            played += found
            libraries.append(library)
    return played, libraries, table_of_games.played


async def play(games: Games, seed: int, setting: Setting) -> tuple[list[Played], Library]:
    """Make a library, and play all arms with it; the search orders are the same in all arms."""
    true, wins = await _learn(games, seed, setting)
    clean, both = mixed(true, wins, random.Random(f"harm {seed}"))
    early = max(setting.early, setting.share) if setting.share else None
    credit = Credit(Withholding(setting.share, seed=seed, early=early), max_age=math.inf)
    played: list[Played] = []
    library = Library(seed, 0, 0, 0, 0)
    for arm in ARMS:
        settings = LessonSettings(credit=credit if arm == "credit" else None)
        async with InMemoryVectorStore(setting.embedder, namespace=arm) as store:
            lessons = VectorLessonStore(store, settings=settings)
            planted = await _fill(lessons, clean if arm == "clean" else both)
            for number in range(setting.rounds):
                played += await _round(games, lessons, arm, seed, number, setting)
                click.echo(f"seed {seed}, {arm}: round {number + 1} of {setting.rounds}", err=True)
            if arm == "credit":
                library = await _outcome(lessons, planted, seed)
    return played, library


async def _learn(games: Games, seed: int, setting: Setting) -> tuple[list[Sentence], dict[str, Attempt]]:
    """The lessons of the first tries at each game, and one attempt at each that won."""
    said: dict[str, list[Sentence]] = {task.id: [] for task in games.tasks}
    wins: dict[str, Attempt] = {}

    async def one(task: Task) -> None:
        for number in range(_WIN_TRIES):
            if number >= _FIRST_TRIES and task.id in wins:
                return
            attempt = await games.attempt(-(100 * seed + number + 1), task, Session())
            won = bool(attempt.metadata[WON])
            if won:
                wins.setdefault(task.id, attempt)
            if number < _FIRST_TRIES:
                lesson = write_lesson(task, [Trial(1, attempt, Evaluation(float(won)), passed=won)]).lesson
                said[task.id].append(Sentence(task, lesson, planted=False))

    await _each(one, games.tasks, setting.workers)
    return [each for task in games.tasks for each in said[task.id]], wins


async def _fill(lessons: VectorLessonStore, sentences: Sequence[Sentence]) -> dict[str, bool]:
    """Store the lessons in order; returns which of them are planted."""
    planted: dict[str, bool] = {}
    source = Provenance("library", 1, None)
    for each in sentences:
        lesson = await lessons.record(each.task, Reflection(each.text), provenance=source)
        planted.setdefault(lesson.id, each.planted)  # one that says the same is support of the first
    return planted


async def _round(
    games: Games, lessons: VectorLessonStore, arm: Arm, seed: int, number: int, setting: Setting
) -> list[Played]:
    async def agent(task: Task, session: Session) -> Attempt:
        order = random.Random(f"{seed} {number} {task.id}").randrange(setting.orders)
        return await games.attempt(1000 * seed + order, task, session)

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

    async def one(task: Task) -> None:
        session = replace(loop.session(), id=f"{seed}-{number}-{task.id}")
        won[task.id] = (await loop.run(task, session=session)).passed

    await _each(one, games.tasks, setting.workers)
    if arm == "credit":
        # Between rounds and not within, so that the number of workers changes nothing.
        await lessons.ledger.credits(max_age=0)
    return [Played(arm, seed, number, task.id, won[task.id]) for task in games.tasks]


async def _each(work: Callable[[Task], Any], tasks: Sequence[Task], workers: int) -> None:
    limiter = anyio.CapacityLimiter(workers)

    async def one(task: Task) -> None:
        async with limiter:
            await work(task)

    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(one, task)


async def _outcome(lessons: VectorLessonStore, planted: Mapping[str, bool], seed: int) -> Library:
    known = await lessons.ledger.credits(max_age=0)
    retired = [planted[id] for id in planted if known.judge(id).kind == "retire"]
    wrong = sum(planted.values())
    return Library(seed, len(planted) - wrong, len(retired) - sum(retired), wrong, sum(retired))


def tables(played: Sequence[Played], libraries: Sequence[Library]) -> str:
    """Return success by arm and part of the rounds, what planted lessons cost, and what became of the lessons."""
    rounds = 1 + max(each.round for each in played)
    spans = [range(rounds * part // _PARTS, rounds * (part + 1) // _PARTS) for part in range(_PARTS)]
    spans = [*(span for span in spans if span), range(rounds)]
    rows: list[list[str]] = []
    for arm, label in ARMS.items():
        shares = [share_of(e.won for e in played if e.arm == arm and e.round in span) for span in spans]
        rows.append([label, *(counted_share(share, 1) for share in shares)])
    for label, arm in (("cost without credit", "planted"), ("cost with credit", "credit")):
        rows.append([label, *(_cost(played, span, arm) for span in spans)])
    heads = ["games won", *(f"rounds {span.start + 1} to {span.stop}" for span in spans)]
    kept = ["seed", "true lessons", "of them retired", "planted lessons", "of them retired"]
    return "\n\n".join([table(heads, rows), table(kept, [list(asdict(each).values()) for each in libraries])])


def _cost(played: Sequence[Played], span: range, arm: str) -> str:
    """By how much an arm does worse than the clean one, with a bootstrap interval over games: each is a cluster."""
    won: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for each in played:
        if each.round in span:
            won[each.game][each.arm].append(each.won)
    costs = [
        sum(game["clean"]) / len(game["clean"]) - sum(game[arm]) / len(game[arm]) for game in won.values()
    ]
    rng = random.Random(0)
    drawn = sorted(sum(rng.choices(costs, k=len(costs))) / len(costs) for _ in range(_RESAMPLES))
    low, high = drawn[int(0.025 * _RESAMPLES)], drawn[int(0.975 * _RESAMPLES) - 1]
    return points(Difference(sum(costs) / len(costs), low, high))


_PAGE: Final = """# Planted lessons: what they cost, without credit and with

{games} generated ALFWorld games (game seed {game_seed}), played {rounds} times by the offline player ({steps}
commands a try, one try a round, k = {k}, {embedder} embeddings, seeds {seeds}) with a library of the lessons of two
first tries at each game. {planted:.0%} of the library are planted: in the words of a true lesson, they send the
player to wrong places and call the right one empty. Nothing is learned during the rounds. With credit, a lesson of
which nothing is known is withheld from {early:.0%} of its recalls, and from fewer the more is known, down to
{share:.0%}; what withholding costs is in the figures. In each round the player searches a game in one of {orders}
orders, the same in all arms. Shares with 95 % Wilson intervals, costs with a bootstrap over games. {attempts}
attempts in the engine, {minutes:.0f} minutes.

{tables}
"""


@click.command()
@click.option("--count", type=click.IntRange(min=6), default=36, show_default=True, help="Games.")
@click.option("--game-seed", type=int, default=0, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--orders", type=click.IntRange(min=1), default=4, show_default=True, help="Search orders.")
@click.option("--share", type=click.FloatRange(0.0, 0.5), default=0.05, show_default=True, help="Withheld.")
@click.option("--early", type=click.FloatRange(0.0, 0.5), default=0.5, show_default=True, help="At first.")
@click.option("--seeds", callback=numbers, default="0,1", show_default=True, help="Of the player, by commas.")
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@click.option("--made-games", type=click.Path(path_type=Path), default=Path("runs/games"), show_default=True)
@out_option("lessons_harm.md and .json")
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Play all arms, print the tables and write them to a file."""
    names = ("rounds", "orders", "share", "early", "workers")
    setting = Setting(
        **{name: options[name] for name in names}, embedder=embedder_called(options["embedder"])
    )
    begun = time.perf_counter()
    found = anyio.run(
        measure, options["made_games"], options["count"], options["game_seed"], options["seeds"], setting
    )
    text = _PAGE.format(
        **{name: options[name] for name in (*names, "game_seed", "embedder")},
        games=options["count"],
        seeds=", ".join(map(str, options["seeds"])),
        steps=STEP_LIMIT,
        k=K,
        planted=PLANTED_SHARE,
        attempts=found[2],
        minutes=(time.perf_counter() - begun) / 60,
        tables=tables(found[0], found[1]),
    )
    write_result(options["out"], "lessons_harm", [asdict(each) for each in found[1]], text)
    click.echo(text)


if __name__ == "__main__":
    main()
