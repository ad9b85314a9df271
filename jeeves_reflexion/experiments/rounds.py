"""One round of an experiment: a trial of an arm and seed over the tasks not yet solved, some at a time.

A try is in the journal as soon as it is finished. Lessons are stored when the round is over, in task order, and each
once: a round that was interrupted is gone on with from the journal, and a lesson that is stored already is found.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from jeeves_reflexion.errors import ExperimentError, LessonRefusedError, LessonStoreError
from jeeves_reflexion.experiments.arm_stores import (
    ReadOnly,
    any_written,
    beneath,
    without_withholding,
    written_by,
)
from jeeves_reflexion.experiments.arms import Arm
from jeeves_reflexion.experiments.costs import Purse
from jeeves_reflexion.experiments.executors import Executor, Job, LocalExecutor
from jeeves_reflexion.experiments.journal import Kept, Past, Place, stored_line, try_line, void_line
from jeeves_reflexion.experiments.results import Split, Tried
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.experiments.watching import Watcher
from jeeves_reflexion.lessons import TransientMemory
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.redaction import redact, redact_id
from jeeves_reflexion.text import cut_middle, render_steps
from jeeves_reflexion.types import Task, Trial

LAST_ATTEMPT_TOKENS: Final = 2000
"""So much of the last attempt is shown to the arm ``last-attempt``, for its steps and for its output each."""


class SpendingLimitError(ExperimentError):
    """The run has spent what it may; it can be resumed with a higher limit."""


class InterruptedTryError(Exception):
    """A ``KeyboardInterrupt`` on its way out of a try, which is raised again outside of the task group.

    As itself it would end the event loop at once and leave threads for which the process waits for ever.
    """


@dataclass(slots=True)
class Bench:
    """What all rounds of an experiment share."""

    log: RunLog
    watcher: Watcher
    purse: Purse
    past: Past
    workers: int
    scorer: Evaluator | None = None
    stores_when_stopped: bool = True
    executor: Executor = field(default_factory=LocalExecutor)
    limiter: anyio.CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.limiter = anyio.CapacityLimiter(self.workers)


@dataclass(slots=True)
class Round:
    """One trial of one arm and seed: ``todo`` are its tasks in order, ``done`` the tries that are finished."""

    bench: Bench
    arm: Arm
    seed: int
    number: int
    loop: Reflexion
    todo: Sequence[Task]
    histories: Mapping[str, Sequence[Trial]]
    split: Split = "learning"
    done: dict[str, Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in self.todo:
            kept = self.bench.past.tries.get(self.place(task))
            if kept is not None:
                self.done[task.id] = kept

    def place(self, task: Task) -> Place:
        """Return where a try of a task is made."""
        return Place(self.arm.name, self.seed, self.split, name_of(task), self.number)

    @property
    def left(self) -> list[Task]:
        """The tasks that are not tried yet."""
        return [task for task in self.todo if task.id not in self.done]

    @property
    def rows(self) -> list[Tried]:
        """The rows of the finished tries, in task order."""
        return [self.row(task) for task in self.todo if task.id in self.done]

    def row(self, task: Task) -> Tried:
        """Return the row of a finished try."""
        kept = self.done[task.id]
        return Tried(self.arm.name, self.seed, task, kept.trial, self.split, kept.scored)

    async def try_all(self) -> None:
        """Try what is left; raises :class:`SpendingLimitError` where the limit leaves some of it."""
        async with anyio.create_task_group() as group:
            for task in self.left:
                group.start_soon(self._try, task)
        if self.left:
            raise SpendingLimitError(str(self.bench.purse))

    async def check(self) -> None:
        """Refuse a round in which no task could even be begun: no result, and more of it would cost for nothing.

        Its tries are taken back, so that resuming makes them again.
        """
        attempts = [kept.trial.attempt for kept in self.done.values()]
        if not attempts or not all(attempt.error and not attempt.steps for attempt in attempts):
            return
        await self.bench.log.keep(void_line([self.place(task) for task in self.todo if task.id in self.done]))
        raise ExperimentError(
            f"no task could be begun in trial {self.number} of arm {self.arm.name}: {attempts[0].error}"
        )

    async def store(self) -> list[Tried]:
        """Store what was learned, in task order, and return the rows.

        A lesson that can't be stored loses no other: the first such error is raised when all the rest is done. One that
        is refused for what it says is a problem of its try, not of the run.
        """
        failure: LessonStoreError | None = None
        rows = []
        for task in self.todo:
            if task.id not in self.done:
                continue
            kept = self.done[task.id]
            try:
                trial = await self._stored(task, kept.trial)
            except LessonStoreError as error:
                failure = failure or error
                trial = replace(kept.trial, problems=(*kept.trial.problems, str(error)))
            self.done[task.id] = replace(kept, trial=trial)
            rows.append(self.row(task))
        await self.bench.log.write_rows([{"kind": "tried", **row.as_json()} for row in rows])
        if failure is not None:
            raise failure
        return rows

    async def _try(self, task: Task) -> None:
        async with self.bench.limiter:
            if self.bench.purse.empty:
                return
            place = self.place(task)
            job = Job(place, task, self._seen(self.histories[task.id]), self._session_id(task))
            try:
                made = await self.bench.executor.make(job, self.loop, self.bench.scorer, self.bench.purse)
            except SystemExit as error:
                # Let through, it would end the event loop and leave threads for which the process waits for ever.
                raise ExperimentError(
                    f"{place}: the agent, or who judges or reflects, called sys.exit({error.code!r})"
                ) from error
            except KeyboardInterrupt as error:
                raise InterruptedTryError(f"{place}: KeyboardInterrupt was raised in it") from error
            if made is None:
                return
            with anyio.CancelScope(shield=True):
                where = place.as_json()
                await self.bench.log.tell_all([{**event, **where} for event in made.events])
                await self.bench.log.keep(try_line(place, made.kept))
                self.done[task.id] = made.kept
        self.bench.watcher.tried(self.row(task))

    def _session_id(self, task: Task) -> str:
        held = "held-out-" if self.split == "held-out" else ""
        id = f"{self.arm.name}-{self.seed}-{held}"
        whole = f"{id}{name_of(task)}"
        # "selective@1-0-cellar.txt" passes for an address, and would be one id for all such tasks.
        return whole if redact_id(whole) == whole else f"{id}{_digest_of(task)}"

    def _seen(self, history: Sequence[Trial]) -> Sequence[Trial]:
        """The history as the arm is to see it: a loop without a store shows the block of the last trial again."""
        if not (self.arm.sees_last_attempt and history):
            return history
        return [*history[:-1], replace(history[-1], block=last_attempt(history[-1]), reflection=None)]

    async def _stored(self, task: Task, trial: Trial) -> Trial:
        """Store the lesson of a try unless that was done before, and note that it was."""
        if not trial.pending:
            return trial
        place, past = self.place(task), self.bench.past
        if place in past.stored:
            return await self._known(place, trial)
        store, session = beneath(self.loop.lessons), self.loop.session()
        session = replace(session, id=self._session_id(task))
        if store is not None and self.bench.log.resumed:
            # A killed run may have stored it without having come to say so.
            since = float(self.bench.log.config["started"])
            lesson = await written_by(store, session.id, trial.number, since=since)
            if lesson is not None:
                await self.bench.log.keep(stored_line(place, lesson.id))
                return replace(trial, lesson=lesson, pending=False)
        try:
            trial = await self.loop.commit(task, trial, session)
        except LessonRefusedError as error:
            await self.bench.log.keep(stored_line(place, None, str(error)))
            return replace(trial, problems=(*trial.problems, str(error)), pending=False)
        await self.bench.log.keep(stored_line(place, trial.lesson.id if trial.lesson else None))
        return trial

    async def _known(self, place: Place, trial: Trial) -> Trial:
        past, store = self.bench.past, beneath(self.loop.lessons)
        lesson_id, refused = past.stored[place], past.refused.get(place)
        lesson = await store.get(lesson_id) if store is not None and lesson_id else None
        problems = (*trial.problems, refused) if refused else trial.problems
        return replace(trial, lesson=lesson, pending=False, problems=problems)


async def forget_lost(bench: Bench, loop: Reflexion, arm: Arm, seed: int) -> int:
    """Have an arm's lessons stored again if none of them is there any more; return how many.

    A store in memory is empty after its process was killed. Lessons of a store on disk are left as they are, also where
    somebody forgot some of them on purpose. Raises :class:`ExperimentError` where there are lessons of the run and the
    journal has no try that they can be of.
    """
    await _check_known(bench, loop, arm, seed)
    mine = [place for place in bench.past.stored if (place.arm, place.seed) == (arm.name, seed)]
    store = beneath(loop.lessons)
    if loop.lessons is None:
        lost = bool(mine)  # lessons in a block of memory, which is made anew with the loop
    elif store is None:
        lost = False
    else:
        ids = [lesson_id for place in mine if (lesson_id := bench.past.stored[place])]
        lost = bool(ids) and not any([await store.get(lesson_id) for lesson_id in ids])
    if not lost:
        return 0
    for place in mine:
        del bench.past.stored[place]
    return len(mine)


async def _check_known(bench: Bench, loop: Reflexion, arm: Arm, seed: int) -> None:
    store, log = beneath(loop.lessons), bench.log
    if store is None or not log.resumed:
        return
    if any((place.arm, place.seed) == (arm.name, seed) for place in bench.past.tries):
        return
    if await any_written(store, since=float(log.config["started"])):
        raise ExperimentError(
            f"the store has lessons of arm {arm.name}, seed {seed}, that this run wrote, and {log.journal} has no try"
            " of it: tries would be made again on the lessons that they left. Put the journal back from a backup, or"
            " name another folder"
        )


def as_arm(loop: Reflexion, arm: Arm) -> Reflexion:
    """Return the loop as the arm has it: with the arm's k, and without memory where the arm has none."""
    loop = copy.copy(loop)
    if arm.k is not None:
        loop.top_k_lessons = arm.k
    if not arm.learns:
        loop.options = replace(loop.options, learn=False)
        loop.lessons, loop.memory = None, TransientMemory()
    return loop


