"""``python -m benchmarks.alfworld.curves``: learning curves of all arms at several limits of commands.

``--work`` holds a run for each limit and arm; the same command resumes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import anyio
import click

from jeeves_reflexion import Agent, Attempt, Reflexion, Session, Task
from jeeves_reflexion.cli.bench_options import cores, numbers, plan_options
from jeeves_reflexion.cli.options import COUNT, embedder
from jeeves_reflexion.experiments import (
    ArmName,
    PlainProgress,
    Plan,
    Results,
    RunLog,
    recall_settings,
    run_experiment,
)
from jeeves_reflexion.experiments.comparisons import PairedDifference, paired_difference
from jeeves_reflexion.experiments.plan import Split
from jeeves_reflexion.statistics import Share, clustered_share
from jeeves_reflexion.types import JSON
from vectorstores import InMemoryVectorStore

from ..options import F, arms_option, embedder_called
from ..report import (
    Scores,
    machine,
    out_option,
    percent,
    points,
    table,
    tell_quarters,
    write_result,
    write_run_report,
)
from .agent import LESSONS_BLOCK, WON, GameAgent, tasks_for
from .games import load_games, spread
from .playing import Table, make_loop
from .pool import EnginePool
from .setting import NAMESPACE, Setting

PAGE: Final = """# ALFWorld: all arms at several limits of commands

{games} genuine games in {rooms} rooms and {types} types of task; seeds: {seeds_of}. Each seed has a fresh store of
lessons for each arm, a random order of search for each attempt without advice, and a random choice of the placebo's
lessons. Games solved by each trial, with 95 % intervals clustered by room.

{solved}

Differences in points, paired by game, with 95 % intervals clustered by room, in brackets by type of task.

{gains}

Made by `python -m benchmarks.alfworld.curves` on {machine}.
"""

NAME: Final = "alfworld_curves"
FLOOR: Final = 0.3
CONTROLS: Final[tuple[ArmName, ...]] = ("retry", "tabu-retry", "last-attempt", "own")


def _share(each: dict[str, Any]) -> str:
    return percent(Share(**each["room"]), 1)


def _difference(each: dict[str, Any]) -> str:
    room, kind = (PairedDifference(**each[name]) for name in ("room", "type"))
    return f"{points(room)} [{100 * kind.low:+.1f} to {100 * kind.high:+.1f}]"


class SharedAttempts:
    """An agent that plays an attempt once if several arms and limits share it: engine and player are deterministic.

    An attempt without lessons is played to the longest limit, and cut for the others.
    """

    name = GameAgent.name
    retry_safe = True

    def __init__(
        self, agents: Mapping[int, Agent], limit: int, played: dict[tuple[object, ...], Attempt]
    ) -> None:
        self._agents, self._limit, self._played = agents, limit, played

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Play, or return the attempt that was played before."""
        block = session.blocks.get(LESSONS_BLOCK, "")
        limit = self._limit if block else max(self._agents)
        key = (task.id, session.attempt, block, limit)
        if key not in self._played:
            self._played[key] = await self._agents[limit](task, session)
        return cut(self._played[key], self._limit)


def cut(attempt: Attempt, limit: int) -> Attempt:
    """Return an attempt as it would have been with fewer commands."""
    if len(attempt.steps) <= limit:
        return attempt
    steps = attempt.steps[:limit]
    return Attempt(steps[-1].observation, steps, interrupted="max_turns", metadata={WON: False})


@asynccontextmanager
async def open_table(setting: Setting, folder: Path) -> AsyncIterator[Table]:
    """Open the games of a folder; each arm and seed has its own store in memory."""
    games = spread(await anyio.to_thread.run_sync(load_games, folder))[: setting.count]
    opened = partial(tell_quarters, partial(click.echo, err=True), "opening games")

    def scope(arm: ArmName, seed: int) -> InMemoryVectorStore:
        return InMemoryVectorStore(setting.embedder, namespace=f"{NAMESPACE}-{arm}-{seed}")

    async with EnginePool(setting.plan.workers) as pool:
        tasks = await tasks_for(pool, games, workers=setting.plan.workers, progress=opened)
        yield Table(pool, {game.id: game for game in games}, tasks, scope)


async def measure(setting: Setting, folder: Path, limits: Sequence[int]) -> dict[int, Results]:
    """Play what is missing of all arms and seeds at each limit, and return the results."""
    played: dict[int, dict[tuple[object, ...], Attempt]] = {}
    found = {}
    async with open_table(setting, folder) as board:

        def make(limit: int, arm: ArmName, seed: int) -> Reflexion:
            loops = {each: make_loop(replace(setting, step_limit=each), board, arm, seed) for each in limits}
            agents = {each: loop.agent for each, loop in loops.items()}
            loops[limit].agent = SharedAttempts(agents, limit, played.setdefault(seed, {}))
            return loops[limit]

        for limit in limits:
            parts = []
            for arm in setting.plan.arms:
                # One folder for each arm, so that an arm can be played again, or added later.
                log = RunLog(setting.out / f"{limit}-{arm}")
                await log.open(_config(setting, folder, limit), resume=log.exists)
                click.echo(f"{limit} commands, {arm}:", err=True)
                plan = replace(setting.plan, arms=(arm,))
                watcher = PlainProgress()
                parts.append(
                    await run_experiment(plan, board.tasks, partial(make, limit), log=log, watcher=watcher)
                )
            rows = [row for part in parts for row in part.rows]
            found[limit] = replace(parts[0], arms=setting.plan.arms, rows=rows)
            await write_run_report(
                found[limit], setting.out / f"{limit}", title=f"ALFWorld, {limit} commands"
            )
    return found


