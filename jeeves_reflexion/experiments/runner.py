"""Runs an experiment: for each seed, arm and trial, the unsolved tasks, several at a time.

Lessons written in a trial are stored at its end, in task order, and are visible from the next trial on. So results do
not depend on the number of workers, nor on where a run was killed and resumed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.experiments.arms import Arm, arm_of, as_arm, reading_only
from jeeves_reflexion.experiments.batch import Batch, Run, SpendingLimitError, forget_lost
from jeeves_reflexion.experiments.executors import Executor, LocalExecutor, LoopFactory, RunBudget
from jeeves_reflexion.experiments.plan import Plan, design_of, split
from jeeves_reflexion.experiments.progress import Watcher
from jeeves_reflexion.experiments.results import Results, Tried, total
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.experiments.summary import figures
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.types import Task


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

    If the log was opened with ``resume=True``, tries that it has are not made again. The results are those of a run
    that was never stopped, provided that the agent's attempt depends on its task, session and seed alone.

    On cancellation (Ctrl-C), the log says where the run stopped, and the cancellation is raised again. A run that
    reaches its spending limit returns, and ``Results.interrupted`` says so. The lessons of a batch that is cut short
    wait in the journal until the run is resumed.

    Args:
        plan: Arms, trials, seeds, held-out share, workers and limits.
        tasks: At least one, with distinct ids.
        make_loop: Makes the loop of an arm and a seed. For an arm without memory, the loop's memory is not used.
        log: The run's folder, opened.
        watcher: Hears how the run goes.
        scorer: Judges every try with the gold answer, for the results alone: the loop never hears its verdict.
        executor: Makes the tries, by default in this process. Lessons are always stored by this process.

    Raises:
        ConfigurationError: for tasks with equal ids, and a run that can't be resumed with this plan.
        ExperimentError: if no task could be begun, or the log can't be written.
        LessonStoreError: if a lesson can't be stored.
    """
    if len({task.id for task in tasks}) != len(tasks) or not tasks:
        raise ConfigurationError("an experiment needs at least one task, and all tasks need distinct ids")
    learning, held_out = split(tasks, plan.holdout, seed=plan.split_seed, by=plan.holdout_by)
    results = Results(
        learning,
        plan.arms,
        plan.seeds,
        plan.trials,
        held_out=held_out,
        judged_by=plan.judged_by,
        scored=scorer is not None,
        cluster=plan.cluster,
    )
    watcher = watcher or Watcher()
    try:
        earlier = design_of(plan, learning, held_out, redacted=True) if log.resumed else None
        past = await log.begin(design_of(plan, learning, held_out), earlier)
        run = Run(
            log,
            watcher,
            results,
            RunBudget(plan.max_cost_usd, total(past.tries.values())),
            past,
            plan.workers,
            executor or LocalExecutor(),
            scorer,
        )
        if log.resumed:
            skipped = "no try is finished: the run starts from the beginning"
            if past.tries:
                skipped = (
                    f"{len(past.tries)} finished tries are in the log and are not made again;"
                    f" {len(past.stored)} lessons are stored and are not stored again"
                )
            await log.tell("resumed", {"skipped": skipped})
            watcher.said(f"resumed: {skipped}")
        else:
            await log.tell("started", {})
        await _play_all(plan, run, make_loop)
        await log.save("results.json", json.dumps(figures(results), indent=1, ensure_ascii=False) + "\n")
        await log.tell("finished", {"interrupted": results.interrupted})
    finally:
        log.close()
    return results


async def _play_all(plan: Plan, run: Run, make_loop: LoopFactory) -> None:
    """Play every arm with every seed, and save the rows however that ends."""
    known, results = len(run.past.tries), run.results
    try:
        for seed in plan.seeds:
            for arm in map(arm_of, plan.arms):
                loop = as_arm(make_loop(arm.name, seed), arm)
                run.executor.check(arm, loop)
                await _play(run, arm, seed, loop)
    except SpendingLimitError:
        pass  # results.interrupted says so: the run ended as its plan asked
    finally:
        # A resumed run that stops before it has replayed the journal leaves the file of the earlier stop.
        if len(results.rows) >= known:
            with anyio.CancelScope(shield=True):
                await run.log.save_rows({"kind": "tried", **row.as_json()} for row in results.rows)


async def _play(run: Run, arm: Arm, seed: int, loop: Reflexion) -> None:
    """Play one arm with one seed, from its first trial to its held-out tasks."""
    results, watcher = run.results, run.watcher
    await forget_lost(run, loop, arm, seed)
    todo: Sequence[Task] = results.tasks
    histories: dict[str, tuple[Tried, ...]] = {task.id: () for task in todo}
    for number in range(1, arm.trials(results.trials) + 1):
        watcher.batch_started(arm.name, seed, number, len(todo))
        batch = Batch(run, arm, seed, number, loop, todo, histories)
        await batch.play()
        watcher.batch_finished(arm.name, seed, number, results)
        todo = [task for task in todo if not batch.rows[task.id].passed]
        histories = {task.id: (*histories[task.id], batch.rows[task.id]) for task in todo}
    if results.held_out:
        tasks = results.held_out
        batch = Batch(
            run, arm, seed, 1, reading_only(loop), tasks, {task.id: () for task in tasks}, "held-out"
        )
        await batch.play()
        solved = sum(row.passed for row in batch.rows.values())
        held_out = f"held out: {solved} of {len(tasks)} solved at the first try"
        watcher.said(f"{arm.name:<12} seed {seed}  {held_out}")
