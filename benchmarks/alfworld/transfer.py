"""``python -m benchmarks.alfworld.transfer``: the value of lessons in rooms never seen, and of ways to order them.

``rooms``: for each seed half of the rooms are held out; games in the others are played, then each held-out game once.
``again``: every game is played until it is won, with lessons recalled in several ways. ``successes``: the same, with
lessons from attempts that passed too, which an order can prefer or not.
``--work`` holds a run for each way and seed; the same command resumes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion import Attempt, LessonSettings, Reflexion
from jeeves_reflexion.cli.bench_options import cores, numbers
from jeeves_reflexion.cli.options import COUNT, embedder
from jeeves_reflexion.experiments import ArmName, Plan, Results, RunLog, run_experiment
from jeeves_reflexion.experiments.comparisons import paired_difference
from jeeves_reflexion.experiments.plan import Split
from jeeves_reflexion.lessons.settings import Order, Picking

from ..options import embedder_called
from ..report import Scores, points, table
from .agent import ROOM, with_rooms
from .curves import SharedAttempts, games_options, open_table, scores
from .playing import Table, make_loop
from .setting import STEP_LIMIT, Setting

NAME: Final = "alfworld_transfer"
SHARE: Final = 0.5
TRIALS: Final = 3
NOT_SEEN_TRIALS: Final = 2


@dataclass(frozen=True, slots=True)
class Way:
    """One way to keep and recall lessons; with ``successes``, attempts that passed teach lessons too."""

    name: str
    arm: ArmName
    settings: LessonSettings = LessonSettings()  # noqa: RUF009 - frozen
    successes: bool = False


PLAIN: Final = LessonSettings(picking=Picking(diversity=0.0, max_likeness=1.0))
SELECTIVE: Final = Way("selective", "selective", PLAIN)
IN_ROOMS: Final = (Way("no lessons", "react"), Way("placebo", "irrelevant", PLAIN), SELECTIVE)
ORDERS: Final[tuple[Order, ...]] = ("similarity", "failures_first", "own_first", "recency")
AGAIN: Final = (
    Way("no lessons", "retry"),
    Way("own", "own", PLAIN),
    SELECTIVE,
    Way("others-only", "others-only", PLAIN),
    Way("own_first", "selective", replace(PLAIN, order="own_first")),
    Way("recency", "selective", replace(PLAIN, order="recency")),
    Way("by task and text", "selective", replace(PLAIN, key="both")),
    Way("diverse", "selective", LessonSettings(picking=Picking(diversity=0.05, max_likeness=0.95))),
)
TAUGHT_BY_ALL: Final = tuple(
    Way(order, "selective", replace(PLAIN, order=order), successes=True) for order in ORDERS
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the measurement; ``beside`` names the ways that the others are compared with."""

    name: str
    ways: Sequence[Way]
    plan: Plan
    split: Split
    trials: tuple[int, ...]
    beside: tuple[str, ...]


def parts(seeds: tuple[int, ...], workers: int) -> tuple[Part, ...]:
    """Return all parts."""
    again = Plan(trials=TRIALS, seeds=seeds, workers=workers, k=3)
    unseen = replace(again, trials=NOT_SEEN_TRIALS, holdout=SHARE, holdout_by=ROOM)
    return (
        Part("rooms", IN_ROOMS, unseen, "held-out", (1,), ("no lessons", "placebo")),
        Part("again", AGAIN, again, "learning", (2, 3), ("no lessons", "own", "selective")),
        Part("successes", TAUGHT_BY_ALL, again, "learning", (2, 3), ("similarity",)),
    )


