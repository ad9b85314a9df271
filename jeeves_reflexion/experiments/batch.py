"""One batch of an experiment: one trial of an arm and seed over its unsolved tasks, several at a time.

Each try is written to the journal as soon as it is finished. When the batch is over, its lessons are stored in task
order, each once. An interrupted batch continues from the journal, and finds the lessons that it had stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from jeeves_reflexion.errors import ExperimentError, LessonRefusedError, LessonStoreError
from jeeves_reflexion.experiments.arms import Arm, beneath, first_written
from jeeves_reflexion.experiments.executors import Executor, Job, RunBudget
from jeeves_reflexion.experiments.journal import Line, Position, stored_line, try_line, void_line
from jeeves_reflexion.experiments.past import Past
from jeeves_reflexion.experiments.plan import Split, digest_of, name_of
from jeeves_reflexion.experiments.progress import Watcher
from jeeves_reflexion.experiments.results import Results, Tried
from jeeves_reflexion.experiments.runlog import RunLog
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import Evaluator
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.types import Task


class SpendingLimitError(ExperimentError):
    """The run reached its spending limit; it can be resumed with a higher one."""


class InterruptedTryError(Exception):
    """Carries a ``KeyboardInterrupt`` out of a task group, outside of which it is raised again.

    The ``KeyboardInterrupt`` itself would end the event loop at once, and the process would wait forever for threads.
    """


@dataclass(slots=True)
class Run:
    """The state that all batches of an experiment share."""

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
    """One trial of one arm and seed: ``todo`` has its tasks in order.

    ``histories`` has the earlier tries and ``rows`` the finished ones, by task id. Their texts are in the journal
    alone, so a loop sees of earlier trials what it would see in a resumed run.
    """

    run: Run
    arm: Arm
    seed: int
    number: int
    loop: Reflexion
    todo: Sequence[Task]
    histories: Mapping[str, Sequence[Tried]]
    split: Split = "learning"
    rows: dict[str, Tried] = field(default_factory=dict)

    async def play(self) -> None:
        """Make the tries that are not in the journal, and store the lessons.

        An error or a cancellation is noted in the log with its position, and is raised again.
        """
        run = self.run
        try:
            try:
                for task in self.todo:
                    if (row := run.past.tries.pop(self._position(task), None)) is not None:
                        row.task, self.rows[task.id] = task, row
                        run.watcher.tried(row)
                await self._try_all()
                await self._store()
            finally:  # if the batch is cut short, its lessons wait, and its cost counts
                run.results.rows += [self.rows[task.id] for task in self.todo if task.id in self.rows]
        except BaseException as error:
            first = error
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]  # the others come from tasks that ran beside it
            await self._note_stop(first)
            if isinstance(first, InterruptedTryError):
                raise KeyboardInterrupt(str(first)) from error
            if first is error:
                raise
            raise first from error

    # -- tries

    async def _try_all(self) -> None:
        """Try the remaining tasks. Raises :class:`SpendingLimitError` if the limit leaves some of them.

        If no task of the batch could be begun, the run stops, since further tries would cost money for no result. The
        tries are then voided in the journal, so that a resumed run makes them again.
        """
        left = iter([task for task in self.todo if task.id not in self.rows])

        async def work() -> None:
            for task in left:
                if self.run.budget.exhausted:
                    return
                await self._try(task)

        async with anyio.create_task_group() as group:
            for _ in range(self.run.workers):
                group.start_soon(work)
        rows = [self.rows[task.id] for task in self.todo if task.id in self.rows]
        if len(rows) < len(self.todo):
            raise SpendingLimitError(str(self.run.budget))
        if rows and all(row.error for row in rows):
            trials = await anyio.to_thread.run_sync(lambda: [row.trial for row in rows])
            if all(trial.attempt.error and not trial.attempt.steps for trial in trials):
                await self.run.log.keep(void_line([self._position(task) for task in self.todo]))
                raise ExperimentError(
                    f"no task could be begun in trial {self.number} of arm {self.arm.name}:"
                    f" {trials[0].attempt.error}"
                )

    async def _try(self, task: Task) -> None:
        run, position, earlier = self.run, self._position(task), self.histories[task.id]
        history = await anyio.to_thread.run_sync(lambda: [row.trial for row in earlier]) if earlier else []
        if block := self.arm.shown(history):  # a loop without a store shows the block of the last trial again
            history = [*history[:-1], replace(history[-1], block=block, reflection=None)]
        job = Job(position, task, history, self._session_id(task))
        try:
            made = await run.executor.make(job, self.loop, run.scorer, run.budget)
        except SystemExit as error:
            # SystemExit would end the event loop at once, and the process would wait forever for threads.
            raise ExperimentError(
                f"{position}: the agent, evaluator or reflector called sys.exit({error.code!r})"
            ) from error
        except KeyboardInterrupt as error:
            raise InterruptedTryError(f"{position}: interrupted by KeyboardInterrupt") from error
        if made is None:
            return
        where = position.as_json()
        with anyio.CancelScope(shield=True):
            line = await run.log.keep(
                try_line(position, made.entry), [{**event, **where} for event in made.events]
            )
            trial, scored = made.entry.trial, made.entry.scored
            row = Tried(self.arm.name, self.seed, task, trial, self.split, scored, line=line)
            self.rows[task.id] = row
        run.watcher.tried(row)

    # -- lessons

    async def _store(self) -> None:
        """Store the lessons in task order, also while being cancelled.

        If a lesson can't be stored, the others still are, and the first error is raised at the end. A lesson that is
        refused for its content is a problem of its try, not of the run.
        """
        failure: LessonStoreError | None = None
        with anyio.CancelScope(shield=True):
            for task in self.todo:
                try:
                    await self._store_lesson(task, self.rows[task.id])
                except LessonStoreError as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    async def _store_lesson(self, task: Task, row: Tried) -> None:
        """Store the lesson of a try unless it is stored already, and note it in the journal."""
        if not isinstance(line := row.source, Line) or not row.pending or line.stored is not None:
            return
        log, store, session_id = self.run.log, beneath(self.loop.lessons), self._session_id(task)
        trial = await anyio.to_thread.run_sync(lambda: row.trial)
        lesson, refused = None, ""
        if store is not None and log.resumed:
            # A killed run may have stored the lesson without noting it in the journal.
            since = float(log.config["started"])
            lesson = await first_written(store, since=since, run_id=session_id, attempt=trial.number)
        if lesson is None:
            session = replace(self.loop.session(), id=session_id)
            try:
                lesson = (await self.loop.commit(task, trial, session)).lesson
            except LessonRefusedError as error:
                refused = str(error)
        # Not synced: if a crash loses this line, the resumed run finds the lesson in the store.
        stored = await log.keep(stored_line(self._position(task), lesson, refused), sync=False)
        line.stored = stored.start

    async def _note_stop(self, error: BaseException) -> None:
        split = " (held-out tasks)" if self.split == "held-out" else ""
        tried = f"{len(self.rows)} of {len(self.todo)} tasks tried"
        where = f"arm {self.arm.name}, seed {self.seed}, trial {self.number}{split}: {tried}"
        why = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "cancelled"
        limited = isinstance(error, SpendingLimitError)
        self.run.results.interrupted = f"{where}; {error}" if limited else where
        self.run.watcher.said(f"stopped at {self.run.results.interrupted}")
        with anyio.CancelScope(shield=True):
            await self.run.log.tell("interrupted", {"where": where, "why": why})

    # -- names

    def _position(self, task: Task) -> Position:
        return Position(self.arm.name, self.seed, self.split, name_of(task), self.number)

    def _session_id(self, task: Task) -> str:
        prefix = f"{self.arm.name}-{self.seed}-" + ("held-out-" if self.split == "held-out" else "")
        whole = f"{prefix}{name_of(task)}"
        # Redaction takes "selective@1-0-cellar.txt" for an e-mail address; all such tasks would share one id.
        return whole if redact_id(whole) == whole else f"{prefix}{digest_of(task)}"


async def forget_lost(run: Run, loop: Reflexion, arm: Arm, seed: int) -> None:
    """Have an arm's lessons stored again if its store has none of them, as after the end of a store in memory.

    If the store has some of them, the others were forgotten on purpose. Raises :class:`ExperimentError` if the store
    has lessons of this run while the journal has no try of the arm and seed.
    """
    past, log, store = run.past, run.log, beneath(loop.lessons)
    tried = any((position.arm, position.seed) == (arm.name, seed) for position in past.tries)
    since = float(log.config["started"])
    if store is not None and log.resumed and not tried and await first_written(store, since=since):
        raise ExperimentError(
            f"the store has lessons that this run wrote in arm {arm.name}, seed {seed}, but {log.journal} has no such"
            " try: tries would be made again with the lessons that they left. Restore the journal from a backup, or"
            " name another folder"
        )
    mine = [position for position in past.stored if (position.arm, position.seed) == (arm.name, seed)]
    ids = [lesson_id for position in mine if (lesson_id := past.stored[position])]
    in_block = loop.lessons is None  # a new loop starts with an empty block of memory
    if in_block or (store is not None and ids and not any([await store.get(each) for each in ids])):
        for position in mine:
            del past.stored[position]
            past.note_stored(position, None)
