"""The worker processes of an experiment on a Ray cluster: started when there is work, replaced when they died.

A worker process is an actor that Ray does not restart: whoever waits for it learns of its death, and begins again in
another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from jeeves_reflexion.errors import ExperimentError
from jeeves_reflexion.experiments.ray.connection import Connection, RayOptions, module_paths
from jeeves_reflexion.experiments.ray.messages import Failed, ModelFacts, load_ray, ray_failure
from jeeves_reflexion.experiments.ray.worker import Worker
from jeeves_reflexion.redaction import redact

T = TypeVar("T")

Actor: TypeAlias = Any
"""Ray's handle of a :class:`Worker`."""

START_SECONDS: Final = 180.0
MOST_STARTS: Final = 3
CALL_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


class DiedError(Exception):
    """A worker process is there no more."""


class SilentError(DiedError):
    """A worker process does not answer; it counts as dead, and is killed."""


@dataclass(slots=True, eq=False)
class Process:
    """A place for a worker process; after each death, another one is in it."""

    busy: int = 0
    starting: bool = False
    actor: Actor = None


class Processes:
    """The worker processes of one experiment, all made of the same pickled setup.

    ``slots`` tries are made at a time, in as many processes as the cluster has processors for, at most one a try.
    """

    def __init__(
        self, setup: bytes, models: Mapping[str, ModelFacts], options: RayOptions, *, slots: int
    ) -> None:
        self._ray = load_ray()
        self._connection = Connection(options)
        self._setup = setup
        self._models = models
        self._slots = slots
        self._each = 1
        self._places: list[Process] = []
        self._starts: anyio.abc.TaskGroup | None = None
        self._failed_starts = 0
        self._failure: Exception | None = None
        self._changed = anyio.Event()

    async def open(self) -> None:
        """Connect to the cluster; raises :class:`ConfigurationError` where it can't be reached."""
        try:
            cpus = await self._connection.open_async()
        except BaseException:
            await self._connection.close_async()
            raise
        count = max(min(self._slots, cpus), 1)
        self._each = math.ceil(self._slots / count)
        self._places = [Process() for _ in range(count)]
        self._starts = await anyio.create_task_group().__aenter__()

    async def close(self, *, keep_logs: bool = False) -> None:
        """End all processes, and what was started here; also while the caller is being cancelled."""
        assert self._starts is not None  # noqa: S101 - opened before
        self._starts.cancel_scope.cancel()
        try:
            await self._starts.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    async with anyio.create_task_group() as group:
                        for place in self._places:
                            group.start_soon(self._end, place)
                finally:
                    await self._connection.close_async(keep_logs=keep_logs)

    @contextlib.asynccontextmanager
    async def free(self) -> AsyncIterator[Process]:
        """Wait for the least busy process that has room for a try, and keep the room within the block.

        Empty places are filled meanwhile: a try does not wait for a process that the cluster has no room for while
        others are there. Raises what opening the setup raised, and :class:`ExperimentError` where none can be started.
        """
        place = await self._room()
        place.busy += 1
        try:
            yield place
        finally:
            place.busy -= 1
            self._change()

    async def _room(self) -> Process:
        assert self._starts is not None  # noqa: S101 - opened before
        while True:
            if self._failure is not None:
                raise self._failure
            for place in self._places:
                if place.actor is None and not place.starting:
                    place.starting = True
                    self._starts.start_soon(self._fill, place)
            ready = [place for place in self._places if place.actor is not None and place.busy < self._each]
            if ready:
                return min(ready, key=lambda each: each.busy)
            await self._changed.wait()

    async def _fill(self, place: Process) -> None:
        """Start a process; what is wrong is for those to hear who wait for one."""
        try:
            place.actor = await self._start()
            self._failed_starts = 0
        except DiedError as died:
            self._failed_starts += MOST_STARTS if isinstance(died, SilentError) else 1
            if self._failed_starts >= MOST_STARTS and all(each.actor is None for each in self._places):
                self._failure = ExperimentError(
                    f"no worker process could be started: {died}. Is there a free processor (ray status),"
                    " memory, and this package on every node?"
                )
        except Exception as error:  # noqa: BLE001 - raised where a process is waited for
            self._failure = error
        finally:
            place.starting = False
            self._change()

    def _change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def call(self, reference: Awaitable[T], seconds: float = CALL_SECONDS) -> T:
        """Wait for an answer of a worker process; raises :class:`DiedError` where none will come."""
        future = asyncio.ensure_future(reference)
        # Ray may have more to say of a call that nobody waits for any more.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            with anyio.fail_after(seconds):
                return await future
        except TimeoutError:
            raise SilentError(f"it gave no answer for {seconds:.0f} s") from None
        except self._deaths as error:
            raise DiedError(last_words(str(error))) from error
        except self._ray.exceptions.RayError as error:
            raise ray_failure(error) from error

    @property
    def _deaths(self) -> tuple[type[Exception], ...]:
        """What Ray says when a process, or what it answered, is there no more."""
        said = self._ray.exceptions
        return (
            said.RayActorError,
            said.WorkerCrashedError,
            said.NodeDiedError,
            said.OutOfMemoryError,
            said.ObjectLostError,
        )

    async def bury(self, place: Process, actor: Actor) -> None:
        """Make sure that a process is dead, and its place free for another one."""
        if place.actor is actor:
            place.actor = None
            self._change()
        await self._kill(actor)

    async def _start(self) -> Actor:
        threads = 2 * self._each + 4  # each try is listened to in one, and answered in another
        kind = self._ray.remote(Worker).options(num_cpus=1, max_restarts=0, max_concurrency=threads)
        actor = kind.remote(self._setup, dict(self._models), module_paths())
        failure: Failed | None
        try:
            failure = await self.call(actor.start.remote(), START_SECONDS)
        except BaseException:
            await self._kill(actor)
            raise
        if failure is not None:
            await self._kill(actor)
            raise failure.raised()
        return actor

    async def _end(self, place: Process) -> None:
        actor, place.actor = place.actor, None
        if actor is None:
            return
        with contextlib.suppress(DiedError, ExperimentError):  # it is killed in any case
            await self.call(actor.stop.remote(), STOP_SECONDS)
        await self._kill(actor)

    async def _kill(self, actor: Actor) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(self._ray.kill, actor, no_restart=True))


def last_words(said: str) -> str:
    """Return why a process died, of all that Ray has to say of it."""
    if "out of memory" in said.lower():
        return "its node ran out of memory, and Ray ended it"
    lines = redact(said).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "Ray does not say why")
