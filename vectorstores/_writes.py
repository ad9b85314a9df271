"""Writes of many tasks, carried out together: one thread and one commit for all that wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.lowlevel

from vectorstores._combine import Failure
from vectorstores.base import StoreUnavailableError

T = TypeVar("T")

# Items that one event loop hands over at once, and from how many on no more are taken into a batch.
_WAVE: Final = 256
_AT_ONCE: Final = 256
# How often the thread looks whether the program has ended without closing, and for how long it waits for more work.
_LOOK: Final = 0.25
_LOOKS: Final = 20


class _Wave(Generic[T]):
    """Items of tasks of one event loop that are worked on and answered together."""

    __slots__ = ("done", "items", "loop", "outcomes", "taken")

    def __init__(self, loop: Any) -> None:  # noqa: ANN401 - a loop of asyncio's, or a token of trio's
        self.loop = loop
        self.items: list[T] = []
        self.outcomes: Sequence[Any] = ()
        self.taken = False
        self.done = anyio.Event()

    def soon(self, work: Callable[[_Wave[T]], None]) -> None:
        """Have ``work`` done with this wave when the tasks that are ready now have had their turn."""
        # What asyncio and trio call the same thing.
        soon = getattr(self.loop, "call_soon", None) or self.loop.run_sync_soon
        soon(work, self)

    def answer(self, outcomes: Sequence[Any]) -> None:
        """Hand the outcomes to the tasks; from another thread than theirs."""
        self.outcomes = outcomes
        # The newest wave of a thread stays where it can be found; a thousand rows need not stay with it.
        self.items = []
        soon = getattr(self.loop, "call_soon_threadsafe", None) or self.loop.run_sync_soon
        try:
            soon(self.done.set)
        except RuntimeError:
            # Both libraries' word for a loop that has ended: nobody is left who could be told.
            return


class _Joined(threading.local):
    wave: _Wave[Any] | None = None
    """The newest wave of the event loop that runs in a thread."""


class Together(Generic[T]):
    """Collects the items of tasks that call while an earlier batch is at work, and works on them at once.

    ``work`` runs in one thread, for the tasks of all event loops. It returns an outcome for each item, in order: a
    result or a :class:`~vectorstores._combine.Failure`. An item that was handed over is worked on whatever becomes of
    its task; a cancelled task goes on when it is done. The thread is there while there is work, and some seconds more.
    """

    def __init__(self, work: Callable[[Sequence[T]], Sequence[Any]], name: str) -> None:
        self._work = work
        self._name = name
        self._guard = threading.Lock()
        # None ends the thread.
        self._waiting: queue.SimpleQueue[_Wave[T] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._joined = _Joined()

    async def __call__(self, item: T) -> Any:  # noqa: ANN401 - as the work says
        """Have an item worked on, and return its result or raise its error."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        wave, place = self._join(item)
        try:
            await wave.done.wait()
        except GeneratorExit:
            # The event loop is no more: nothing can be awaited.
            raise
        except BaseException:
            # The thread may be at it: a caller that goes on must find it done, or not begun.
            with anyio.CancelScope(shield=True):
                await wave.done.wait()
            raise
        outcome = wave.outcomes[place]
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    def _join(self, item: T) -> tuple[_Wave[T], int]:
        """Put an item to those that the event loop's other tasks have handed over in the meantime."""
        token = anyio.lowlevel.current_token()
        # Since anyio 4.11 a token wraps that of the library.
        loop = getattr(token, "native_token", token)
        with self._guard:
            wave: _Wave[T] | None = self._joined.wave
            if wave is None or wave.taken or len(wave.items) == _WAVE or wave.loop is not loop:
                wave = self._joined.wave = _Wave(loop)
                # Tasks that are ready to call now come into the same batch, and don't hold up its thread meanwhile.
                wave.soon(self._send)
            wave.items.append(item)
            return wave, len(wave.items) - 1

    def _send(self, wave: _Wave[T]) -> None:
        with self._guard:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name)
                try:
                    thread.start()
                except RuntimeError as error:
                    wave.taken = True
                    outcomes = [Failure(StoreUnavailableError(f"no thread to write with: {error}"))]
                    wave.answer(outcomes * len(wave.items))
                    return
                self._thread = thread
            self._waiting.put(wave)

    def _run(self) -> None:
        waves: Sequence[_Wave[T]] = ()
        try:
            while waves := self._next():
                self._serve(waves)
        except BaseException as error:
            # As when memory runs out while it answers: those who wait must not do so for ever.
            self._give_up(waves, error)
            raise

    def _give_up(self, waves: Sequence[_Wave[T]], error: BaseException) -> None:
        left = [wave for wave in waves if not wave.outcomes]
        with self._guard:
            self._thread = None
            while not self._waiting.empty():
                if (wave := self._waiting.get()) is not None:
                    wave.taken = True
                    left.append(wave)
        message = f"the thread that writes ended of {type(error).__name__}; whether the call was stored is not known"
        for wave in left:
            failed = StoreUnavailableError(message)
            failed.__cause__ = error
            wave.answer([Failure(failed)] * len(wave.items))

    def _next(self) -> list[_Wave[T]]:
        """Return what waits, as much as is good for a batch; nothing when the thread has to end."""
        looks = 0
        while True:
            try:
                first = self._waiting.get(timeout=_LOOK)
            except queue.Empty:
                looks += 1
                with self._guard:
                    if self._waiting.empty() and (looks == _LOOKS or not threading.main_thread().is_alive()):
                        self._thread = None
                        return []
                continue
            with self._guard:
                return self._take(first)

    def _take(self, wave: _Wave[T] | None) -> list[_Wave[T]]:
        taken: list[_Wave[T]] = []
        count, ending = 0, False
        while True:
            if wave is None:
                ending = True
            else:
                wave.taken = True
                taken.append(wave)
                count += len(wave.items)
            if count >= _AT_ONCE or self._waiting.empty():
                break
            wave = self._waiting.get()
        if ending and taken:
            self._waiting.put(None)
        elif ending:
            self._thread = None
        return taken

    def _serve(self, waves: Sequence[_Wave[T]]) -> None:
        items = waves[0].items if len(waves) == 1 else [item for wave in waves for item in wave.items]
        try:
            outcomes = [outcome for _, outcome in zip(items, self._work(items), strict=True)]
        except BaseException as error:  # noqa: BLE001 - it is raised in every task that waits for an item
            outcomes = [Failure(error)] * len(items)
        place = 0
        for wave in waves:
            count = len(wave.items)
            wave.answer(outcomes[place : place + count])
            place += count

    def close(self) -> None:
        """End the thread, after what was handed over. Blocks; a call that comes later starts another."""
        with self._guard:
            thread = self._thread
            if thread is not None:
                self._waiting.put(None)
        if thread is not None:
            thread.join()
