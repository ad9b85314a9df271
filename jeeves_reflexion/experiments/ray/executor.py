"""Makes the tries of an experiment in worker processes on a Ray cluster, and survives the death of a process.

A try whose process died is made again from its beginning, in any process. The new process gets the same model replies
as the dead one. The experiment's own process stores all lessons, so that none is lost or stored twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import (
    HOPELESS,
    ConfigurationError,
    ExperimentError,
    ModelAuthError,
    ModelError,
)
from jeeves_reflexion.experiments.arms import Arm, beneath
from jeeves_reflexion.experiments.executors import Job, Output, RunBudget, WorkerSetup
from jeeves_reflexion.experiments.journal import Entry, read_back
from jeeves_reflexion.experiments.ray.connection import RayOptions, connected, load_ray
from jeeves_reflexion.experiments.ray.worker import Asked, Failed, Finished, Reply, Worker
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.models.cassette import key_of, recorded_error, request_of
from jeeves_reflexion.models.recorded import recording_at
from jeeves_reflexion.protocols import ChatModel, Completion, Evaluator
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import NO_USAGE
from vectorstores.postgres import PostgresVectorStore
from vectorstores.store import Store

__all__ = ["RayExecutor", "RayOptions"]

MOST_DEATHS: Final = 5
"""How often the process of one try may die before the experiment stops; it can then be resumed."""

START_SECONDS: Final = 180.0
"""How long a process may take to start and to open its setup."""

STOP_SECONDS: Final = 10.0

Actor: TypeAlias = Any
"""Ray's handle of a :class:`Worker`."""


@dataclass(slots=True, eq=False)
class Process:
    """A worker process: Ray's handle, the pending result of opening its setup, and its number of current tries."""

    actor: Actor
    opened: Any
    busy: int = 0


class RayExecutor:
    """Makes tries on Ray. Use it with ``async with``, which connects to the cluster and cleans up afterwards.

    Worker processes open the ``setup``. They may ask the ``models`` by name; this process asks on their behalf, so that
    a recorded model records. ``workers`` tries are made at a time, in at most as many processes, and in no more than
    the cluster has free processors for. A connection to Ray that the program already has stays open.

    Runs on asyncio only. Raises :class:`ConfigurationError` if something can't be sent or the cluster can't be reached;
    :class:`MissingDependencyError` without Ray; :class:`ExperimentError` if no worker process can be started, or the
    processes of one try died :data:`MOST_DEATHS` times.
    """

    def __init__(
        self,
        setup: WorkerSetup,
        *,
        workers: int,
        models: Mapping[str, ChatModel] | None = None,
        options: RayOptions | None = None,
    ) -> None:
        self._ray = load_ray()
        self._models = dict(models or {})
        self._setup = self._packed(setup, "the setup of worker processes")
        self._options = options or RayOptions()
        self._open = contextlib.AsyncExitStack()
        self._workers = workers
        self._processes: list[Process] = []
        errors = self._ray.exceptions
        self._deaths = (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.OutOfMemoryError,
            errors.ObjectLostError,
        )

    async def __aenter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(
                "an experiment on Ray runs on asyncio only: use it as the event loop"
            ) from None
        try:
            cpus = await self._open.enter_async_context(connected(self._options))
            self._processes = [self._started() for _ in range(max(min(self._workers, cpus), 1))]
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end(process: Process) -> None:
            with contextlib.suppress(self._ray.exceptions.RayError), anyio.move_on_after(STOP_SECONDS):
                await process.actor.stop.remote()
            await anyio.to_thread.run_sync(self._ray.kill, process.actor)

        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as group:
                    for process in self._processes:
                        group.start_soon(end, process)
            finally:
                await self._open.__aexit__(kind, error, trace)

    def check(self, arm: Arm, loop: Reflexion) -> None:
        """Raise :class:`ConfigurationError` if other machines can't see the loop's lessons."""
        if not arm.learns:
            return
        if loop.lessons is None:
            raise ConfigurationError(
                f"arm {arm.name}: only one process can see a block of memory; on Ray, lessons must be in a store"
            )
        lessons = beneath(loop.lessons)
        ours = lessons is not None and isinstance(lessons.store, Store)
        if ours and lessons is not None and not isinstance(lessons.store, PostgresVectorStore):
            raise ConfigurationError(
                f"arm {arm.name}: on Ray, lessons must be in PostgreSQL, where every machine sees them, and not in a"
                " folder or in memory (bench: --lessons postgresql://...)"
            )

    async def make(
        self, job: Job, loop: Reflexion, scorer: Evaluator | None, budget: RunBudget
    ) -> Output | None:
        """Make a try, and make it again if its process dies."""
        data = self._packed(job, f"task {job.task.id!r}")
        answers, last = Answers(str(job.position), self._models, budget), ""
        for _ in range(MOST_DEATHS):
            process = min(self._processes, key=lambda each: each.busy)
            process.busy += 1
            try:
                outcome = await self._made(process, data, answers)
            except TimeoutError:
                if self._processes == [process]:
                    raise ExperimentError(
                        f"no worker process started within {START_SECONDS:.0f} s: does the cluster have a free"
                        " processor (ray status), memory, and this package on every node?"
                    ) from None
                last = "it could not be started"
                await self._drop(process)
            except self._deaths as error:
                last = last_words(str(error))
                await self._drop(process, replaced=True)
            except self._ray.exceptions.RayError as error:
                failure = ExperimentError(f"a worker process failed: {last_words(str(error))}")
                failure.add_note(redact(str(error)))
                raise failure from error
            else:
                if isinstance(outcome, Failed):
                    raise outcome.raised()
                if outcome.entry is None:
                    return None
                with read_back(job.position):
                    entry = Entry.of(outcome.entry)
                return answers.settled(entry, outcome)
            finally:
                process.busy -= 1
        raise ExperimentError(
            f"the worker process of {job.position} died {MOST_DEATHS} times, last: {last}. Check that task, and the"
            " memory of the nodes; the run can be resumed"
        )

    async def _made(self, process: Process, data: bytes, answers: Answers) -> Finished | Failed:
        """Return the outcome of a try in a process.

        Raises Ray's error if the process died, and ``TimeoutError`` if it did not start.
        """
        with anyio.fail_after(START_SECONDS):
            failure: Failed | None = await process.opened
        if failure is not None:
            return failure
        answers.begin()
        died: Exception | None = None
        async with anyio.create_task_group() as answering:
            try:
                async for reference in process.actor.make.remote(data):
                    message: Asked | Finished | Failed = await reference
                    if not isinstance(message, Asked):
                        answering.cancel_scope.cancel()  # nobody waits for an answer any more
                        return message
                    answering.start_soon(self._answer, process.actor, message, answers)
            except self._ray.exceptions.RayError as error:
                died = error  # raised below, so that pending answers, which cost money, are still recorded
        raise died or ExperimentError("a worker process ended a try without reporting an outcome")

    async def _answer(self, actor: Actor, asked: Asked, answers: Answers) -> None:
        reply = await answers.reply(asked)
        with contextlib.suppress(*self._deaths):  # _made notices the death too
            await actor.answer.remote(asked.number, reply)

    def _started(self) -> Process:
        facts = {name: (each.name, each.supports_tools) for name, each in self._models.items()}
        kind = self._ray.remote(Worker).options(num_cpus=1, max_concurrency=2 * self._workers + 4)
        # A worker whose machine has this program's module folders imports from them too.
        paths = list(dict.fromkeys(str(Path(path).absolute()) for path in ("", *sys.path)))
        actor = kind.remote(self._setup, facts, paths)
        return Process(actor, actor.open.remote())

    async def _drop(self, process: Process, *, replaced: bool = False) -> None:
        """End a process, and start another one if it is to be replaced, unless another try has done so."""
        if process in self._processes:
            if replaced:
                self._processes.append(self._started())
            self._processes.remove(process)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._ray.kill, process.actor)

    def _packed(self, value: object, what: str) -> bytes:
        """Pickle a value. Raises :class:`ConfigurationError` that says what to do if it can't be pickled."""
        try:
            # cloudpickle also sends what is defined in the program's main file.
            data: bytes = self._ray.cloudpickle.dumps(value)
        except Exception as error:  # pickling may raise anything
            raise ConfigurationError(
                f"{what} can't be sent to worker processes: {type(error).__name__}: {error}. Give names instead of"
                " objects (an agent as module:name, a store by its address), and open files, connections and models in"
                " its open()"
            ) from error
        return data


