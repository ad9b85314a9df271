"""``python -m benchmarks.tries``: what a try of an experiment costs in time and memory, with an instant agent.

Every try fails, recalls lessons from a folder if the arm has any, and leaves a lesson of its own: the most work a try
can be. The table has the milliseconds of a try and the memory of the process, by trial.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import click

from benchmarks.report import machine, table
from benchmarks.timing import resident_memory
from jeeves_reflexion import HashingEmbedder, Reflection, Reflexion, Task, Trial, open_lessons
from jeeves_reflexion.experiments import Plan, Results, RunLog, Watcher, run_experiment
from jeeves_reflexion.experiments.arms import ArmName


async def agent(prompt: str) -> str:
    """Answer at once."""
    return "The answer is forty-two."


async def judge(output: str) -> float:
    """Fail every answer."""
    return 0.1


async def reflect(task: Task, trials: Sequence[Trial], *, problem: str | None = None) -> Reflection:
    """Write a lesson that differs for each task."""
    return Reflection(f"Count the rows of report {task.id} once more before you answer.")


class Clock(Watcher):
    """Records time and memory at the end of each trial."""

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
        memory = sum(resident_memory().values()) / 2**20
        self.rows.append((arm, trial, len(results.rows), took, used, f"{memory:.0f}"))


async def measure(tasks: int, arms: Sequence[ArmName], workers: int) -> Clock:
    """Run an experiment of three trials."""
    asked = [
        Task(f"How many rows has report {n} in cabinet {n % 97}?", id=f"report-{n}") for n in range(tasks)
    ]
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="tries-") as folder:
        log = RunLog(Path(folder) / "run")
        await log.open({})
        async with open_lessons(Path(folder) / "lessons", embedder=HashingEmbedder()) as store:

            def loop(arm: ArmName, seed: int) -> Reflexion:
                lessons = store if arm == "selective" else None
                return Reflexion(agent, evaluator=judge, reflector=reflect, lesson_store=lessons)

            plan = Plan(arms=tuple(arms), trials=3, workers=workers)
            await run_experiment(plan, asked, loop, log=log, watcher=clock)
    return clock


@click.command()
@click.option("--tasks", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--arm", "arms", multiple=True, default=("own", "selective"), show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=8, show_default=True)
def main(tasks: int, arms: Sequence[ArmName], workers: int) -> None:
    """Run an experiment with an agent that takes no time, and print what a try costs."""
    if not sys.platform.startswith("linux"):
        raise click.ClickException(
            "this command reads the memory of the process from /proc, so it needs Linux"
        )
    click.echo(f"{machine()}; {tasks:,} tasks x 3 trials, {workers} at a time\n")
    heads = ["arm", "trial", "tries so far", "ms a try", "of CPU", "memory, MiB"]
    click.echo(table(heads, anyio.run(measure, tasks, arms, workers).rows))


if __name__ == "__main__":
    main()
