"""Runs tasks, in sequence or side by side, and lets each improve its own instructions from run to run (seed 000)."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, runtime_checkable

import anyio

from jeeves_reflexion.callables import run_alone
from jeeves_reflexion.errors import HOPELESS, ConfigurationError, described
from jeeves_reflexion.events import Event, TaskReflectedEvent, Warned
from jeeves_reflexion.protocols import ChatModel
from jeeves_reflexion.redaction import redact, redacting
from jeeves_reflexion.session import Listener, Session, logger
from jeeves_reflexion.tasknotes.config import ReflectionConfig
from jeeves_reflexion.tasknotes.execution import AnyAgent, EnsembleOptions, Staff, TaskRun
from jeeves_reflexion.tasknotes.gates import ReviewDecision, decided
from jeeves_reflexion.tasknotes.memory import InMemoryReflectionStore
from jeeves_reflexion.tasknotes.reflector import TaskReflector
from jeeves_reflexion.tasknotes.tasks import EnsembleResult, EnsembleTask, Phase, Status, TaskOutcome
from jeeves_reflexion.tasknotes.values import ReflectionStore
from jeeves_reflexion.types import Task

Work: TypeAlias = EnsembleTask | Phase | Task | str


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
        options: EnsembleOptions | None = None,
        listeners: Sequence[Listener | EnsembleListener] = (),
    ) -> None:
        if model is not None and not isinstance(model, ChatModel):
            raise ConfigurationError(f"model must be a ChatModel, not {type(model).__name__}")
        self.options = options or EnsembleOptions()
        self.staff = Staff(agent, evaluator, model)
        self._given = reflection_store
        self.reflector = self._reflects_in(reflection_store)
        self._listeners = tuple(listeners)
        self._warned = False

    @property
    def reflection_store(self) -> ReflectionStore | None:
        """Where the notes are kept; None while no task needed any and none was given."""
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
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise ConfigurationError(f"workers must be a whole number of at least 1, not {workers!r}")
        started = time.monotonic()
        stages = _stages(tasks)
        run = _Run(self, session or Session(), dict(inputs or {}), workers)
        run.begin(stages)
        if any(place.reflection is not None for place in run.places.values()):
            await self._ready(run)
        for stage in stages:
            await run.stage(stage)
        return EnsembleResult(run.session.id, run.results(), time.monotonic() - started)

    def run_sync(
        self, *tasks: Work, inputs: Mapping[str, str] | None = None, workers: int = 1
    ) -> EnsembleResult:
        """Run tasks in an event loop of its own; raises :class:`SessionError` where one runs already."""
        return run_alone(lambda: self.run(*tasks, inputs=inputs, workers=workers), "ensemble.run(...)")

    # -- for the run

    def _reflects_in(self, store: ReflectionStore | None) -> TaskReflector:
        options = self.options
        return TaskReflector(
            store, store_seconds=options.store_seconds, reflection_seconds=options.reflection_seconds
        )

    async def _ready(self, run: _Run) -> None:
        """Make the default store, and say once what the store can't do."""
        if self.reflector.store is None:
            self.reflector = self._reflects_in(InMemoryReflectionStore())
        if self._warned:
            return
        message = ""
        if self._given is None:
            message = (
                "no reflection_store was given: task notes are kept in memory, and are gone with this Ensemble; pass "
                "a SqliteReflectionStore, FileReflectionStore or PostgresReflectionStore to keep them"
            )
        elif self.reflector.versioned is None:
            message = (
                f"{type(self._given).__name__} keeps no versions of task notes: no rollback, and run counts are safe "
                "within this process alone; VersionedReflectionStore does both"
            )
        if message:
            self._warned = True
            logger.warning(message)
            await run.session.emit(Warned(run_id=run.session.id, message=message))

    def session_for(self, session: Session) -> Session:
        """Return a session whose events, without secrets, go to its listener and to the ensemble's."""
        listeners = [*([session.listener] if session.listener is not None else []), *self._listeners]
        return redacting(session.listening(_All(listeners))) if self._listeners else redacting(session)