@dataclass(slots=True, eq=False)
class Answers:
    """The model replies of one try, over all the processes in which it is started.

    This process asks the models. So keys stay here, every reply is recorded in the run's folder, the spending limit
    covers all processes together, and a new process gets the replies of a killed one again without paying.
    """

    position: str
    models: Mapping[str, ChatModel]
    budget: RunBudget
    _given: dict[tuple[str, int], Completion] = field(default_factory=dict)
    _turns: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Start the try (again) in a new process: its questions are counted from the first."""
        self._turns.clear()

    async def reply(self, asked: Asked) -> Reply:
        """Answer a question as it was answered before, else by asking the model. A failure is a reply too."""
        model = self.models[asked.model]
        request = request_of(model.name, asked.messages, asked.tools, asked.schema, asked.sampling)
        key = f"{asked.model} {key_of(request)}"
        turn = self._turns[key]
        self._turns[key] += 1
        try:
            if (key, turn) not in self._given:
                if self.budget.exhausted:
                    return Reply(Failed("BudgetExceededError", str(self.budget)), model.supports_tools)
                with recording_at(self.position):
                    completion = await model.complete(
                        asked.messages, tools=asked.tools, schema=asked.schema, sampling=asked.sampling
                    )
                self.budget.spent += completion.usage
                self._given[key, turn] = completion
        except ModelAuthError as error:
            return Reply(Failed.of(error), model.supports_tools)
        except ModelError as error:
            return Reply(recorded_error(error, native=model.supports_tools), model.supports_tools)
        except HOPELESS as error:
            return Reply(Failed.of(error), model.supports_tools)
        return Reply(self._given[key, turn], model.supports_tools)

    def settled(self, entry: Entry, said: Finished) -> Output:
        """Return the try, and charge what it used besides these answers, such as by a client of the agent's own."""
        used = sum(entry.trial.usage.values(), NO_USAGE)
        self.budget.spent += used.beyond(sum((each.usage for each in self._given.values()), NO_USAGE))
        return Output(entry, said.events)


def last_words(said: str) -> str:
    """Return why a process died, from Ray's long message."""
    if "out of memory" in said.lower():
        return "its node ran out of memory, and Ray ended it"
    lines = redact(said).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "Ray gives no reason")
