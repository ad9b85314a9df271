"""``python -m benchmarks.lessons.harm``: what do planted harmful lessons cost, and does credit find them?

The offline player of :mod:`benchmarks.alfworld` plays ALFWorld games in the real engine, over the real lesson store.
Some games teach a library of lessons, of which a fifth is planted: in the words of true lessons, they send the player
elsewhere and call the right place empty. Other games are then played for many rounds, from which credit is computed.
Held-out games, which gave neither lessons nor credit, show the value of the library.
"""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import anyio
import click

from benchmarks.alfworld.agent import WON, tasks_for, write_lesson
from benchmarks.alfworld.games import load_games
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.setting import STEP_LIMIT
from benchmarks.lessons.embedding import Remembering
from benchmarks.lessons.games import Games
from benchmarks.lessons.harm_lessons import PLANTED_SHARE, Sentence, mixed
from benchmarks.lessons.harm_tables import ARMS, ENOUGH, Arm, Library, Played, retirement, tables
from benchmarks.options import embedder_called
from benchmarks.report import out_option, write_result
from benchmarks.runs import some_at_a_time
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
    """How many games teach, practise and are held out, how often they are played, and the shares withheld."""

    teach: int
    practise: int
    hold_out: int
    rounds: int
    orders: int
    share: float
    early: float
    workers: int
    embedder: Embedder


async def measure(
    folder: Path | None, made: Path, seeds: Sequence[int], setting: Setting
) -> tuple[list[Played], list[Library], int]:
    """Play all arms for each seed over genuine or generated games; also return how many attempts the engine played."""
    wanted = setting.teach + setting.practise + setting.hold_out
    games = (
        await generate_games(made, count=wanted, seed=0, workers=setting.workers)
        if folder is None
        else load_games(folder)
    )
    if len(games) < wanted:
        raise click.UsageError(f"{wanted} games are wanted, but there are only {len(games)}")
    played: list[Played] = []
    libraries: list[Library] = []
    async with EnginePool(setting.workers) as pool:
        tasks = await tasks_for(pool, games, workers=setting.workers)
        player = Games(pool, games)
        for seed in seeds:
            attempts, fates = await _Seed(player, tasks, seed, setting).play()
            played += attempts
            libraries += fates
    return played, libraries, player.played