def reading_only(loop: Reflexion) -> Reflexion:
    """Return the loop for held-out tasks: it recalls what was learned, and changes nothing of it."""
    loop = copy.copy(loop)
    loop.options = replace(loop.options, learn=False)
    loop.lessons = None if loop.lessons is None else ReadOnly(without_withholding(loop.lessons))
    return loop


def last_attempt(trial: Trial) -> str:
    """Return an attempt as the arm ``last-attempt`` shows it: its steps and its output, and that it did not pass."""
    attempt = trial.attempt
    steps = render_steps(attempt.steps, LAST_ATTEMPT_TOKENS)
    parts = [
        "Your last attempt at this task, which did not pass:",
        steps,
        f"Answer: {cut_middle(attempt.output, LAST_ATTEMPT_TOKENS)}" if attempt.output.strip() else "",
        f"It ended early: {attempt.error or attempt.interrupted}"
        if attempt.error or attempt.interrupted
        else "",
    ]
    return "\n".join(part for part in parts if part)


def name_of(task: Task) -> str:
    """Return what a task is called in the log: its id, or a digest where that is long, or hides something."""
    if len(task.id) <= 64 and task.id.isprintable() and redact(task.id) == task.id:
        return task.id
    return _digest_of(task)


def _digest_of(task: Task) -> str:
    return f"sha256:{hashlib.sha256(task.id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