def _config(setting: Setting, folder: Path, limit: int) -> dict[str, JSON]:
    return {
        "benchmark": NAME,
        "games_from": str(folder),
        "step_limit": limit,
        "embedder": setting.embedder.id,
        "min_similarity": setting.settings.min_similarity,
    }


def scores(results: Iterable[Results], arm: ArmName, trial: int, split: Split = "learning") -> Scores:
    """Return whether each game was solved by a trial, for each seed that the arm finished."""
    found: Scores = {}
    for each in results:
        for by_task in each.finished(arm, split).values():
            for task, tries in by_task.items():
                found.setdefault(task, []).append(float(each.solved(tries, each.judged_by)[trial - 1]))
    return found


def figures(found: Mapping[int, Results]) -> dict[str, Any]:
    """Return shares solved and differences of arms, with intervals clustered by room and by type of task."""
    first = next(iter(found.values()))
    tasks = first.tasks
    clusters: dict[str, dict[str, str]] = {
        "room": {task.id: first.cluster_of(task) for task in tasks},
        "type": {task.id: str(task.kind) for task in tasks},
    }
    shares, differences = [], []
    for limit, results in found.items():
        solved = {
            (arm, trial): scores([results], arm, trial)
            for arm in results.arms
            for trial in range(1, results.trials + 1)
        }
        for (arm, trial), each in solved.items():
            found_by = {name: clustered_share(_grouped(each, of)) for name, of in clusters.items()}
            shares.append(
                {"limit": limit, "arm": arm, "trial": trial, **{k: asdict(v) for k, v in found_by.items()}}
            )
        for control, arm in _pairs(results.arms):
            for trial in range(2, results.trials + 1):
                pair = solved[control, trial], solved[arm, trial]
                by = {name: asdict(paired_difference(*pair, clusters=of)) for name, of in clusters.items()}
                differences.append({"limit": limit, "arm": arm, "less": control, "trial": trial, **by})
    return {
        "games": len(tasks),
        "rooms": len(set(clusters["room"].values())),
        "types": len({task.kind for task in tasks}),
        "seeds": {limit: list(results.seeds) for limit, results in found.items()},
        "machine": machine(),
        "shares": shares,
        "differences": differences,
    }


def _grouped(each: Scores, clusters: Mapping[str, str]) -> list[list[bool]]:
    groups: dict[str, list[bool]] = {}
    for task, outcomes in each.items():
        groups.setdefault(clusters[task], []).extend(map(bool, outcomes))
    return list(groups.values())


def _pairs(arms: Sequence[ArmName]) -> Iterator[tuple[ArmName, ArmName]]:
    """Pair each control with each arm, and each two controls once."""
    controls = [arm for arm in CONTROLS if arm in arms]
    for control in controls:
        done = controls[: controls.index(control) + 1]
        yield from ((control, arm) for arm in arms if arm not in done)


def page(found: Mapping[str, Any]) -> str:
    """Return the tables as Markdown."""
    trials = sorted({each["trial"] for each in found["shares"]})
    shares = _lines(found["shares"], lambda each: (each["limit"], each["arm"]), _share)
    differences = _lines(
        found["differences"], lambda each: (each["limit"], f"{each['arm']} - {each['less']}"), _difference
    )
    seeds = ", ".join(f"{len(seeds)} at {limit} commands" for limit, seeds in found["seeds"].items())
    return PAGE.format(
        **found,
        seeds_of=seeds,
        solved=table(["commands", "arm", *(f"trial {trial}" for trial in trials)], shares),
        gains=table(["commands", "arms", *(f"trial {trial}" for trial in trials[1:])], differences),
    )


def _lines(
    rows: Iterable[dict[str, Any]],
    key: Callable[[dict[str, Any]], tuple[Any, ...]],
    cell: Callable[[Any], str],
) -> list[tuple[Any, ...]]:
    """Return a line for each key, with a cell for each trial."""
    return [(*name, *map(cell, group)) for name, group in groupby(rows, key)]


def games_options(command: F) -> F:
    """Add ``--games`` and ``--limit``."""
    limit = click.option(
        "--limit", metavar="N", type=COUNT, help="How many games, of all types; by default all."
    )
    path = click.Path(path_type=Path, exists=True)
    return click.option("--games", type=path, required=True, help="As alfworld-download writes.")(
        limit(command)
    )


@click.command()
@games_options
@click.option(
    "--limits", callback=numbers, default="16,20,30,50", show_default=True, help="Commands per try."
)
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/curves"), show_default=True)
@arms_option("retry,tabu-retry,last-attempt,own,monotonic,selective,others-only,irrelevant")
@plan_options("game", k=3, workers=cores)
@embedder
@out_option("table and figures")
def main(**options: Any) -> None:  # noqa: ANN401 - click hands over what the decorators declare
    """Play what is missing, and write the table."""
    plan = {name: options[name] for name in ("arms", "trials", "seeds", "workers", "k")}
    setting = Setting(
        plan=Plan(**plan, cluster="opening"),
        out=options["work"],
        embedder=embedder_called(options["embedder"]),
        count=options["limit"],
        settings=recall_settings(FLOOR),
    )
    found = figures(anyio.run(measure, setting, options["games"], options["limits"]))
    write_result(options["out"], NAME, found, page(found))


if __name__ == "__main__":
    main()
