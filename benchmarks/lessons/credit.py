"""``python -m benchmarks.lessons.credit``: does credit tell helpful, useless and harmful lessons apart?

A simulation in which it is known what each lesson does (:mod:`benchmarks.lessons.credit_world`), driving the real
ledger, draw and rules. Writes a table to ``docs/results/lessons_credit.md``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.lessons.credit_play import Arm, Player, Run, Shares
from benchmarks.lessons.credit_report import Timing, report
from benchmarks.lessons.credit_rule import how_soon
from benchmarks.lessons.credit_world import World
from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore

RESULT: Final = Path("docs/results/lessons_credit.md")
SHARES: Final = (Shares(0.05), Shares(0.05, 0.5), Shares(0.1), Shares(0.2))
_ONLY_RETIRE_AT: Final = Shares(0.1)
_ON_DISK: Final = 2000
_ALONE: Final = 200  # lessons of each kind, with as many in a world


@dataclass(frozen=True, slots=True)
class Job:
    """One arm in one world, with one share withheld."""

    arm: Arm
    shares: Shares
    seed: int
    lessons: int
    attempts: int


def jobs(lessons: int, attempts: int, seeds: Sequence[int], all_shares: Sequence[Shares]) -> list[Job]:
    """Return what is to be played."""
    found: list[Job] = []
    for seed in seeds:
        found += [Job(arm, Shares(), seed, lessons, attempts) for arm in ("none", "oracle")]
        for shares in all_shares:
            found += [Job(arm, shares, seed, lessons, attempts) for arm in ("measure", "rank")]
            if shares == _ONLY_RETIRE_AT:
                found.append(Job("retire", shares, seed, lessons, attempts))
    return found


def play(job: Job) -> Run:
    """Play one job in this process, over a store in memory."""
    return anyio.run(_play, job)


async def _play(job: Job) -> Run:
    async with InMemoryVectorStore(HashingEmbedder(), namespace="credit") as store:
        return await Player(World(job.seed, job.lessons), job.arm, job.shares, store).play(job.attempts)


async def on_disk(job: Job) -> Timing:
    """Play one job over a FAISS folder, and say whether it comes out as in memory, and how long the ledger took."""
    inside = await _play(job)
    with tempfile.TemporaryDirectory(prefix="credit-") as folder:
        async with FaissVectorStore(
            Path(folder) / "store", embedder=HashingEmbedder(), namespace="credit"
        ) as store:
            world = World(job.seed, job.lessons)
            outside = await Player(world, job.arm, job.shares, store).play(job.attempts)
    same = inside.watched == outside.watched and inside.solved == outside.solved
    return Timing(
        job.attempts, inside.ledger_seconds / job.attempts, outside.ledger_seconds / job.attempts, same
    )


@click.command()
@click.option("--lessons", type=click.IntRange(min=10), default=200, show_default=True, help="In tens.")
@click.option("--attempts", type=click.IntRange(min=100), default=15_000, show_default=True)
@click.option("--seeds", default="0,1", show_default=True, help="Seeds of the worlds, by commas.")
@click.option("--workers", type=click.IntRange(min=1), default=lambda: os.cpu_count() or 1)
@click.option("--out", type=click.Path(path_type=Path), default=RESULT, show_default=True)
def main(*, lessons: int, attempts: int, seeds: str, workers: int, out: Path) -> None:
    """Play all arms, print the tables and write them to a file."""
    started = time.perf_counter()
    numbers = [int(seed) for seed in seeds.split(",")]
    runs: list[Run] = []
    with ProcessPoolExecutor(workers) as pool:
        todo = jobs(lessons, attempts, numbers, SHARES)
        for run in pool.map(play, todo):
            runs.append(run)
            click.echo(f"{len(runs)} of {len(todo)}: {run.arm} {run.shares} seed {run.seed}", err=True)
        alone = list(pool.map(how_soon, SHARES, [_ALONE * lessons // 200] * len(SHARES)))
    timing = anyio.run(on_disk, Job("rank", _ONLY_RETIRE_AT, numbers[0], lessons, min(attempts, _ON_DISK)))
    command = f"python -m benchmarks.lessons.credit --lessons {lessons} --attempts {attempts} --seeds {seeds}"
    soon = [each for group in alone for each in group]
    text = report(runs, soon, timing, command=command, seconds=time.perf_counter() - started)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    click.echo(text)


if __name__ == "__main__":
    main()
