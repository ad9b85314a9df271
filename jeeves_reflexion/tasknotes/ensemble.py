"""Runs tasks, in sequence or side by side, and lets each improve its own instructions from run to run."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import anyio

from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.agents.react import ReAct
from jeeves_reflexion.callables import run_alone
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators import Judge, as_evaluator
from jeeves_reflexion.events import Event, TaskReflectedEvent, Warned
from jeeves_reflexion.protocols import Agent, ChatModel, Evaluator
from jeeves_reflexion.redaction import redacting
from jeeves_reflexion.session import Listener, Session, logger, relay
from jeeves_reflexion.tasknotes.execution import Stopped, TaskRun, failing
from jeeves_reflexion.tasknotes.reflector import TaskReflector
from jeeves_reflexion.tasknotes.store import InMemoryReflectionStore
from jeeves_reflexion.tasknotes.tasks import (
    EnsembleResult,
    EnsembleTask,
    Phase,
    TaskOutcome,
    decision_of,
)
from jeeves_reflexion.tasknotes.values import ReflectionStore
from jeeves_reflexion.values import check_whole

_NOT_KEPT: Final = (
    "no reflection_store was given: task notes are kept in memory, and are gone with this Ensemble; pass a "
    "SqliteReflectionStore or PostgresReflectionStore to keep them"
)

AnyAgent: TypeAlias = ChatModel | Callable[..., Any]
Work: TypeAlias = EnsembleTask | Phase | str


@runtime_checkable
class EnsembleListener(Protocol):
    """Hears of reflections alone; a plain callable hears every event."""

    def on_task_reflected(self, event: TaskReflectedEvent) -> Awaitable[None] | None:
        """A reflection was stored."""
        ...


class Ensemble:
    """Runs tasks whose instructions get better from run to run.

    ``model`` makes a :class:`~jeeves_reflexion.agents.react.ReAct` of tasks without an agent, and reflects where no
    other model is configured. ``reflection_store`` keeps the notes of tasks with ``reflect``; left out, they live as
    long as this object, and one warning says so. ``evaluator`` judges each output: a model, or any callable that
    :func:`~jeeves_reflexion.evaluators.as_evaluator` takes. ``listeners`` hear the events.

    Serves many runs at once. Raises :class:`ConfigurationError` for what can't work, before anything is run.
    """

    def __init__(
        self,
        model: ChatModel | None = None,
        *,
        reflection_store: ReflectionStore | None = None,
        agent: AnyAgent | None = None,
        evaluator: AnyAgent | None = None,
        listeners: Sequence[Listener | EnsembleListener] = (),
    ) -> None:
        if model is not None and not isinstance(model, ChatModel):
            raise ConfigurationError(f"model must be a ChatModel, not {type(model).__name__}")
        self.reflector = TaskReflector(
            InMemoryReflectionStore() if reflection_store is None else reflection_store
        )
        self._model = model
        self._agent = agent
        self._evaluator = evaluator
        self._listeners = tuple(map(_listener, listeners))
        self._warning = _NOT_KEPT if reflection_store is None else ""

    @property
    def reflection_store(self) -> ReflectionStore | None:
        """Where the notes are kept."""
        return self.reflector.store

    async def run(
        self,
        *tasks: Work,
        inputs: Mapping[str, str] | None = None,
        workers: int = 1,
        session: Session | None = None,
    ) -> EnsembleResult:
        """Run tasks and phases and return their outcomes, in the order given.

        ``workers`` is how many tasks run at once; a task waits for those in its ``context``, and is skipped if one of
        them was not accepted. A phase begins after what stands before it. ``inputs`` fills placeholders. What no other
        run would mend (a missing key, a bad configuration, an exhausted budget) is raised.
        """
        check_whole("workers", workers)
        started = time.monotonic()
        phases = _phases(tasks)
        run = _Run(self._listening(session or Session()), workers)
        for phase in phases:
            for task in phase.tasks:
                run.add(task, self._task_run(phase, task, run, dict(inputs or {})))
        if self._warning and any(each.reflection is not None for each in run.runs.values()):
            message, self._warning = self._warning, ""
            logger.warning(message)
            await run.session.emit(Warned(run_id=run.session.id, message=message))
        for phase in phases:
            await run.phase(phase)
        outcomes = tuple(each.outcome for each in run.runs.values())
        return EnsembleResult(run.session.id, outcomes, time.monotonic() - started)

    def run_sync(
        self, *tasks: Work, inputs: Mapping[str, str] | None = None, workers: int = 1
    ) -> EnsembleResult:
        """Run tasks in an event loop of its own; raises :class:`SessionError` where one runs already."""
        return run_alone(lambda: self.run(*tasks, inputs=inputs, workers=workers), "ensemble.run(...)")

    # -- who works on a task: its own agent and evaluator, else the ensemble's, else made of the model

    def _task_run(self, phase: Phase, task: EnsembleTask, run: _Run, inputs: Mapping[str, str]) -> TaskRun:
        return TaskRun(
            task,
            task.bound(inputs),
            phase.reflection_of(task),
            self._agent_of(task),
            self._evaluator_of(task),
            self._model_of(task),
            self.reflector,
            run.session.for_attempt(len(run.runs) + 1, {}),
            inputs,
            TaskOutcome(task, "skipped"),
        )

    def _agent_of(self, task: EnsembleTask) -> Agent:
        chosen = task.agent or self._agent or self._model
        if chosen is None:
            raise ConfigurationError("no agent: pass model= or agent= to the ensemble, or agent= to the task")
        return ReAct(chosen) if isinstance(chosen, ChatModel) else as_agent(chosen)

    def _evaluator_of(self, task: EnsembleTask) -> Evaluator | None:
        chosen = task.evaluator or self._evaluator
        if chosen is None or isinstance(chosen, Judge):
            return chosen
        return Judge(chosen) if isinstance(chosen, ChatModel) else as_evaluator(chosen)

    def _model_of(self, task: EnsembleTask) -> ChatModel | None:
        for chosen in (task.agent, self._agent):
            found = chosen if isinstance(chosen, ChatModel) else getattr(chosen, "model", None)
            if isinstance(found, ChatModel):
                return found
        return self._model

    def _listening(self, session: Session) -> Session:
        """Return a session whose events, without secrets, go to its listener and to the ensemble's."""
        sessions = [session, *map(session.listening, self._listeners)]

        async def tell(event: Event) -> None:
            for each in sessions:  # each in its own call, so that one that fails keeps it from no other
                await relay(each, event)

        return redacting(session.listening(tell))