async def measure(setting: Setting, folder: Path, wanted: Sequence[Part], ways: Sequence[str]) -> str:
    """Play what is missing, and return the tables."""
    texts = []
    async with open_table(setting, folder) as table_of_games:
        tasks = with_rooms(table_of_games.tasks, list(table_of_games.games.values()))
        board = replace(table_of_games, tasks=tasks)
        rooms = {task.id: str(task.metadata[ROOM]) for task in tasks}
        for part in wanted:
            chosen = [way for way in part.ways if not ways or way.name in ways]
            rows: dict[str, list[Results]] = {way.name: [] for way in chosen}
            for seed in part.plan.seeds:
                played: dict[tuple[object, ...], Attempt] = {}
                for way in chosen:
                    rows[way.name].append(await _play(setting, board, part, way, seed, played))
                click.echo(f"{part.name}, seed {seed}: played", err=True)
            texts.append(report(part, rows, rooms, setting.step_limit))
    return "\n\n".join(texts)


async def _play(
    setting: Setting,
    board: Table,
    part: Part,
    way: Way,
    seed: int,
    played: dict[tuple[object, ...], Attempt],
) -> Results:
    plan = replace(part.plan, arms=(way.arm,), seeds=(seed,), split_seed=seed)
    here = replace(setting, plan=plan, settings=way.settings)

    def make(arm: ArmName, seed: int) -> Reflexion:
        loop = make_loop(here, board, arm, seed)
        loop.options = replace(loop.options, learn_from_success=way.successes)
        loop.agent = SharedAttempts({here.step_limit: loop.agent}, here.step_limit, played)
        return loop

    log = RunLog(setting.out / f"{part.name}-{way.name.replace(' ', '-')}-{seed}")
    await log.open(
        {
            "benchmark": NAME,
            "step_limit": here.step_limit,
            "embedder": here.embedder.id,
            "settings": repr(way.settings),
        },
        resume=log.exists,
    )
    return await run_experiment(plan, board.tasks, make, log=log)


def report(
    part: Part, rows: Mapping[str, Sequence[Results]], rooms: Mapping[str, str], step_limit: int
) -> str:
    """Return as Markdown what each way solved, and the differences, paired by game and clustered by room."""
    solved = {
        name: [scores(each, each[0].arms[0], trial, part.split) for trial in part.trials]
        for name, each in rows.items()
    }
    heads = [f"by trial {trial}" for trial in part.trials]
    gains = [
        (
            f"{name} - {less}",
            *(
                points(paired_difference(*pair, clusters=rooms))
                for pair in zip(solved[less], each, strict=True)
            ),
        )
        for less in part.beside
        for name, each in solved.items()
        if less in solved and name != less
    ]
    seeds = len(part.plan.seeds)
    what = f"{len(rooms)} games of {len(set(rooms.values()))} rooms, {seeds} seeds, {step_limit} commands"
    shares = [(name, *map(_share, each)) for name, each in solved.items()]
    tables = table(["way", *heads], shares), table(["difference", *heads], gains)
    return "\n\n".join([f"## {part.name}: {what}", *tables])


def _share(scores: Scores) -> str:
    solved, n = sum(map(sum, scores.values())), sum(map(len, scores.values()))
    return f"{solved:.0f}/{n} = {solved / n:.1%}"


@click.command()
@games_options
@click.option(
    "--seeds", metavar="A,B", callback=numbers, default="0,1,2,3,4,5,6,7,8,9", help="Of splits and orders."
)
@click.option("--part", type=click.Choice(["rooms", "again", "successes"]), help="Only this part.")
@click.option("--ways", metavar="A,B", default="", help="Only these ways.")
@click.option("--step-limit", type=COUNT, default=STEP_LIMIT, show_default=True, help="Commands per try.")
@click.option("--workers", type=COUNT, default=cores, show_default="one a core", help="Games at a time.")
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("runs/transfer"),
    show_default=True,
    help="Folder of the runs.",
)
@embedder
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Play genuine games and print the tables."""
    part, ways = options["part"], [each for each in options["ways"].split(",") if each]
    wanted = [each for each in parts(options["seeds"], options["workers"]) if part in (None, each.name)]
    setting = Setting(
        plan=wanted[0].plan,
        out=options["work"],
        embedder=embedder_called(options["embedder"]),
        count=options["limit"],
        step_limit=options["step_limit"],
    )
    click.echo(anyio.run(measure, setting, options["games"], wanted, ways))


if __name__ == "__main__":
    main()
