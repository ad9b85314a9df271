"""Streams the events of a run while it happens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from jeeves_reflexion.errors import SessionError
from jeeves_reflexion.events import Event
from jeeves_reflexion.session import Session, relay
from jeeves_reflexion.types import RunResult, T


class EventStream(Generic[T]):
    """The events of one run, in order; ``result`` is available once the run is over."""

    def __init__(self, receive: MemoryObjectReceiveStream[Event]) -> None:
        self._receive = receive
        self.outcome: RunResult[T] | BaseException | None = None
        """The result of the run, or the error that it raised; None before its end."""

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._receive.__aiter__()

    @property
    def result(self) -> RunResult[T]:
        """The result of the run; raises :class:`SessionError` before its end, and if the run failed."""
        if isinstance(self.outcome, BaseException):
            raise SessionError(f"the run failed: {self.outcome}") from self.outcome
        if self.outcome is None:
            raise SessionError("the run is not over yet: read its events to the end first")
        return self.outcome


@contextlib.asynccontextmanager
async def run_streaming(
    run: Callable[[Session], Awaitable[RunResult[T]]], session: Session
) -> AsyncIterator[EventStream[T]]:
    """Run in the background and yield the stream of its events.

    The run waits for its reader, so no events pile up; leaving the block before the end cancels the run. An error of
    the run is raised at the end of the block, and one raised in the block leaves it, each by itself and not in a group.
    If both failed, the run's error is raised, since it caused the other.
    """
    send, receive = anyio.create_memory_object_stream[Event](0)
    stream = EventStream[T](receive)

    async def forward(event: Event) -> None:
        await relay(session, event)
        await send.send(event)

    async def drive() -> None:
        async with send:
            try:
                stream.outcome = await run(session.listening(forward))
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001 - raised again below, outside of the task group
                stream.outcome = error

    outside: BaseException | None = None
    async with receive, anyio.create_task_group() as group:
        group.start_soon(drive)
        try:
            yield stream
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised again below, as itself
            outside = error
        if stream.outcome is None:
            group.cancel_scope.cancel()
        ended = stream.outcome  # taken now: the cancellation by leaving the block is not a failure of the run
    if isinstance(ended, BaseException):
        raise ended
    if outside is not None:
        raise outside
