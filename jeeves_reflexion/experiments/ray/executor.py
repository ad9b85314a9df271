"""Makes the tries of an experiment in worker processes on a Ray cluster, and goes on when some of them die.

The tries that a process was at when it died are made again from their beginning, in another one. What the dead one was
told by models it is told again; lessons are stored by the experiment's own process, so nothing is lost or there twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.abc

from jeeves_reflexion.errors import ConfigurationError, ExperimentError
from jeeves_reflexion.experiments.arm_stores import beneath
from jeeves_reflexion.experiments.arms import Arm
from jeeves_reflexion.experiments.budget import RunBudget
from jeeves_reflexion.experiments.executors import Job, Output, WorkerSetup
from jeeves_reflexion.experiments.ray.calls import Calls
from jeeves_reflexion.experiments.ray.connection import RayOptions
from jeeves_reflexion.experiments.ray.messages import (
    Asked,
    Dropped,
    Failed,
    Finished,
    ModelFacts,
    packed,
    packed_job,
)
from jeeves_reflexion.experiments.ray.processes import (
    CALL_SECONDS,
    Actor,
    DiedError,
    Process,
    Processes,
)
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import ChatModel, Evaluator
from jeeves_reflexion.types import NO_USAGE
from vectorstores.postgres import PostgresVectorStore
from vectorstores.store import Store

__all__ = ["RayExecutor", "RayOptions"]

MOST_DEATHS: Final = 5
"""So often may the process of one try die before the experiment stops, in a state to resume from."""

POLL_SECONDS: Final = 20.0
"""So long a worker process listens to its try before it says that there is nothing new."""


class RayExecutor:
    """Makes tries on Ray; an asynchronous context manager that connects to the cluster, and leaves nothing behind.

    ``setup`` is what a worker process opens. ``models`` are those that it may ask, by name: this process asks them on
    its behalf, as they are (recorded, if they record). ``workers`` tries are made at a time, in as many processes as
    the cluster has processors for, at most one a try. A program that is connected to Ray already stays so.

    Runs on asyncio. Raises :class:`ConfigurationError` for what can't be sent, and for a cluster that can't be reached;
    :class:`MissingDependencyError` without Ray; :class:`ExperimentError` where no worker process can be started, or the
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
        self._models = dict(models or {})
        facts = {name: ModelFacts(model.name, model.supports_tools) for name, model in self._models.items()}
        sent = packed(setup, "the setup of worker processes")
        self._processes = Processes(sent, facts, options or RayOptions(), slots=workers)
        self._tries = 0

    async def __aenter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(
                "an experiment on Ray runs on asyncio, and on no other event loop"
            ) from None
        await self._processes.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._processes.close(keep_logs=error is not None)

    def check(self, arm: Arm, loop: Reflexion) -> None:
        """Raise :class:`ConfigurationError` for lessons that other machines can't see."""
        if not arm.learns:
            return
        if loop.lessons is None:
            raise ConfigurationError(
                f"arm {arm.name}: a block of memory is seen by one process alone; on Ray, lessons must be in a store"
            )
        lessons = beneath(loop.lessons)
        if lessons is None:
            return
        ours = isinstance(lessons.store, Store)
        if ours and not isinstance(lessons.store, PostgresVectorStore):
            raise ConfigurationError(
                f"arm {arm.name}: on Ray, lessons must be in PostgreSQL, where every machine sees them, and not in a"
                " folder or in memory (bench: --lessons postgresql://...)"
            )

    async def make(
        self, job: Job, loop: Reflexion, scorer: Evaluator | None, budget: RunBudget
    ) -> Output | None:
        """Make a try; in another process, where its process dies."""
        calls, data, last = Calls(job.position, self._models, budget), packed_job(job), ""
        for _ in range(MOST_DEATHS):
            try:
                async with self._processes.free() as process:
                    return await self._made(process, data, calls)
            except DiedError as died:
                last = str(died)
        raise ExperimentError(
            f"the worker process of {job.position} died {MOST_DEATHS} times, last: {last}. Look at that task, and at"
            " the memory of the nodes; the run can be resumed"
        )

    async def _made(self, process: Process, data: bytes, calls: Calls) -> Output | None:
        calls.begin()
        actor = process.actor
        said = await self._heard(actor, data, calls)
        match said:
            case Finished():
                made = said.output()
                if made is not None:
                    calls.settle(sum(made.entry.trial.usage.values(), NO_USAGE))
                return made
            case Failed():
                raise said.raised()
            case DiedError():
                await self._processes.bury(process, actor)
                raise said

    async def _heard(self, actor: Actor, data: bytes, calls: Calls) -> Finished | Failed | DiedError:
        self._tries += 1
        number = self._tries
        try:
            await self._processes.call(actor.begin.remote(number, data))
        except DiedError as died:
            return died
        async with anyio.create_task_group() as answering:
            said = await self._listen(actor, number, calls, answering)
            if not isinstance(said, DiedError):
                answering.cancel_scope.cancel()  # nobody waits for an answer any more
        return said

    async def _listen(
        self, actor: Actor, number: int, calls: Calls, answering: anyio.abc.TaskGroup
    ) -> Finished | Failed | DiedError:
        """Hear a try out. A death is returned, not raised: answers on their way, which are paid for, still come in."""
        while True:
            next_said = actor.listen.remote(number, POLL_SECONDS)
            try:
                said = await self._processes.call(next_said, POLL_SECONDS + CALL_SECONDS)
            except DiedError as died:
                return died
            match said:
                case Asked():
                    answering.start_soon(self._answer, actor, number, said, calls)
                case Dropped():
                    calls.drop(said.number)
                case Finished() | Failed():
                    return said

    async def _answer(self, actor: Actor, number: int, asked: Asked, calls: Calls) -> None:
        reply = await calls.answer(asked)
        with contextlib.suppress(DiedError):  # whoever listens finds out as well
            await self._processes.call(actor.answer.remote(number, asked.number, reply))
