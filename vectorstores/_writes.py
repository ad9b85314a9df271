"""Writes of many tasks, carried out together: one thread and one commit for all that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from vectorstores._combine import Failure

T = TypeVar("T")

_AT_ONCE: Final = 256


@dataclass(slots=True, eq=False)
class _Call(Generic[T]):
    item: T
    # Set when the outcome is there, or when it is this call's turn to do the work of all that wait; None if it is now.
    turn: anyio.Event | None
    outcome: Any = None
    done: bool = False


class _Queue(threading.local):
    """The calls of the event loop that runs in a thread."""

    def __init__(self) -> None:
        self.loop: object = None
        self.waiting: list[_Call[Any]] = []
        self.busy = False

    def of(self, loop: object) -> _Queue:
        """Return the queue, without what a loop that is no more has left in it."""
        if loop != self.loop:
            self.loop, self.waiting, self.busy = loop, [], False
        return self


class Together(Generic[T]):
    """Collects the items of tasks that call while an earlier batch is at work, and works on them at once.

    ``work`` runs in a worker thread. It returns an outcome for each item, in order: a result or a
    :class:`~vectorstores._combine.Failure`. A cancelled task's item is worked on all the same: whole, or not begun.
    """

    def __init__(self, work: Callable[[Sequence[T]], Sequence[Any]]) -> None:
        self._work = work
        self._queue = _Queue()

    async def __call__(self, item: T) -> Any:  # noqa: ANN401 - as the work says
        """Have an item worked on, and return its result or raise its error."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        queue = self._queue.of(anyio.lowlevel.current_token())
        call = _Call(item, anyio.Event() if queue.busy else None)
        queue.waiting.append(call)
        with anyio.CancelScope(shield=True):
            if call.turn is not None:
                await call.turn.wait()
            if not call.done:
                await self._serve(queue)
        if isinstance(call.outcome, Failure):
            raise call.outcome.error
        return call.outcome

    async def _serve(self, queue: _Queue) -> None:
        """Work on what waits, this task's own call among it, and give the turn on."""
        queue.busy = True
        # Tasks that are ready to call now come into the same batch, and don't hold up its thread meanwhile.
        await anyio.lowlevel.checkpoint()
        batch, queue.waiting = queue.waiting[:_AT_ONCE], queue.waiting[_AT_ONCE:]
        outcomes: Sequence[Any] = ()
        try:
            outcomes = await anyio.to_thread.run_sync(self._work, [call.item for call in batch])
        except BaseException as error:
            outcomes = [Failure(error)] * len(batch)
            raise
        finally:
            for call, outcome in zip(batch, outcomes, strict=True):
                call.outcome, call.done = outcome, True
                _wake(call)
            if queue.waiting:
                _wake(queue.waiting[0])
            else:
                queue.busy = False


def _wake(call: _Call[Any]) -> None:
    if call.turn is not None:
        call.turn.set()