class _All:
    """Hands each event to several listeners; one that fails keeps it from no other."""

    def __init__(self, listeners: Sequence[Listener | EnsembleListener]) -> None:
        self._listeners = listeners

    async def __call__(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                waiting = None
                if isinstance(listener, EnsembleListener):
                    if isinstance(event, TaskReflectedEvent):
                        waiting = listener.on_task_reflected(event)
                else:
                    waiting = listener(event)
                if inspect.isawaitable(waiting):
                    await waiting
            except Exception:  # noqa: BLE001 - logged, and of no concern to the others
                logger.exception("a listener failed on %s of run %s", event.kind, event.run_id)


def _stages(works: Sequence[Work]) -> list[Phase]:
    """Return the phases of a run; tasks between them are phases without a review."""
    stages: list[Phase] = []
    loose: list[EnsembleTask] = []
    for work in works:
        if not isinstance(work, Phase):
            loose.append(EnsembleTask.of(work))
            continue
        if loose:
            stages.append(Phase("", loose))
        stages.append(work)
        loose = []
    if loose:
        stages.append(Phase("", loose))
    return stages


@dataclass(slots=True)
class _Place:
    """A task's place in a run, its number from 1, and what came of it."""

    task: EnsembleTask
    number: int
    core: Task
    reflection: ReflectionConfig | None
    done: anyio.Event = field(default_factory=anyio.Event)
    run: TaskRun | None = None
    outcome: TaskOutcome | None = None


class _Run:
    def __init__(self, ensemble: Ensemble, session: Session, inputs: Mapping[str, str], workers: int) -> None:
        self.ensemble = ensemble
        self.session = ensemble.session_for(session)
        self.inputs = inputs
        self.limiter = anyio.CapacityLimiter(workers)
        self.workers = workers
        self.places: dict[int, _Place] = {}

    def begin(self, phases: Sequence[Phase]) -> None:
        """Give each task its place; raises :class:`ConfigurationError` for what can't work."""
        staff = self.ensemble.staff
        tasks = [(task, phase.reflection_of(task)) for phase in phases for task in phase.tasks]
        for number, (task, reflection) in enumerate(tasks, 1):
            if id(task) in self.places:
                raise ConfigurationError(f"the task {task.description[:80]!r} is in the run twice")
            for other in task.context:
                if id(other) not in self.places:
                    raise ConfigurationError(
                        f"the task {task.description[:80]!r} has a context that does not come before it in this run"
                    )
            staff.agent_of(task)
            staff.evaluator_of(task)
            self.places[id(task)] = _Place(task, number, task.bound(self.inputs), reflection)

    async def stage(self, phase: Phase) -> None:
        """Run the tasks of a phase, and again as long as its review asks for it."""
        places = [self.places[id(task)] for task in phase.tasks]
        advice = ""
        for attempt in range(phase.max_retries + 1):
            for place in places:
                place.done = anyio.Event()
            await self._together(places, advice, learn=phase.review is None)
            if phase.review is None:
                return
            try:
                decision = await self._review(phase, places)
            except HOPELESS:
                raise
            except Exception as error:  # noqa: BLE001 - told by the outcomes
                reason = redact(f"phase {phase.name!r}: the review failed: {described(error)}")
                logger.warning("run %s, %s", self.session.id, reason)
                await self._settle(places, reason, status="failed")
                return
            if decision.verdict == "accept":
                await self._settle(places)
                return
            advice = decision.text
            if decision.verdict == "reject" or attempt == phase.max_retries:
                await self._settle(places, f"phase {phase.name!r}: {advice}")
                return

    def results(self) -> tuple[TaskOutcome, ...]:
        """Return the outcomes, in the order of the tasks."""
        return tuple(place.outcome for place in self.places.values() if place.outcome is not None)

    async def _together(self, places: Sequence[_Place], advice: str, *, learn: bool) -> None:
        if self.workers == 1:
            for place in places:
                await self._one(place, advice, learn=learn)
            return
        errors: list[Exception] = []

        async def work(place: _Place) -> None:
            try:
                for other in place.task.context:
                    await self.places[id(other)].done.wait()
                async with self.limiter:
                    await self._one(place, advice, learn=learn)
            except Exception as error:  # noqa: BLE001 - raised again below, as itself
                errors.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for place in places:
                group.start_soon(work, place)
        if errors:
            raise errors[0]

    async def _one(self, place: _Place, advice: str, *, learn: bool) -> None:
        before = [self.places[id(other)] for other in place.task.context]
        missing = [each for each in before if each.outcome is None or not each.outcome.accepted]
        if missing:
            reason = f"task {missing[0].number} of its context was not accepted"
            place.outcome = TaskOutcome(place.task, "skipped", reason=reason)
        else:
            outputs = [(each.core.prompt, each.outcome.output) for each in before if each.outcome is not None]
            place.run = TaskRun(
                place.task,
                place.core,
                place.reflection,
                self.ensemble.staff,
                self.ensemble.options,
                self.ensemble.reflector,
                self.session.for_attempt(place.number, {}),
                outputs,
                advice,
                self.inputs,
            )
            place.outcome = await place.run.execute()
            if learn:
                place.outcome = await place.run.settle(place.outcome)
        place.done.set()

    async def _review(self, phase: Phase, places: Sequence[_Place]) -> ReviewDecision:
        outcomes = [place.outcome for place in places if place.outcome is not None]
        review = phase.review
        if review is None:
            return ReviewDecision.accept()
        allowed = {"accept", "reject", "retry"}
        return await decided(review, lambda: review(outcomes), phase.timeout, phase.on_timeout, allowed)

    async def _settle(
        self, places: Sequence[_Place], reason: str = "", *, status: Status = "rejected"
    ) -> None:
        """Let a phase that was decided on leave its notes; with a reason, none of it was accepted."""
        for place in places:
            if place.run is None or place.outcome is None or place.outcome.status == "skipped":
                continue
            if reason and place.outcome.accepted:
                decision = ReviewDecision.reject(reason) if status == "rejected" else None
                place.outcome = replace(place.outcome, status=status, reason=reason, decision=decision)
            place.outcome = await place.run.settle(place.outcome)
