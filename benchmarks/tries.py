"""``python -m benchmarks.tries``: what a try of an experiment costs, and holds in memory, with an agent of no time.

Every try fails, recalls lessons of a folder where the arm has any, and leaves a lesson of its own: the most there is to
do. Told are, by trial, the milliseconds of a try, of which the agent takes none, and the memory of the process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from benchmarks.report import machine, table
from jeeves_reflexion import HashingEmbedder, Reflection, Reflexion, Task, Trial, open_lessons
from jeeves_reflexion.experiments import Plan, Results, RunLog, Watcher, run_experiment
from jeeves_reflexion.experiments.arms import ArmName

_PAGE: Final = 4096


def _megabytes() -> float:
    """Return the memory that the process holds now, where the system tells."""
    if not sys.platform.startswith("linux"):
        raise click.ClickException("the memory of a process is read from /proc, which Linux alone has")
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * _PAGE / 2**20


async def agent(prompt: str) -> str:
    """Answer at once."""
    return "The answer is forty-two."


async def judge(output: str) -> float:
    """Let nothing pass."""
    return 0.1


async def reflect(task: Task, trials: Sequence[Trial], *, problem: str | None = None) -> Reflection:
    """Write a lesson that no other task has."""
    return Reflection(f"Count the rows of report {task.id} once more before you answer.")


class Clock(Watcher):
    """Notes time and memory at the end of each trial."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._started, self._used = 0.0, 0.0

    def batch_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """See :class:`Watcher`."""
        self._started, self._used = time.perf_counter(), time.process_time()

    def batch_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """See :class:`Watcher`."""
        taken = (time.perf_counter() - self._started, time.process_time() - self._used)
        took, used = (f"{1e3 * seconds / len(results.tasks):.2f}" for seconds in taken)
        self.rows.append((arm, trial, len(results.rows), took, used, f"{_megabytes():.0f}"))


async def measure(tasks: int, arms: Sequence[ArmName], workers: int) -> Clock:
    """Run an experiment of three trials."""
    given = [
        Task(f"How many rows has report {n} in cabinet {n % 97}?", id=f"report-{n}") for n in range(tasks)
    ]
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="tries-") as folder:
        log = RunLog(Path(folder) / "run")
        await log.open({})
        async with open_lessons(Path(folder) / "lessons", embedder=HashingEmbedder()) as store:

            def loop(arm: ArmName, seed: int) -> Reflexion:
                kept = store if arm == "selective" else None
                return Reflexion(agent, evaluator=judge, reflector=reflect, lesson_store=kept)

            plan = Plan(arms=tuple(arms), trials=3, workers=workers)
            await run_experiment(plan, given, loop, log=log, watcher=clock)
    return clock


@click.command()
@click.option("--tasks", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--arm", "arms", multiple=True, default=("own", "selective"), show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=8, show_default=True)
def main(tasks: int, arms: Sequence[ArmName], workers: int) -> None:
    """Run an experiment with an agent that takes no time, and say what is left."""
    click.echo(f"{machine()}; {tasks:,} tasks x 3 trials, {workers} at a time\n")
    heads = ["arm", "trial", "tries so far", "ms a try", "of CPU", "memory, MiB"]
    click.echo(table(heads, anyio.run(measure, tasks, arms, workers).rows))


if __name__ == "__main__":
    main()
