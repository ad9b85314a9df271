"""Makes the tries of an experiment in worker processes on a Ray cluster, and goes on when some of them die.

A worker process is an actor that Ray starts again when it died. The tries that it was at are made again from their
beginning, in any process. What the dead one was told by models they are told again; lessons are stored by the
experiment's own process, so nothing is lost or there twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from jeeves_reflexion.errors import ConfigurationError, ExperimentError
from jeeves_reflexion.experiments.arms import Arm, beneath
from jeeves_reflexion.experiments.executors import Job, Output, RunBudget, WorkerSetup
from jeeves_reflexion.experiments.ray.calls import Calls
from jeeves_reflexion.experiments.ray.connection import Connection, RayOptions, module_paths
from jeeves_reflexion.experiments.ray.messages import (
    Asked,
    Failed,
    Finished,
    ModelFacts,
    Said,
    load_ray,
    packed,
    packed_job,
)
from jeeves_reflexion.experiments.ray.worker import StartedAnewError, Worker
from jeeves_reflexion.loop.reflexion import Reflexion
from jeeves_reflexion.protocols import ChatModel, Evaluator
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import NO_USAGE
from vectorstores.postgres import PostgresVectorStore
from vectorstores.store import Store

__all__ = ["RayExecutor", "RayOptions"]

T = TypeVar("T")
Actor: TypeAlias = Any
"""Ray's handle of a :class:`Worker`."""

MOST_DEATHS: Final = 5
"""So often may the process of one try die before the experiment stops, in a state to resume from."""

POLL_SECONDS: Final = 20.0
"""So long a worker process listens to its try before it says that there is nothing new."""

START_SECONDS: Final = 180.0
"""So long a process may take to be there with its setup open, started anew as often as it dies meanwhile."""

MOST_STARTS: Final = 3
"""So often may Ray say that a process is dead and not to be started again before that is believed."""

RESTART_SECONDS: Final = 0.3
CALL_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


class DiedError(Exception):
    """A worker process is there no more, or does not answer and was killed."""


@dataclass(slots=True, eq=False)
class Process:
    """A worker process: Ray's handle of it, and how many tries it is at; ``failed`` where it could not be started."""

    actor: Actor
    busy: int = 0
    failed: bool = False


