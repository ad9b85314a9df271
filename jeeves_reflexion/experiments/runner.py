"""Runs an experiment: seeds, arms, trials, and within a trial the tasks not yet solved, some at a time.

Lessons written in a trial are stored at its end, in task order, and visible from the next trial on, so results don't
depend on the number of workers, nor on where a run was killed and resumed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import Arm, arm_of
from jeeves_reflexion.experiments.costs import Purse
from jeeves_reflexion.experiments.design import design_of
from jeeves_reflexion.experiments.executors import Executor, LocalExecutor, LoopFactory
from jeeves_reflexion.experiments.figures import figures
from jeeves_reflexion.experiments.journal import Past
from jeeves_reflexion.experiments.plan import Plan
from jeeves_reflexion.experiments.results import Results
from jeeves_reflexion.experiments.rounds import (
    Bench,
    InterruptedTryError,
    Round,
    SpendingLimitError,
    as_arm,
    forget_lost,
    reading_only,
)
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.experiments.splitting import split
from jeeves_reflexion.experiments.watching import Watcher
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.types import Task, Trial

__all__ = ["LoopFactory", "Watcher", "run_experiment"]


async def run_experiment(
    plan: Plan,
    tasks: Sequence[Task],
    make_loop: LoopFactory,
    *,
    log: RunLog,
    watcher: Watcher | None = None,
    scorer: Evaluator | None = None,
    executor: Executor | None = None,
) -> Results:
    """Run the plan over the tasks and return its results; every try is in the log as soon as it is finished.

    A log that was opened with ``resume=True`` has what is in it skipped: results are those of a run that was never
    stopped, provided that the agent's attempt depends on its task, session and seed alone.

    When it is cancelled (Ctrl-C), the log says where it stopped, and the cancellation goes on. The lessons of a round
    that is cut short are stored at once or wait in the journal, as ``plan.on_stop`` says. A spending limit ends a run
    with ``Results.interrupted`` saying so, and always lets them wait.

    ``scorer`` judges every try with the gold answer for the results alone; the loop never hears of it. An arm without
    memory has none, whatever loop ``make_loop`` returns for it.

    ``executor`` is who makes the tries, by default this process; lessons are stored by this process in any case.
    """
    if len({task.id for task in tasks}) != len(tasks) or not tasks:
        raise ConfigurationError("an experiment needs tasks, each with an id of its own")
    learning, held_out = split(tasks, plan.holdout, seed=plan.split_seed)
    results = Results(
        learning,
        plan.arms,
        plan.seeds,
        plan.trials,
        held_out=held_out,
        judged_by=plan.judged_by,
        scored=scorer is not None,
    )
    watcher = watcher or Watcher()
    try:
        past = await log.begin(design_of(plan, learning, held_out))
        purse = Purse(plan.max_cost_usd, past.spent)
        stores = plan.on_stop == "store"
        bench = Bench(log, watcher, purse, past, plan.workers, scorer, stores, executor or LocalExecutor())
        await _say_begun(bench)
        try:
            for seed in plan.seeds:
                for arm in map(arm_of, plan.arms):
                    loop = as_arm(make_loop(arm.name, seed), arm)
                    bench.executor.check(arm, loop)
                    await _Lane(bench, results, arm, seed, loop).play()
        except SpendingLimitError:
            pass  # said in results.interrupted: the run ends as it was asked to
        await log.save("results.json", json.dumps(figures(results), indent=1, ensure_ascii=False) + "\n")
        await log.tell("finished", {"interrupted": results.interrupted})
    finally:
        watcher.close()
        log.close()
    return results


@dataclass(slots=True)
class _Lane:
    """One arm and seed, from its first trial to its held-out tasks."""

    bench: Bench
    results: Results
    arm: Arm
    seed: int
    loop: Reflexion

    async def play(self) -> None:
        """Play all rounds that are not in the log."""
        again = await forget_lost(self.bench, self.loop, self.arm, self.seed)
        if again:
            await self.bench.log.tell(
                "stored_again", {"arm": self.arm.name, "seed": self.seed, "lessons": again}
            )
        for number in range(1, self.arm.trials(self.results.trials) + 1):
            histories = self.results.histories(self.arm.name, self.seed)
            todo = [
                task for task in self.results.tasks if not any(trial.passed for trial in histories[task.id])
            ]
            await self._round(Round(self.bench, self.arm, self.seed, number, self.loop, todo, histories))
        if self.results.held_out:
            await self._held_out()

    async def _held_out(self) -> None:
        tasks = self.results.held_out
        nothing: dict[str, Sequence[Trial]] = {task.id: () for task in tasks}
        loop = reading_only(self.loop)
        turn = Round(self.bench, self.arm, self.seed, 1, loop, tasks, nothing, "held-out")
        await self._round(turn)
        solved = sum(kept.trial.passed for kept in turn.done.values())
        self.bench.watcher.held_out_finished(self.arm.name, self.seed, solved, len(tasks))

    async def _round(self, turn: Round) -> None:
        bench, held = self.bench, turn.split == "held-out"
        if not held:
            bench.watcher.round_started(self.arm.name, self.seed, turn.number, len(turn.todo))
        for task in turn.todo:
            if task.id in turn.done:
                bench.watcher.tried(turn.row(task))
        try:
            try:
                await turn.try_all()
                await turn.check()
            except BaseException as error:
                if bench.stores_when_stopped and not isinstance(_alone(error), SpendingLimitError):
                    await self._store(turn)
                else:  # their lessons wait; what they cost is known
                    self.results.rows += turn.rows
                raise
            await self._store(turn)
            where = {"arm": self.arm.name, "seed": self.seed, "trial": turn.number, "split": turn.split}
            await bench.log.write("round", {**where, "tried": len(turn.todo)})
        except BaseException as error:
            await self._stopped(turn, error)
            first = _alone(error)
            if isinstance(first, InterruptedTryError):
                raise KeyboardInterrupt(str(first)) from error
            if first is error:
                raise
            raise first from error
        if not held:
            bench.watcher.round_finished(self.arm.name, self.seed, turn.number, self.results)

    async def _store(self, turn: Round) -> None:
        with anyio.CancelScope(shield=True):
            before = len(self.results.rows)
            try:
                self.results.rows += await turn.store()
            finally:
                if len(self.results.rows) == before:
                    self.results.rows += turn.rows

    async def _stopped(self, turn: Round, error: BaseException) -> None:
        held = " (held-out tasks)" if turn.split == "held-out" else ""
        tried = f"{len(turn.done)} of {len(turn.todo)} tasks tried"
        where = f"arm {self.arm.name}, seed {self.seed}, trial {turn.number}{held}: {tried}"
        first = _alone(error)
        why = f"{type(first).__name__}: {first}" if isinstance(first, Exception) else "cancelled"
        limit = isinstance(first, SpendingLimitError)
        self.results.interrupted = f"{where}; {first}" if limit else where
        self.bench.watcher.interrupted(self.results.interrupted)
        with anyio.CancelScope(shield=True):
            await self.bench.log.write("interrupted", {"where": where, "why": why})
            await self.bench.log.tell("interrupted", {"where": where, "why": why})


async def _say_begun(bench: Bench) -> None:
    if not bench.log.resumed:
        await bench.log.tell("started", {})
        return
    said = skipped(bench.past)
    await bench.log.tell("resumed", {"skipped": said})
    bench.watcher.resumed(said)


def skipped(past: Past) -> str:
    """Say what a resumed run does not do again."""
    tries = Counter(place.arm for place in past.tries)
    if not tries:
        return "no try is finished: the run begins from the start"
    by_arm = ", ".join(f"{arm} {n}" for arm, n in tries.items())
    return (
        f"{sum(tries.values())} finished tries are in the log and are not made again ({by_arm}); "
        f"{len(past.stored)} lessons are stored and are not stored again"
    )


def _alone(error: BaseException) -> BaseException:
    """The first error of a task group; the others are of tasks that ran beside it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
