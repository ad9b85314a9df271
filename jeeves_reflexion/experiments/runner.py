"""Runs an experiment: seeds, arms, trials, and within a trial the tasks not yet solved, some at a time.

Lessons written in a trial are committed at its end, in task order, and visible from the next trial on, so
results don't depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import anyio

from jeeves_reflexion.errors import ConfigurationError, ExperimentError, LessonStoreError
from jeeves_reflexion.experiments.arms import ArmName
from jeeves_reflexion.experiments.plan import Plan
from jeeves_reflexion.experiments.results import Results, Tried
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.reflexion import Reflexion
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Task, Trial

LoopFactory: TypeAlias = Callable[[ArmName, int], Reflexion]
"""Makes the loop of an arm and a seed: ``(arm, seed) -> Reflexion``."""


class Watcher:
    """What an experiment tells while it runs; every method may be overridden, none must be."""

    def prepared(self, what: str, done: int, total: int) -> None:
        """Some of what the experiment needs is ready, before its first round."""

    def round_started(self, arm: ArmName, seed: int, trial: int, todo: int) -> None:
        """A trial of an arm begins with ``todo`` tasks left to solve."""

    def tried(self, row: Tried) -> None:
        """A task was tried."""

    def round_finished(self, arm: ArmName, seed: int, trial: int, results: Results) -> None:
        """A trial of an arm is over and its lessons are stored."""

    def interrupted(self, where: str) -> None:
        """The experiment ends before its time."""

    def close(self) -> None:
        """The experiment is over, in whatever way."""


@dataclass(frozen=True, slots=True)
class _Round:
    """One trial of one arm and seed."""

    arm: ArmName
    seed: int
    trial: int
    loop: Reflexion


async def run_experiment(
    plan: Plan,
    tasks: Sequence[Task],
    make_loop: LoopFactory,
    *,
    log: RunLog,
    watcher: Watcher | None = None,
) -> Results:
    """Run the plan over the tasks and return its results; every row is in the log when it is counted.

    When it is cancelled (Ctrl-C), the lessons of the tries that were finished are stored, the log says where
    it stopped, and the cancellation goes on.
    """
    if len({task.id for task in tasks}) != len(tasks) or not tasks:
        raise ConfigurationError("an experiment needs tasks, each with an id of its own")
    results = Results(tuple(tasks), plan.arms, plan.seeds, plan.trials)
    watcher = watcher or Watcher()
    try:
        for seed in plan.seeds:
            for arm in plan.arms:
                loop = make_loop(arm, seed)
                sessions = {
                    task.id: replace(loop.session(), id=f"{arm}-{seed}-{task.id[:16]}") for task in tasks
                }
                for number in range(1, plan.trials + 1):
                    await _round(
                        _Round(arm, seed, number, loop), results, sessions, plan.workers, log, watcher
                    )
    finally:
        watcher.close()
    return results


async def _round(
    turn: _Round, results: Results, sessions: dict[str, Session], workers: int, log: RunLog, watcher: Watcher
) -> None:
    histories = {task.id: results.history(turn.arm, turn.seed, task) for task in results.tasks}
    todo = [task for task in results.tasks if not any(trial.passed for trial in histories[task.id])]
    watcher.round_started(turn.arm, turn.seed, turn.trial, len(todo))
    done: dict[str, Trial] = {}
    limiter = anyio.CapacityLimiter(workers)

    async def one(task: Task) -> None:
        async with limiter:
            trial = await turn.loop.trial(task, histories[task.id], sessions[task.id], commit=False)
        done[task.id] = trial
        watcher.tried(Tried(turn.arm, turn.seed, task, trial))

    try:
        try:
            async with anyio.create_task_group() as group:
                for task in todo:
                    group.start_soon(one, task)
        finally:
            with anyio.CancelScope(shield=True):
                await _commit(turn, results, sessions, done, log)
        _check_tried(turn, done)
        await log.write(
            "round", {"arm": turn.arm, "seed": turn.seed, "trial": turn.trial, "tried": len(todo)}
        )
    except BaseException as error:
        tried = f"{len(done)} of {len(todo)} tasks tried"
        results.interrupted = f"arm {turn.arm}, seed {turn.seed}, trial {turn.trial}: {tried}"
        watcher.interrupted(results.interrupted)
        first = _alone(error)
        with anyio.CancelScope(shield=True):
            why = f"{type(first).__name__}: {first}" if isinstance(first, Exception) else "cancelled"
            await log.write("interrupted", {"where": results.interrupted, "why": why})
        if first is error:
            raise
        raise first from error
    watcher.round_finished(turn.arm, turn.seed, turn.trial, results)


async def _commit(
    turn: _Round, results: Results, sessions: dict[str, Session], done: dict[str, Trial], log: RunLog
) -> None:
    """Store what was learned and count what was tried, in task order.

    A lesson that can't be stored loses no other: the first such error is raised when all the rest is done.
    """
    failure: LessonStoreError | None = None
    rows = []
    for task in results.tasks:
        if task.id not in done:
            continue
        trial = done[task.id]
        try:
            trial = await turn.loop.commit(task, trial, sessions[task.id])
        except LessonStoreError as error:
            failure = failure or error
            trial = replace(trial, problems=(*trial.problems, str(error)))
        rows.append(Tried(turn.arm, turn.seed, task, trial))
    results.rows += rows
    for row in rows:
        await log.write("tried", row.as_json())
    if failure is not None:
        raise failure


def _check_tried(turn: _Round, done: dict[str, Trial]) -> None:
    """Refuse to go on where no task could even be begun: that is no result, and more of it would cost for nothing."""
    attempts = [trial.attempt for trial in done.values()]
    if attempts and all(attempt.error and not attempt.steps for attempt in attempts):
        raise ExperimentError(
            f"no task could be begun in trial {turn.trial} of arm {turn.arm}: {attempts[0].error}"
        )


def _alone(error: BaseException) -> BaseException:
    """The first error of a task group; the others are of tasks that ran beside it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