def _listener(listener: Listener | EnsembleListener) -> Listener:
    if not isinstance(listener, EnsembleListener):
        return listener
    hear = listener.on_task_reflected
    return lambda event: hear(event) if isinstance(event, TaskReflectedEvent) else None


def _phases(works: Sequence[Work]) -> list[Phase]:
    """Return the phases of a run; tasks between them are phases without a review."""
    found: list[Phase] = []
    for is_phase, group in groupby(works, lambda work: isinstance(work, Phase)):
        if is_phase:
            found += [work for work in group if isinstance(work, Phase)]
        else:
            found.append(Phase("", [EnsembleTask.of(work) for work in group if not isinstance(work, Phase)]))
    return found


class _Run:
    """One run of an ensemble: its tasks by their ``id()``, for equal ones are different tasks."""

    def __init__(self, session: Session, workers: int) -> None:
        self.session = session
        self.runs: dict[int, TaskRun] = {}
        self._workers = workers
        self._limiter = anyio.CapacityLimiter(workers)

    def add(self, task: EnsembleTask, run: TaskRun) -> None:
        """Add a task; raises :class:`ConfigurationError` where it can't be at this place."""
        if id(task) in self.runs:
            raise ConfigurationError(f"the task {task.description[:80]!r} is in the run twice")
        if any(id(other) not in self.runs for other in task.context):
            raise ConfigurationError(
                f"the task {task.description[:80]!r} has a context that does not come before it in this run"
            )
        self.runs[id(task)] = run

    async def phase(self, phase: Phase) -> None:
        """Run the tasks of a phase, and learn of each at once where no review of them all is to come."""
        runs = [self.runs[id(task)] for task in phase.tasks]
        await self._all(runs, learn=phase.review is None)
        if phase.review is None:
            return
        outcomes = [run.outcome for run in runs]
        refused: Stopped | None = None
        try:
            with failing(f"phase {phase.name!r}: the review failed"):
                decision = await decision_of(phase.review, outcomes, verdicts=("accept", "reject"))
        except Stopped as stopped:
            refused = stopped
            logger.warning("run %s, %s", self.session.id, refused.reason)
        else:
            if decision.verdict == "reject":
                refused = Stopped("rejected", f"phase {phase.name!r}: {decision.text}")
        for run in runs:
            if refused is not None:
                run.reject(refused.status, refused.reason)
            await run.settle()

    async def _all(self, runs: Sequence[TaskRun], *, learn: bool) -> None:
        if self._workers == 1:
            for run in runs:
                await self._one(run, learn=learn)
            return

        async def work(run: TaskRun) -> None:
            for other in run.task.context:
                await self.runs[id(other)].done.wait()
            async with self._limiter:
                await self._one(run, learn=learn)

        try:
            async with anyio.create_task_group() as group:
                for run in runs:
                    group.start_soon(work, run)
        except ExceptionGroup as errors:
            first = errors.exceptions[0]  # as itself, as of a run in sequence
            raise first from first.__cause__

    async def _one(self, run: TaskRun, *, learn: bool) -> None:
        before = [self.runs[id(other)] for other in run.task.context]
        missing = [each for each in before if not each.outcome.accepted]
        if missing:
            reason = f"task {missing[0].session.attempt} of its context was not accepted"
            run.outcome = TaskOutcome(run.task, "skipped", reason=reason)
        else:
            await run.execute([(each.core.prompt, each.outcome.output) for each in before])
            if learn:
                await run.settle()
        run.done.set()