class _Seed:
    """One random division of the games into those that teach, practise and are held out, and all arms over it."""

    def __init__(self, games: Games, tasks: Sequence[Task], seed: int, setting: Setting) -> None:
        drawn = list(tasks)
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
        """Return the lessons of the first tries at each game that teaches, and one winning attempt at each, if any."""
        wins: dict[str, Attempt] = {}

        async def lessons_of(task: Task) -> list[Sentence]:
            lessons = []
            for number in range(_FIRST_TRIES):
                attempt = await self.games.attempt(-number - 1, task, Session())
                won = bool(attempt.metadata[WON])
                if won:
                    wins.setdefault(task.id, attempt)
                trial = Trial(1, attempt, Evaluation(float(won)), passed=won)
                lessons.append(Sentence(task, write_lesson(task, [trial]).lesson, planted=False))
            return lessons

        found = await some_at_a_time([partial(lessons_of, task) for task in self.teach], self.setting.workers)
        return list(chain.from_iterable(found)), wins

    async def _arm(self, arm: Arm, lessons: VectorLessonStore, planted: Mapping[str, bool]) -> None:
        setting, credit = self.setting, lessons.settings.credit
        seen: dict[str, int] = defaultdict(int)
        orders = range(setting.orders)
        # Without credit, all rounds with the same search order are equal.
        same = [] if credit else [await self._round(self.practise, lessons, (arm, at), seen) for at in orders]
        for number in range(setting.rounds):
            order = random.Random(f"{self.seed} {number}").randrange(setting.orders)
            won = (
                same[order] if same else await self._round(self.practise, lessons, (arm, order, number), seen)
            )
            self.played += [Played(arm, self.seed, number, game, won[game]) for game in won]
            if credit is not None:
                # Between rounds, so that the number of workers has no effect.
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
        """Play each game once. The second part of the name decides the search order, so it is the same in all arms."""

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

        async def play_one(task: Task) -> None:
            result = await loop.run(task, session=replace(loop.session(), id=f"{self.seed} {name} {task.id}"))
            won[task.id] = result.passed
            recall = result.trials[0].recall
            for item in (*recall.offered, *recall.withheld) if recall else ():
                seen[item.lesson.id] = seen.get(item.lesson.id, 0) + 1

        await some_at_a_time([partial(play_one, task) for task in tasks], self.setting.workers)
        return won

    async def _outcome(
        self, arm: Arm, lessons: VectorLessonStore, planted: Mapping[str, bool], seen: Mapping[str, int]
    ) -> list[Library]:
        """Count what became of the true lessons and of the planted ones in practice."""
        retired = {each.id async for each in lessons.repository.each() if each.state == "retired"}
        rows = []
        for wrong in (False, True):
            ids = [id for id, is_planted in planted.items() if is_planted == wrong]
            counts = sorted(seen.get(id, 0) for id in ids if id in retired)
            enough = sum(id in retired or seen.get(id, 0) >= ENOUGH for id in ids)
            recalled = sum(id in seen for id in ids)
            middle = float(counts[len(counts) // 2]) if counts else None
            rows.append(Library(self.seed, arm, wrong, len(ids), recalled, enough, len(counts), middle))
        return rows


async def _fill(lessons: VectorLessonStore, sentences: Sequence[Sentence]) -> dict[str, bool]:
    """Store the lessons in order, and return which of them are planted."""
    planted: dict[str, bool] = {}
    source = Provenance("library", 1, None)
    for each in sentences:
        lesson = await lessons.record(each.task, Reflection(each.text), provenance=source)
        planted.setdefault(lesson.id, each.planted)  # an equal lesson is support of the first
    return planted


_PAGE: Final = """# Planted lessons: what they cost, and whether credit finds them

{genuine} ALFWorld games, {steps} commands per try, the offline player, k = {k}, {embedder} embeddings, seeds {seeds}.
Each seed divides the games at random. Two first tries at each of {teach} games make the library, of which {planted:.0%}
are planted (in the words of a true lesson, they send the player to wrong places and call the right one empty).
{practise} other games are played {rounds} times, and credit comes only from these. {hold_out} more games are played
after that with nothing withheld, in {orders} search orders (*held out*). The search order is one of {orders}, drawn
for each round, the same in all arms. A lesson without known effect is withheld from {early:.0%} of its recalls, and
from fewer the more is known, down to {share:.0%}; the figures of the rounds include the cost of this. Shares have 95 %
Wilson intervals, differences a bootstrap over games. {attempts} attempts in the engine.

```
python -m benchmarks.lessons.harm {command}
```

{tables}

## Recalls until a harmful lesson is retired

By simulation, with the rule that acts: {simulated} lessons each (seed 0), each recalled alone, on tasks that are
solved without it in (100 + cost) / 2 % of the tries. Median / four of five, by the share withheld (*at first*: from a
lesson without known effect); `more` than 2,000.

{retirement}
"""


@click.command()
@click.option(
    "--games", type=click.Path(exists=True, path_type=Path), help="Genuine games, instead of made ones."
)
@click.option("--teach", type=click.IntRange(min=2), default=60, show_default=True, help="Games that teach.")
@click.option(
    "--practise", type=click.IntRange(min=2), default=30, show_default=True, help="Games played in rounds."
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
    """Play all arms, and print and write the tables."""
    names = ("teach", "practise", "hold_out", "rounds", "orders", "share", "early", "workers")
    given = {name: options[name] for name in names}
    setting = Setting(**given, embedder=Remembering(embedder_called(options["embedder"])))
    played, libraries, attempts = anyio.run(
        measure, options["games"], options["made_games"], options["seeds"], setting
    )
    told = {**{name: given[name] for name in names[:-1]}, "embedder": options["embedder"]}
    command = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in told.items())
    seeds = ",".join(map(str, options["seeds"]))
    text = _PAGE.format(
        **given,
        embedder=options["embedder"],
        genuine="Genuine (`valid_seen`)" if options["games"] else "Generated (game seed 0)",
        seeds=seeds,
        command=f"{'--games FOLDER ' if options['games'] else ''}{command} --seeds {seeds}",
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