class RayExecutor:
    """Makes tries on Ray; an asynchronous context manager that connects to the cluster, and leaves nothing behind.

    ``setup`` is what a worker process opens. ``models`` are those that it may ask, by name: this process asks them on
    its behalf, as they are (recorded, if they record). ``workers`` tries are made at a time, in as many processes as
    the cluster has free processors for, at most one a try. A program that is connected to Ray already stays so.

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
        self._ray = load_ray()
        self._models = dict(models or {})
        self._setup = packed(setup, "the setup of worker processes")
        self._connection = Connection(options or RayOptions())
        self._workers = workers
        self._processes: list[Process] = []
        self._tries = 0

    async def __aenter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(
                "an experiment on Ray runs on asyncio, and on no other event loop"
            ) from None
        try:
            cpus = await self._connection.open()
            facts = {name: ModelFacts(each.name, each.supports_tools) for name, each in self._models.items()}
            # Each try is listened to in one thread, and answered in another.
            kind = self._ray.remote(Worker).options(
                num_cpus=1, max_restarts=-1, max_concurrency=2 * self._workers + 4
            )
            for _ in range(max(min(self._workers, cpus), 1)):
                self._processes.append(Process(kind.remote(self._setup, facts, module_paths())))
        except BaseException:
            await self._connection.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            try:
                async with anyio.create_task_group() as group:
                    for process in self._processes:
                        group.start_soon(self._end, process.actor)
            finally:
                await self._connection.close(keep_logs=error is not None)

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
        """Make a try; once more, where its process dies."""
        calls, data, last = Calls(job.position, self._models, budget), packed_job(job), ""
        for _ in range(MOST_DEATHS):
            calls.begin()
            async with self._started() as actor:
                said = await self._made(actor, data, calls)
            match said:
                case DiedError():
                    last = str(said)
                case Failed():
                    raise said.raised()
                case Finished():
                    made = said.output()
                    if made is not None:
                        calls.settle(sum(made.entry.trial.usage.values(), NO_USAGE))
                    return made
        raise ExperimentError(
            f"the worker process of {job.position} died {MOST_DEATHS} times, last: {last}. Look at that task, and at"
            " the memory of the nodes; the run can be resumed"
        )

    @contextlib.asynccontextmanager
    async def _started(self) -> AsyncIterator[Actor]:
        """Give the least busy process of those that can be started, with its setup open.

        Raises what opening the setup raised, and :class:`ExperimentError` where none can be started.
        """
        while True:
            process = min(self._processes, key=lambda each: (each.failed, each.busy))
            process.busy += 1
            try:
                try:
                    failure = await self._opened(process.actor)
                except DiedError as died:
                    process.failed = True
                    if all(each.failed for each in self._processes):
                        raise ExperimentError(
                            f"no worker process could be started: {died}. Is there a free processor (ray status),"
                            " memory, and this package on every node?"
                        ) from died
                    continue
                if failure is not None:
                    raise failure.raised()
                process.failed = False
                yield process.actor
                return
            finally:
                process.busy -= 1

    async def _opened(self, actor: Actor) -> Failed | None:
        """Have a process open its setup, also one that Ray is starting again; raises :class:`DiedError`."""
        end, for_good = anyio.current_time() + START_SECONDS, 0
        while True:
            try:
                return await self._call(actor, actor.open.remote(), START_SECONDS)
            except DiedError as died:
                for_good += isinstance(died.__cause__, self._ray.exceptions.ActorDiedError)
                if for_good == MOST_STARTS or anyio.current_time() + RESTART_SECONDS > end:
                    raise
                await anyio.sleep(RESTART_SECONDS)

    async def _made(self, actor: Actor, data: bytes, calls: Calls) -> Finished | Failed | DiedError:
        """Hear a try out. A death is returned, not raised: answers on their way, which are paid for, still come in."""
        self._tries += 1
        number = self._tries
        said: Finished | Failed | DiedError
        async with anyio.create_task_group() as answering:
            try:
                await self._call(actor, actor.begin.remote(number, data))
                said = await self._listen(actor, number, calls, answering)
            except DiedError as died:
                actor.drop.remote(number)  # cut off alone, it may be at it still
                said = died
            else:
                answering.cancel_scope.cancel()  # nobody waits for an answer any more
        return said

    async def _listen(
        self, actor: Actor, number: int, calls: Calls, answering: anyio.abc.TaskGroup
    ) -> Finished | Failed:
        while True:
            heard = actor.listen.remote(number, POLL_SECONDS)
            said: Said | None = await self._call(actor, heard, POLL_SECONDS + CALL_SECONDS)
            if isinstance(said, Asked):
                answering.start_soon(self._answer, actor, number, said, calls)
            elif said is not None:
                return said

    async def _answer(self, actor: Actor, number: int, asked: Asked, calls: Calls) -> None:
        reply = await calls.answer(asked)
        with contextlib.suppress(DiedError):  # whoever listens finds out as well
            await self._call(actor, actor.answer.remote(number, asked.number, reply))

    async def _call(self, actor: Actor, reference: Awaitable[T], seconds: float = CALL_SECONDS) -> T:
        """Wait for an answer of a worker process; raises :class:`DiedError` where none will come."""
        said = self._ray.exceptions
        future = asyncio.ensure_future(reference)
        # Ray may have more to say of a call that nobody waits for any more.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            with anyio.fail_after(seconds):
                return await future
        except TimeoutError:
            await self._kill(actor, no_restart=False)
            raise DiedError(f"it gave no answer for {seconds:.0f} s") from None
        except StartedAnewError as error:
            raise DiedError("it ended, and Ray started it again") from error
        except (said.RayActorError, said.WorkerCrashedError, said.NodeDiedError) as error:
            raise DiedError(last_words(str(error))) from error
        except (said.OutOfMemoryError, said.ObjectLostError) as error:
            raise DiedError(last_words(str(error))) from error
        except said.RayError as error:
            told = redact(str(error)).strip()
            last = told.splitlines()[-1] if told else type(error).__name__
            failure = ExperimentError(f"a worker process failed: {last}")
            failure.add_note(told)
            raise failure from error

    async def _end(self, actor: Actor) -> None:
        with contextlib.suppress(DiedError, ExperimentError):  # it is killed in any case
            await self._call(actor, actor.stop.remote(), STOP_SECONDS)
        await self._kill(actor, no_restart=True)

    async def _kill(self, actor: Actor, *, no_restart: bool) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(self._ray.kill, actor, no_restart=no_restart))


def last_words(said: str) -> str:
    """Return why a process died, of all that Ray has to say of it."""
    if "out of memory" in said.lower():
        return "its node ran out of memory, and Ray ended it"
    if "temporarily unavailable" in said:
        return (
            "it ended, and Ray started it again; what Ray wrote meanwhile (standard error, ray logs) says why"
        )
    lines = redact(said).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "Ray does not say why")
