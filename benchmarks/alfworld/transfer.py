"""``python -m benchmarks.alfworld.transfer``: what lessons are worth in rooms never seen, and which are to come first.

In rooms: for each seed half of the rooms are held out; games of the others are played, then each held-out game once.
Again: every game is played anew until it is won, with lessons recalled in several ways. Successes: the same, with
lessons from attempts that passed too, which an order can tell from those of failed ones.
A run for each way and seed lies below ``--work`` and is gone on with by the same command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion import Attempt, LessonSettings, Reflexion
from jeeves_reflexion.cli.bench_options import cores, numbers
from jeeves_reflexion.cli.options import COUNT, embedder_option
from jeeves_reflexion.experiments import ArmName, Plan, Results, RunLog, run_experiment
from jeeves_reflexion.experiments.comparisons import PairedDifference, paired_difference
from jeeves_reflexion.experiments.results import Split
from jeeves_reflexion.lessons.retrieval import Order, Picking
from vectorstores import InMemoryVectorStore

from ..options import embedder_called
from ..report import machine, out_option, points, table, tell_quarters, write_result
from .agent import ROOM, tasks_for, with_rooms
from .curves import SharedAttempts
from .experiment import spread
from .games import load_games
from .playing import Table, make_loop
from .pool import EnginePool
from .setting import NAMESPACE, STEP_LIMIT, Setting

NAME: Final = "alfworld_transfer"
SHARE: Final = 0.5
TRIALS: Final = 3
NOT_SEEN_TRIALS: Final = 2


@dataclass(frozen=True, slots=True)
class Way:
    """One way to keep and recall lessons; with ``successes`` attempts that passed teach them too."""

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
    """One part of the measurement: ``beside`` names the ways that the others are held against."""

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


async def measure(
    setting: Setting, folder: Path, wanted: Sequence[Part], ways: Sequence[str]
) -> dict[str, Any]:
    """Play what is not played yet, and return the figures."""
    games = spread(await anyio.to_thread.run_sync(load_games, folder))[: setting.count]
    say = partial(click.echo, err=True)
    found: dict[str, Any] = {"machine": machine(), "limit": setting.step_limit, "k": setting.plan.k}
    async with EnginePool(setting.plan.workers) as pool:
        opened = partial(tell_quarters, say, "opening games")
        tasks = with_rooms(await tasks_for(pool, games, workers=setting.plan.workers, progress=opened), games)
        board = Table(
            pool,
            {game.id: game for game in games},
            tasks,
            lambda arm, seed: InMemoryVectorStore(setting.embedder, namespace=NAMESPACE),
        )
        for part in wanted:
            chosen = [way for way in part.ways if not ways or way.name in ways]
            rows: dict[str, list[Results]] = {way.name: [] for way in chosen}
            for seed in part.plan.seeds:
                played: dict[tuple[object, ...], Attempt] = {}
                for way in chosen:
                    rows[way.name].append(await _play(setting, board, part, way, seed, played))
                say(f"{part.name}, seed {seed}: played")
            rooms = {task.id: str(task.metadata[ROOM]) for task in tasks}
            found[part.name] = {
                "games": len(tasks),
                "rooms": len(set(rooms.values())),
                **figures(part, rows, rooms),
            }
    return found


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


def figures(part: Part, rows: Mapping[str, Sequence[Results]], rooms: Mapping[str, str]) -> dict[str, Any]:
    """Return what each way solved, and differences in pairs over the games, clustered by room."""
    solved = {
        (name, trial): _scores(results, part.split, trial)
        for name, results in rows.items()
        for trial in part.trials
    }
    shares = [
        {
            "way": name,
            "trial": trial,
            "solved": sum(map(sum, each.values())),
            "n": sum(map(len, each.values())),
        }
        for (name, trial), each in solved.items()
    ]
    differences = [
        {
            "way": name,
            "less": less,
            "trial": trial,
            **asdict(paired_difference(solved[less, trial], solved[name, trial], clusters=rooms)),
        }
        for less in part.beside
        for name in rows
        for trial in part.trials
        if less in rows and name != less
    ]
    return {
        "seeds": list(part.plan.seeds),
        "trials": list(part.trials),
        "shares": shares,
        "differences": differences,
    }


def _scores(results: Sequence[Results], split: Split, trial: int) -> dict[str, list[float]]:
    """Return whether each game was solved by a trial, for each seed that it was played with."""
    found: dict[str, list[float]] = {}
    for each in results:
        for by_task in each.finished(each.arms[0], split).values():
            for task, tries in by_task.items():
                found.setdefault(task, []).append(float(each.solved(tries, each.judged_by)[trial - 1]))
    return found


def page(found: Mapping[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = []
    for name in ("rooms", "again", "successes"):
        if (part := found.get(name)) is None:
            continue
        heads = ["by trial " + str(trial) for trial in part["trials"]]
        what = f"{part['games']} games of {part['rooms']} rooms, {len(part['seeds'])} seeds, {found['limit']} commands"
        ways = list(dict.fromkeys(each["way"] for each in part["shares"]))
        cells = {
            (
                each["way"],
                each["trial"],
            ): f"{each['solved']:.0f}/{each['n']} = {each['solved'] / each['n']:.1%}"
            for each in part["shares"]
        }
        lines += [f"## {name}: {what}", ""]
        lines += [
            table(["way", *heads], [(way, *(cells[way, t] for t in part["trials"])) for way in ways]),
            "",
        ]
        gains = {
            (each["less"], each["way"], each["trial"]): points(
                PairedDifference(**{k: v for k, v in each.items() if k not in {"way", "less", "trial"}})
            )
            for each in part["differences"]
        }
        pairs = list(dict.fromkeys((less, way) for less, way, _ in gains))
        body = [(f"{way} - {less}", *(gains[less, way, t] for t in part["trials"])) for less, way in pairs]
        lines += [table(["difference", *heads], body), ""]
    return "\n".join(lines)


@click.command()
@click.option(
    "--games",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="As alfworld-download writes.",
)
@click.option("--limit", metavar="N", type=COUNT, help="How many games, of all types; by default all.")
@click.option(
    "--seeds", metavar="A,B", callback=numbers, default="0,1,2,3,4,5,6,7,8,9", help="Of splits and orders."
)
@click.option("--part", type=click.Choice(["rooms", "again", "successes"]), help="Only that one.")
@click.option("--ways", metavar="A,B", default="", help="Only these.")
@click.option("--step-limit", type=COUNT, default=STEP_LIMIT, show_default=True, help="Commands per try.")
@click.option("--workers", type=COUNT, default=cores, show_default="one a core", help="Games at a time.")
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=Path("runs/transfer"),
    show_default=True,
    help="Folder of the runs.",
)
@embedder_option
@out_option(f"{NAME}.md and .json")
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Play genuine games and write the tables."""
    part, ways = options["part"], [each for each in options["ways"].split(",") if each]
    wanted = [each for each in parts(options["seeds"], options["workers"]) if part in (None, each.name)]
    setting = Setting(
        plan=wanted[0].plan,
        out=options["work"],
        embedder=embedder_called(options["embedder"]),
        count=options["limit"],
        step_limit=options["step_limit"],
    )
    found = anyio.run(measure, setting, options["games"], wanted, ways)
    write_result(options["out"], NAME, found, page(found))
    click.echo(page(found))


if __name__ == "__main__":
    main()
