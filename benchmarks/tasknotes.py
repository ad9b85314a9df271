"""``python -m benchmarks.tasknotes``: success over runs of the same games, with task notes on and off.

The offline player of ALFWorld is a task of an ensemble; with notes, a game that was won leaves a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import anyio
import click

from benchmarks.alfworld.agent import LESSONS_BLOCK, WON, GameAgent, OfflinePlayer, tasks_for
from benchmarks.alfworld.experiment import STEP_LIMIT
from benchmarks.alfworld.games import Game
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.pool import EnginePool
from benchmarks.alfworld.rules_reflector import distil
from benchmarks.report import counted_share, points, share_of
from benchmarks.report import table as markdown
from jeeves_reflexion import RewardEvaluator, Session, Task
from jeeves_reflexion.cli.bench_options import numbers
from jeeves_reflexion.statistics import difference
from jeeves_reflexion.tasknotes import (
    Ensemble,
    EnsembleTask,
    InMemoryReflectionStore,
    ReflectionConfig,
    ReflectionInput,
    TaskReflection,
)
from jeeves_reflexion.text import bullets

Arm: TypeAlias = Literal["off", "on"]
ARMS: Final[tuple[Arm, ...]] = get_args(Arm)
ALL: Final = "all kinds"


@dataclass(frozen=True, slots=True)
class Played:
    """One run of one game: in which arm, for the how many-th time (from 1), and whether it was won."""

    arm: Arm
    seed: int
    run: int
    game: str
    kind: str
    won: bool


class RulesStrategy:
    """Reflects by rules: what worked in a game that was won, in one sentence, for the next run of the same game."""

    async def reflect(self, given: ReflectionInput) -> TaskReflection:
        """Return the sentence as the better instructions."""
        steps = given.attempt.steps if given.attempt is not None else ()
        sentence = distil(
            given.task.prompt, [(step.thought, step.action, step.observation) for step in steps]
        )
        return TaskReflection.of_first_run(sentence, "")


def player(task: Task, session: Session, *, seed: int) -> OfflinePlayer:
    """Return a player that reads the notes in its prompt as advice, and the task after them as the opening."""
    notes, _, opening = task.prompt.rpartition("\n---\n\n## Task\n\n")
    advice = [line for line in notes.splitlines() if line.strip() and not line.startswith("#")]
    session = session.for_attempt(session.attempt, {LESSONS_BLOCK: bullets(advice)})
    return OfflinePlayer(replace(task, prompt=opening), session, seed=seed)


async def play(
    pool: EnginePool,
    games: Mapping[str, Game],
    tasks: Sequence[Task],
    arm: Arm,
    seed: int,
    runs: int,
    step_limit: int = STEP_LIMIT,
) -> list[Played]:
    """Run all games so often in one arm; the search orders are the same in both arms."""
    store = InMemoryReflectionStore()
    config = ReflectionConfig(strategy=RulesStrategy())
    works = [
        EnsembleTask(
            task.prompt,
            reflect=config if arm == "on" else False,
            kind=task.kind,
            reference=task.reference,
            metadata=task.metadata,
            id=task.id,
        )
        for task in tasks
    ]
    played: list[Played] = []
    for run in range(1, runs + 1):
        # The order of the search is drawn anew for each run, as a person would look elsewhere next time.
        draw = partial(player, seed=1000 * seed + run)
        agent = GameAgent(pool, games, draw, step_limit=step_limit)
        ensemble = Ensemble(agent=agent, evaluator=RewardEvaluator(WON), reflection_store=store)
        result = await ensemble.run(*works, workers=len(tasks))
        for task, outcome in zip(tasks, result.outcomes, strict=True):
            if outcome.status == "failed":
                raise RuntimeError(f"game {task.id} could not be played: {outcome.reason}")
            played.append(Played(arm, seed, run, task.id, task.kind or "", outcome.accepted))
    return played


def table(played: Sequence[Played]) -> str:
    """Return a Markdown table of the games won in each run, with 95 % Wilson intervals.

    The last column is how much more of the last run's games were won with notes, with its interval (Newcombe). Seeds
    are pooled: they share the games, so the intervals are somewhat narrower than those of different games.
    """
    runs = sorted({each.run for each in played})
    rows = []
    for kind in [*sorted({each.kind for each in played}), ALL]:
        mine = [each for each in played if kind in (ALL, each.kind)]
        for arm in ARMS:
            won = [share_of(e.won for e in mine if (e.arm, e.run) == (arm, run)) for run in runs]
            gain = _gain(mine, runs[-1]) if arm == "on" else ""
            rows.append([kind, arm, *map(counted_share, won), gain])
    heads = ["kind", "notes", *(f"run {run}" for run in runs), f"on - off in run {runs[-1]}"]
    return markdown(heads, rows)


def _gain(played: Sequence[Played], run: int) -> str:
    off, on = ([float(each.won) for each in played if (each.arm, each.run) == (arm, run)] for arm in ARMS)
    return points(difference(off, on), 0)


async def measure(
    folder: Path, count: int, game_seed: int, seeds: Sequence[int], runs: int, workers: int
) -> list[Played]:
    """Make the games and play them in both arms."""
    games = await generate_games(folder, count=count, seed=game_seed, workers=workers)
    by_id = {game.id: game for game in games}
    played: list[Played] = []
    async with EnginePool(workers) as pool:
        tasks = await tasks_for(pool, games, workers=workers)
        for seed in seeds:
            for arm in ARMS:
                click.echo(f"seed {seed}, notes {arm} ...", err=True)
                played += await play(pool, by_id, tasks, arm, seed, runs)
    return played


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=134, show_default=True, help="Games.")
@click.option("--game-seed", type=int, default=0, show_default=True)
@click.option("--seeds", callback=numbers, default="0,1,2", show_default=True, help="Of the player.")
@click.option("--runs", type=click.IntRange(min=2), default=5, show_default=True, help="Runs of each game.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--made-games", type=click.Path(path_type=Path), default=Path("runs/games"), show_default=True)
def main(
    *, count: int, game_seed: int, seeds: tuple[int, ...], runs: int, workers: int, made_games: Path
) -> None:
    """Play and print the table."""
    click.echo(table(anyio.run(measure, made_games, count, game_seed, seeds, runs, workers)))


if __name__ == "__main__":
    main()
