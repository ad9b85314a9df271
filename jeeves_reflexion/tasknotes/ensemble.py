"""Runs tasks, in sequence or side by side, and lets each improve its own instructions from run to run."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import anyio

from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.agents.react import ReAct
from jeeves_reflexion.callables import run_alone, side_by_side
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators import Judge, as_evaluator
from jeeves_reflexion.events import Event, TaskReflectedEvent, Warned
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.session import Listener, Session, logger, redacting, relay
from jeeves_reflexion.tasknotes.execution import Stopped, TaskRun, failing
from jeeves_reflexion.tasknotes.reflector import TaskReflector
from jeeves_reflexion.tasknotes.store import InMemoryReflectionStore
from jeeves_reflexion.tasknotes.tasks import EnsembleResult, EnsembleTask, Phase, decision_of
from jeeves_reflexion.tasknotes.values import ReflectionStore
from jeeves_reflexion.values import check_whole

_NOT_KEPT: Final = (
    "no reflection_store was given: task notes are kept in memory, and are lost with this Ensemble; pass a "
    "SqliteReflectionStore or PostgresReflectionStore to keep them"
)

AnyAgent: TypeAlias = ChatModel | Callable[..., Any]
Work: TypeAlias = EnsembleTask | Phase | str


@runtime_checkable
class EnsembleListener(Protocol):
    """A listener that is told of reflections only; a plain callable is told of every event."""

    def on_task_reflected(self, event: TaskReflectedEvent) -> Awaitable[None] | None:
        """Handle a stored reflection."""
        ...


class Ensemble:
    """Runs tasks whose instructions get better from run to run.

    A task without an agent is run by a :class:`~jeeves_reflexion.agents.react.ReAct` with ``model``, which also writes
    reflections unless another model is configured. ``reflection_store`` keeps the notes of tasks with ``reflect``; by
    default they live as long as this object, and a warning says so. ``evaluator`` judges each output: a model, or any
    callable that :func:`~jeeves_reflexion.evaluators.as_evaluator` takes. ``listeners`` are told of events.

    Serves many runs at once. Raises :class:`ConfigurationError` for a bad configuration, before anything is run.
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
        """The store of the notes."""
        return self.reflector.store

    async def run(
        self,
        *tasks: Work,
        inputs: Mapping[str, str] | None = None,
        workers: int = 1,
        session: Session | None = None,
    ) -> EnsembleResult:
        """Run tasks and phases and return their outcomes, in the order given.

        ``workers`` is how many tasks run at once. A task waits for those in its ``context``, and is skipped if one of
        them was not accepted. A phase begins when everything before it has ended. ``inputs`` fills placeholders. Errors
        that another run would meet too (a missing key, a bad configuration, an exhausted budget) are raised.
        """
        workers = check_whole("workers", workers)
        started = time.monotonic()
        session = self._listening(session or Session())
        phases: list[Phase] = []
        for is_phase, group in groupby(tasks, lambda work: isinstance(work, Phase)):
            if is_phase:
                phases += [work for work in group if isinstance(work, Phase)]
            else:  # the tasks between two phases are a phase without a review
                between = [EnsembleTask.of(work) for work in group if not isinstance(work, Phase)]
                phases.append(Phase("", between))
        runs: dict[int, TaskRun] = {}  # by id(): equal tasks are different ones
        for phase in phases:
            for task in phase.tasks:
                runs[id(task)] = self._task_run(phase, task, runs, session, dict(inputs or {}))
        if self._warning and any(each.reflection is not None for each in runs.values()):
            message, self._warning = self._warning, ""
            logger.warning(message)
            await session.tell(Warned, message=message)
        for phase in phases:
            await _run_phase(phase, [runs[id(task)] for task in phase.tasks], workers, session.id)
        outcomes = tuple(each.outcome for each in runs.values())
        return EnsembleResult(session.id, outcomes, time.monotonic() - started)

    def run_sync(
        self, *tasks: Work, inputs: Mapping[str, str] | None = None, workers: int = 1
    ) -> EnsembleResult:
        """Run tasks in a new event loop; raises :class:`SessionError` if one is running already."""
        return run_alone(lambda: self.run(*tasks, inputs=inputs, workers=workers), "ensemble.run(...)")

    def _task_run(
        self,
        phase: Phase,
        task: EnsembleTask,
        before: Mapping[int, TaskRun],
        session: Session,
        inputs: Mapping[str, str],
    ) -> TaskRun:
        """Return the run of a task, given those ``before`` it; raises :class:`ConfigurationError` if it can't run."""
        if id(task) in before:
            raise ConfigurationError(f"the task {task.description[:80]!r} is in the run twice")
        if any(id(other) not in before for other in task.context):
            raise ConfigurationError(
                f"the task {task.description[:80]!r} has a context that does not come before it in this run"
            )
        worker = task.agent or self._agent or self._model
        if worker is None:
            raise ConfigurationError("no agent: pass model= or agent= to the ensemble, or agent= to the task")
        agent = ReAct(worker) if isinstance(worker, ChatModel) else as_agent(worker)
        judge = task.evaluator or self._evaluator
        if judge is not None and not isinstance(judge, Judge):
            judge = Judge(judge) if isinstance(judge, ChatModel) else as_evaluator(judge)
        own = [
            each if isinstance(each, ChatModel) else getattr(each, "model", None)
            for each in (task.agent, self._agent)
        ]
        return TaskRun(
            task,
            phase.reflection_of(task),
            agent,
            judge,
            next((model for model in own if isinstance(model, ChatModel)), self._model),
            self.reflector,
            session.for_attempt(len(before) + 1, {}),
            inputs,
            [before[id(other)] for other in task.context],
        )

    def _listening(self, session: Session) -> Session:
        """Return a session whose redacted events go to its own listener and to those of the ensemble."""
        sessions = [session, *map(session.listening, self._listeners)]

        async def tell(event: Event) -> None:
            for each in sessions:  # one call each, so that the others hear it even if one fails
                await relay(each, event)

        return redacting(session.listening(tell))


def _listener(listener: Listener | EnsembleListener) -> Listener:
    if not isinstance(listener, EnsembleListener):
        return listener
    hear = listener.on_task_reflected
    return lambda event: hear(event) if isinstance(event, TaskReflectedEvent) else None


async def _run_phase(phase: Phase, runs: Sequence[TaskRun], workers: int, run_id: str) -> None:
    """Run the tasks of a phase. Without a review of the phase, each task is learned from as soon as it ends."""
    await _run_all(runs, workers, learn=phase.review is None)
    if phase.review is None:
        return
    refused: Stopped | None = None
    try:
        with failing(f"phase {phase.name!r}: the review failed"):
            outcomes = [run.outcome for run in runs]
            decision = await decision_of(phase.review, outcomes, verdicts=("accept", "reject"))
        if decision.verdict == "reject":
            refused = Stopped("rejected", f"phase {phase.name!r}: {decision.text}")
    except Stopped as stopped:
        refused = stopped
        logger.warning("run %s, %s", run_id, refused.reason)
    for run in runs:
        if refused is not None:
            run.reject(refused)
        await run.settle()


async def _run_all(runs: Sequence[TaskRun], workers: int, *, learn: bool) -> None:
    if workers == 1:  # in their order
        for run in runs:
            await run.execute(learn=learn)
        return
    limiter = anyio.CapacityLimiter(workers)

    async def work(run: TaskRun) -> None:
        for other in run.context:
            await other.done.wait()
        async with limiter:
            await run.execute(learn=learn)

    await side_by_side([partial(work, run) for run in runs])
