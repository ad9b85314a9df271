"""One batch of an experiment: a trial of an arm and seed over the tasks not yet solved, some at a time.

A try is in the journal as soon as it is finished. Lessons are stored when the batch is over, in task order, and each
once: a batch that was interrupted is gone on with from the journal, and a lesson that is stored already is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from jeeves_reflexion.errors import ExperimentError, LessonRefusedError, LessonStoreError
from jeeves_reflexion.experiments.arms import Arm, beneath, first_written
from jeeves_reflexion.experiments.executors import Executor, Job, RunBudget
from jeeves_reflexion.experiments.journal import Entry, Past, Position, stored_line, try_line, void_line
from jeeves_reflexion.experiments.plan import digest_of, name_of
from jeeves_reflexion.experiments.progress import Watcher
from jeeves_reflexion.experiments.results import Results, Split, Tried
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.types import Lesson, Task, Trial


class SpendingLimitError(ExperimentError):
    """The run has spent what it may; it can be resumed with a higher limit."""


class InterruptedTryError(Exception):
    """A ``KeyboardInterrupt`` on its way out of a try, which is raised again outside of the task group.

    As itself it would end the event loop at once and leave threads for which the process waits for ever.
    """


@dataclass(slots=True)
class Run:
    """What all batches of an experiment share."""

    log: RunLog
    watcher: Watcher
    results: Results
    budget: RunBudget
    past: Past
    workers: int
    executor: Executor
    scorer: Evaluator | None


@dataclass(slots=True)
class Batch:
    """One trial of one arm and seed: ``todo`` are its tasks in order, ``done`` the tries that are finished."""

    run: Run
    arm: Arm
    seed: int
    number: int
    loop: Reflexion
    todo: Sequence[Task]
    histories: Mapping[str, Sequence[Trial]]
    split: Split = "learning"
    done: dict[str, Entry] = field(default_factory=dict)

    async def play(self) -> None:
        """Make the tries that are not in the journal, and store what was learned.

        An error or a cancellation is noted in the log, with where it came, and goes on.
        """
        run = self.run
        for task in self.todo:
            if (entry := run.past.tries.get(self._position(task))) is not None:
                self.done[task.id] = entry
                run.watcher.tried(self._row(task))
        try:
            try:
                await self._try_all()
                await self._check_begun()
                await self._store()
            finally:  # of a batch that is cut short the lessons wait, and what it cost is known
                run.results.rows += [self._row(task) for task in self._finished()]
        except BaseException as error:
            first = _first(error)
            await self._note_stop(first)
            if isinstance(first, InterruptedTryError):
                raise KeyboardInterrupt(str(first)) from error
            if first is error:
                raise
            raise first from error

    # -- tries

    async def _try_all(self) -> None:
        """Try what is left; raises :class:`SpendingLimitError` where the limit leaves some of it."""
        left = iter(self._left())

        async def work() -> None:
            for task in left:
                if self.run.budget.exhausted:
                    return
                await self._try(task)

        async with anyio.create_task_group() as group:
            for _ in range(self.run.workers):
                group.start_soon(work)
        if self._left():
            raise SpendingLimitError(str(self.run.budget))

    async def _try(self, task: Task) -> None:
        run, position = self.run, self._position(task)
        job = Job(position, task, self._shown(self.histories[task.id]), self._session_id(task))
        try:
            made = await run.executor.make(job, self.loop, run.scorer, run.budget)
        except SystemExit as error:
            # Let through, it would end the event loop and leave threads for which the process waits for ever.
            raise ExperimentError(
                f"{position}: the agent, or who judges or reflects, called sys.exit({error.code!r})"
            ) from error
        except KeyboardInterrupt as error:
            raise InterruptedTryError(f"{position}: KeyboardInterrupt was raised in it") from error
        if made is None:
            return
        where = position.as_json()
        with anyio.CancelScope(shield=True):
            await run.log.keep(try_line(position, made.entry), [{**event, **where} for event in made.events])
            self.done[task.id] = made.entry.held(run.past.lessons)  # the journal has it whole
        run.watcher.tried(self._row(task))

    async def _check_begun(self) -> None:
        """Refuse a batch in which no task could even be begun: no result, and more of it would cost for nothing.

        Its tries are taken back, so that resuming makes them again.
        """
        attempts = [entry.trial.attempt for entry in self.done.values()]
        if not attempts or not all(attempt.error and not attempt.steps for attempt in attempts):
            return
        await self.run.log.keep(void_line([self._position(task) for task in self._finished()]))
        raise ExperimentError(
            f"no task could be begun in trial {self.number} of arm {self.arm.name}: {attempts[0].error}"
        )

    def _shown(self, history: Sequence[Trial]) -> Sequence[Trial]:
        """The history as the arm is to see it: a loop without a store shows the block of the last trial again."""
        block = self.arm.shown(history)
        return [*history[:-1], replace(history[-1], block=block, reflection=None)] if block else history

    # -- lessons

    async def _store(self) -> None:
        """Store what was learned, in task order, also while being cancelled.

        A lesson that can't be stored loses no other: the first such error is raised when all the rest is done. One that
        is refused for what it says is a problem of its try, not of the run.
        """
        failure: LessonStoreError | None = None
        with anyio.CancelScope(shield=True):
            for task in self._finished():
                entry = self.done[task.id]
                try:
                    trial = await self._stored(task, entry.trial)
                except LessonStoreError as error:
                    failure = failure or error
                    trial = replace(entry.trial, problems=(*entry.trial.problems, str(error)))
                self.done[task.id] = replace(entry, trial=trial)
        if failure is not None:
            raise failure

    async def _stored(self, task: Task, trial: Trial) -> Trial:
        """Store the lesson of a try unless that was done before, and note that it was."""
        if not trial.pending:
            return trial
        position, run, store = self._position(task), self.run, beneath(self.loop.lessons)
        if position in run.past.stored:
            lesson_id, refused = run.past.stored[position]
            lesson = await store.get(lesson_id) if store is not None and lesson_id else None
        else:
            lesson, refused = await self._written_before(task, trial), ""
            if lesson is None:
                session = replace(self.loop.session(), id=self._session_id(task))
                try:
                    lesson = (await self.loop.commit(task, trial, session)).lesson
                except LessonRefusedError as error:
                    refused = str(error)
            # A crash of the machine may lose this line, and the lesson is found then as that of a killed run is.
            await run.log.keep(stored_line(position, lesson.id if lesson else None, refused), sync=False)
        problems = (*trial.problems, refused) if refused else trial.problems
        return replace(trial, lesson=lesson, pending=False, problems=problems)

    async def _written_before(self, task: Task, trial: Trial) -> Lesson | None:
        """Return the lesson that a killed run stored without having come to say so."""
        log, store = self.run.log, beneath(self.loop.lessons)
        if store is None or not log.resumed:
            return None
        since = float(log.config["started"])
        return await first_written(store, since=since, run_id=self._session_id(task), attempt=trial.number)

    async def _note_stop(self, error: BaseException) -> None:
        held = " (held-out tasks)" if self.split == "held-out" else ""
        tried = f"{len(self.done)} of {len(self.todo)} tasks tried"
        where = f"arm {self.arm.name}, seed {self.seed}, trial {self.number}{held}: {tried}"
        why = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "cancelled"
        limited = isinstance(error, SpendingLimitError)
        self.run.results.interrupted = f"{where}; {error}" if limited else where
        self.run.watcher.said(f"stopped at {self.run.results.interrupted}")
        with anyio.CancelScope(shield=True):
            await self.run.log.tell("interrupted", {"where": where, "why": why})

    # -- names

    def _finished(self) -> list[Task]:
        return [task for task in self.todo if task.id in self.done]

    def _left(self) -> list[Task]:
        return [task for task in self.todo if task.id not in self.done]

    def _row(self, task: Task) -> Tried:
        entry = self.done[task.id]
        return Tried(self.arm.name, self.seed, task, entry.trial, self.split, entry.scored)

    def _position(self, task: Task) -> Position:
        return Position(self.arm.name, self.seed, self.split, name_of(task), self.number)

    def _session_id(self, task: Task) -> str:
        prefix = f"{self.arm.name}-{self.seed}-" + ("held-out-" if self.split == "held-out" else "")
        whole = f"{prefix}{name_of(task)}"
        # "selective@1-0-cellar.txt" passes for an address, and would be one id for all such tasks.
        return whole if redact_id(whole) == whole else f"{prefix}{digest_of(task)}"


async def forget_lost(run: Run, loop: Reflexion, arm: Arm, seed: int) -> None:
    """Have an arm's lessons stored again if none of them is there any more: those in memory died with their process.

    Where some are there, the others were forgotten on purpose. Raises :class:`ExperimentError` where a store has
    lessons of the run, and the journal no try that they can be of.
    """
    past, log, store = run.past, run.log, beneath(loop.lessons)
    tried = any((position.arm, position.seed) == (arm.name, seed) for position in past.tries)
    since = float(log.config["started"])
    if store is not None and log.resumed and not tried and await first_written(store, since=since):
        raise ExperimentError(
            f"the store has lessons of arm {arm.name}, seed {seed}, that this run wrote, and {log.journal} has no try"
            " of it: tries would be made again on the lessons that they left. Put the journal back from a backup, or"
            " name another folder"
        )
    mine = [position for position in past.stored if (position.arm, position.seed) == (arm.name, seed)]
    ids = [lesson_id for position in mine if (lesson_id := past.stored[position][0])]
    in_block = loop.lessons is None  # a block of memory is made anew with the loop
    if in_block or (store is not None and ids and not any([await store.get(each) for each in ids])):
        for position in mine:
            del past.stored[position]


def _first(error: BaseException) -> BaseException:
    """The first error of a task group; the others are of tasks that ran beside it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
