"""``python -m benchmarks.lessons.harm``: what do planted harmful lessons cost, and does credit find them?

ALFWorld games and the offline player of :mod:`benchmarks.alfworld`. Some games teach a library of lessons, of which a
fifth is planted: sentences in the words of true lessons that send the player elsewhere and call the right place empty.
Other games are then played round after round, and credit comes of these; a third part, which taught nothing and gave no
credit, says before and after what the library is worth. All in the real engine, over the real lesson store.
"""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import click

from benchmarks.alfworld.agent import (
    LESSONS_BLOCK,
    WON,
    GameAgent,
    OfflinePlayer,
    lessons_in,
    tasks_for,
    write_lesson,
)
from benchmarks.alfworld.games import load_games
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.policy import Explorer
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import STEP_LIMIT
from benchmarks.lessons.embedding import Remembering
from benchmarks.lessons.harm_lessons import PLANTED_SHARE, Sentence, mixed
from benchmarks.lessons.harm_tables import ARMS, ENOUGH, Arm, Library, Played, retirement, tables
from benchmarks.options import embedder_called
from benchmarks.report import out_option, write_result
from jeeves_reflexion import (
    Attempt,
    LessonSettings,
    LoopOptions,
    Picking,
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
from jeeves_reflexion.experiments.arms import ReadOnly
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.settings import Credit
from jeeves_reflexion.types import Evaluation
from vectorstores import Embedder, InMemoryVectorStore

_TRUE: Final = frozenset({"clean", "copies", "diverse"})
K: Final = 3
_FIRST_TRIES: Final = 2  # whose lessons make the library


@dataclass(frozen=True, slots=True)
class Setting:
    """What is played: how many games teach, practise and are held out, how often, and which shares are withheld."""

    teach: int
    practise: int
    hold_out: int
    rounds: int
    orders: int
    share: float
    early: float
    workers: int
    embedder: Embedder


class Games:
    """The games of a run. Engine and player are deterministic, so an attempt that would be the same is played once."""

    def __init__(self, agent: Callable[[int], GameAgent], tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self._agent = agent
        self._known: dict[tuple[int, str, tuple[str, ...]], Attempt] = {}

    async def attempt(self, seed: int, task: Task, session: Session) -> Attempt:
        """Play with a search order of this seed, or remember: of a block, what the player can use makes it another."""
        lessons = lessons_in(session.blocks.get(LESSONS_BLOCK, ""))
        key = (seed, task.id, Explorer(task.prompt, lessons=lessons).read_lessons)
        if key not in self._known:
            self._known[key] = await self._agent(seed)(task, session)
        return self._known[key]

    @property
    def played(self) -> int:
        """How many attempts the engine played."""
        return len(self._known)


async def measure(
    folder: Path | None, made: Path, seeds: Sequence[int], setting: Setting
) -> tuple[list[Played], list[Library], int]:
    """Play all arms for each seed over the games of a folder, or made ones; say how many the engine played."""
    wanted = setting.teach + setting.practise + setting.hold_out
    games = (
        await generate_games(made, count=wanted, seed=0, workers=setting.workers)
        if folder is None
        else load_games(folder)
    )
    if len(games) < wanted:
        raise click.UsageError(f"{wanted} games are wanted and there are {len(games)}")
    by_id = {game.id: game for game in games}
    played: list[Played] = []
    libraries: list[Library] = []
    async with EnginePool(setting.workers) as pool:

        def agent(seed: int) -> GameAgent:
            player = partial(OfflinePlayer, seed=seed)
            return GameAgent(pool, by_id, player, step_limit=STEP_LIMIT)

        table_of_games = Games(agent, await tasks_for(pool, games, workers=setting.workers))
        for seed in seeds:
            found, kept = await _Seed(table_of_games, seed, setting).play()
            played += found
            libraries += kept
    return played, libraries, table_of_games.played


class _Seed:
    """One draw of which games teach, practise and are held out, and all arms over it."""

    def __init__(self, games: Games, seed: int, setting: Setting) -> None:
        drawn = list(games.tasks)
        random.Random(f"games {seed}").shuffle(drawn)
        first, second = setting.teach, setting.teach + setting.practise
        self.teach, self.practise = drawn[:first], drawn[first:second]
        self.held_out = drawn[second : second + setting.hold_out]
        self.games, self.seed, self.setting = games, seed, setting
        self.played: list[Played] = []
        self.libraries: list[Library] = []

    async def play(self) -> tuple[list[Played], list[Library]]:
        """Make a library, and play all arms with it; the search orders are the same in all arms."""
        true, wins = await self._learn()
        clean, both = mixed(true, wins, random.Random(f"harm {self.seed}"))
        for arm in ARMS:
            async with InMemoryVectorStore(self.setting.embedder, namespace=arm) as store:
                lessons = VectorLessonStore(store, settings=self._settings(arm))
                sentences = [] if arm == "none" else clean if arm in _TRUE else both
                planted = await _fill(lessons, sentences)
                await self._arm(arm, lessons, planted)
        return self.played, self.libraries

    def _settings(self, arm: Arm) -> LessonSettings:
        if arm == "diverse":
            return LessonSettings(picking=Picking(diversity=0.05, max_likeness=0.95))
        if arm not in ("credit", "retiring"):
            return LessonSettings(keep_copies=arm == "copies")
        setting = self.setting
        early = max(setting.early, setting.share) if setting.share else None
        credit = Credit(Withholding(setting.share, seed=self.seed, early=early), max_age=math.inf)
        weight = 1.0 if arm == "credit" else 0.0
        return LessonSettings(credit=credit, picking=Picking(utility_weight=weight))

    async def _learn(self) -> tuple[list[Sentence], dict[str, Attempt]]:
        """The lessons of the first tries at each game that teaches, and one attempt at each that won."""
        said: dict[str, list[Sentence]] = {task.id: [] for task in self.teach}
        wins: dict[str, Attempt] = {}

        async def one(task: Task) -> None:
            for number in range(_FIRST_TRIES):
                attempt = await self.games.attempt(-number - 1, task, Session())
                won = bool(attempt.metadata[WON])
                if won:
                    wins.setdefault(task.id, attempt)
                trial = Trial(1, attempt, Evaluation(float(won)), passed=won)
                said[task.id].append(Sentence(task, write_lesson(task, [trial]).lesson, planted=False))

        await _each(one, self.teach, self.setting.workers)
        return [each for task in self.teach for each in said[task.id]], wins

    async def _arm(self, arm: Arm, lessons: VectorLessonStore, planted: Mapping[str, bool]) -> None:
        setting, credit = self.setting, lessons.settings.credit
        seen: dict[str, int] = defaultdict(int)
        orders = range(setting.orders)
        # Without credit nothing changes from round to round.
        same = [] if credit else [await self._round(self.practise, lessons, (arm, at), seen) for at in orders]
        for number in range(setting.rounds):
            order = random.Random(f"{self.seed} {number}").randrange(setting.orders)
            won = (
                same[order] if same else await self._round(self.practise, lessons, (arm, order, number), seen)
            )
            self.played += [Played(arm, self.seed, number, game, won[game]) for game in won]
            if credit is not None:
                # Between rounds and not within, so that the number of workers changes nothing.
                await lessons.ledger.credits(max_age=0)
        if credit is not None:
            self.libraries += await self._outcome(arm, lessons, planted, seen)
            frozen = replace(lessons.settings, credit=replace(credit, withholding=Withholding()))
            lessons = VectorLessonStore(lessons.store, settings=frozen)
        for order in orders:
            won = await self._round(self.held_out, ReadOnly(lessons), (arm, order, "held out"), {})
            self.played += [Played(arm, self.seed, -1, game, won[game]) for game in won]
        click.echo(f"seed {self.seed}, {arm}: played", err=True)

    async def _round(
        self,
        tasks: Sequence[Task],
        lessons: VectorLessonStore | ReadOnly,
        name: tuple[Any, ...],
        seen: dict[str, int],
    ) -> dict[str, bool]:
        """Play each game once, in the search order that stands second in the name; the same in all arms."""

        async def agent(task: Task, session: Session) -> Attempt:
            draw = random.Random(f"{name[1]} {task.id}").randrange(10**6)
            return await self.games.attempt(1000 + draw, task, session)

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
            result = await loop.run(task, session=replace(loop.session(), id=f"{self.seed} {name} {task.id}"))
            won[task.id] = result.passed
            recall = result.trials[0].recall
            for item in (*recall.offered, *recall.withheld) if recall else ():
                seen[item.lesson.id] = seen.get(item.lesson.id, 0) + 1

        await _each(one, tasks, self.setting.workers)
        return won

    async def _outcome(
        self, arm: Arm, lessons: VectorLessonStore, planted: Mapping[str, bool], seen: Mapping[str, int]
    ) -> list[Library]:
        """Count what the practice came to, for the true lessons and the planted ones."""
        gone = {each.id async for each in lessons.repository.each() if each.state == "retired"}
        rows = []
        for wrong in (False, True):
            ids = [id for id, is_planted in planted.items() if is_planted == wrong]
            counts = sorted(seen.get(id, 0) for id in ids if id in gone)
            enough = sum(id in gone or seen.get(id, 0) >= ENOUGH for id in ids)
            recalled = sum(id in seen for id in ids)
            middle = float(counts[len(counts) // 2]) if counts else None
            rows.append(Library(self.seed, arm, wrong, len(ids), recalled, enough, len(counts), middle))
        return rows


async def _fill(lessons: VectorLessonStore, sentences: Sequence[Sentence]) -> dict[str, bool]:
    """Store the lessons in order; returns which of them are planted."""
    planted: dict[str, bool] = {}
    source = Provenance("library", 1, None)
    for each in sentences:
        lesson = await lessons.record(each.task, Reflection(each.text), provenance=source)
        planted.setdefault(lesson.id, each.planted)  # one that says the same is support of the first
    return planted


async def _each(work: Callable[[Task], Awaitable[None]], tasks: Sequence[Task], workers: int) -> None:
    limiter = anyio.CapacityLimiter(workers)

    async def one(task: Task) -> None:
        async with limiter:
            await work(task)

    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(one, task)


_PAGE: Final = """# Planted lessons: what they cost, and whether credit finds them

{genuine} ALFWorld games, {steps} commands a try, the offline player, k = {k}, {embedder} embeddings, seeds {seeds}.
Each seed deals the games anew: two first tries at each of {teach} games make the library, of which {planted:.0%} are
planted (in the words of a true lesson, they send the player to wrong places and call the right one empty);
{practise} other games are played {rounds} times, and credit comes of these alone; {hold_out} more, which neither
taught nor gave credit, are played after that with nothing withheld, in {orders} search orders (*held out*). The order
in which a room is searched is one of {orders}, drawn anew for each round, the same in all arms. A lesson of which
nothing is known is withheld from {early:.0%} of its recalls, and from fewer the more is known, down to {share:.0%};
what that costs is in the figures of the rounds. Shares with 95 % Wilson intervals, differences with a bootstrap over
games. {attempts} attempts in the engine.

```
python -m benchmarks.lessons.harm {command}
```

{tables}

## Recalls until a harmful lesson is retired

By simulation, with the rule that acts: {simulated} lessons each (seed 0), each recalled by itself, on tasks that are
solved without it in (100 + cost) / 2 % of the tries. Median / four of five, by the share withheld (*at first*: of a
lesson of which nothing is known); `more` than 2,000.

{retirement}
"""


@click.command()
@click.option(
    "--games", type=click.Path(exists=True, path_type=Path), help="Genuine games, instead of made ones."
)
@click.option("--teach", type=click.IntRange(min=2), default=60, show_default=True, help="Games that teach.")
@click.option(
    "--practise", type=click.IntRange(min=2), default=30, show_default=True, help="Games played on."
)
@click.option("--hold-out", type=click.IntRange(min=2), default=40, show_default=True, help="Games held out.")
@click.option("--rounds", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--orders", type=click.IntRange(min=1), default=4, show_default=True, help="Search orders.")
@click.option("--share", type=click.FloatRange(0.0, 0.5), default=0.05, show_default=True, help="Withheld.")
@click.option("--early", type=click.FloatRange(0.0, 0.5), default=0.5, show_default=True, help="At first.")
@click.option("--simulated", type=click.IntRange(min=1), default=200, show_default=True, help="Lessons.")
@click.option("--seeds", callback=numbers, default="0,1,2", show_default=True, help="By commas.")
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--embedder", type=click.Choice(["minilm", "hashing"]), default="minilm", show_default=True)
@click.option("--made-games", type=click.Path(path_type=Path), default=Path("runs/games"), show_default=True)
@out_option("lessons_harm.md and .json")
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Play all arms, print the tables and write them to a file."""
    names = ("teach", "practise", "hold_out", "rounds", "orders", "share", "early", "workers")
    given = {name: options[name] for name in names}
    setting = Setting(**given, embedder=Remembering(embedder_called(options["embedder"])))
    played, libraries, attempts = anyio.run(
        measure, options["games"], options["made_games"], options["seeds"], setting
    )
    said = " ".join(f"--{name.replace('_', '-')} {given[name]}" for name in names[:-1])
    seeds = ",".join(map(str, options["seeds"]))
    text = _PAGE.format(
        **given,
        embedder=options["embedder"],
        genuine="Genuine (`valid_seen`)" if options["games"] else "Generated (game seed 0)",
        seeds=seeds,
        command=f"{'--games FOLDER ' if options['games'] else ''}{said} --seeds {seeds}",
        steps=STEP_LIMIT,
        k=K,
        planted=PLANTED_SHARE,
        attempts=attempts,
        tables=tables(played, libraries),
        simulated=options["simulated"],
        retirement=retirement(options["simulated"]),
    )
    write_result(options["out"], "lessons_harm", [asdict(each) for each in libraries], text)
    click.echo(text)


if __name__ == "__main__":
    main()
