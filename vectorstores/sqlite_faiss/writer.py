"""Writes of many tasks in one thread: those that wait share a transaction, hence a commit and a flush to disk."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel

from vectorstores.base import StoreClosedError, StoreUnavailableError
from vectorstores.sqlite_faiss.database import concerns_all

if TYPE_CHECKING:
    from vectorstores.sqlite_faiss.database import Database

T = TypeVar("T")

# Writes of one batch: more are taken into the next.
_AT_ONCE: Final = 256


class _Write:
    """What a task wants written, and what became of it."""

    __slots__ = ("error", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None


class _Wave:
    """Writes of tasks of one event loop that are answered together."""

    __slots__ = ("done", "loop", "writes")

    def __init__(self, loop: Any) -> None:  # noqa: ANN401 - a loop of asyncio's, or a token of trio's
        self.loop = loop
        self.writes: list[_Write] = []
        self.done = anyio.Event()

    def answer(self) -> None:
        """Tell the tasks, from another thread than theirs."""
        # What asyncio and trio call the same thing.
        soon = getattr(self.loop, "call_soon_threadsafe", None) or self.loop.run_sync_soon
        try:
            soon(self.done.set)
        except RuntimeError:
            # Both libraries' word for a loop that has ended: nobody is left who could be told.
            return


class _Collected(threading.local):
    wave: _Wave | None = None
    """What tasks of the event loop that runs in a thread want written since its last turn."""


class Writer:
    """Carries out the writes of tasks of all event loops.

    A write that was handed over is carried out whatever becomes of its task; a cancelled task goes on when it is done.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Wave] = deque()
        self._thread = ThreadPoolExecutor(1, "vectorstores-writes")
        self._closed = False
        self._collected = _Collected()

    async def __call__(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Have ``work`` carried out, durable when this returns.

        It may be run twice, so it must do nothing but SQL, and what bears being done twice.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        write = _Write(work)
        wave = self._collect(write)
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
        if write.error is not None:
            raise write.error
        result: T = write.result
        return result

    def _collect(self, write: _Write) -> _Wave:
        """Put a write to those of other tasks that are ready now, which come into the same batch."""
        token = anyio.lowlevel.current_token()
        # Since anyio 4.11 a token wraps that of the library.
        loop: Any = getattr(token, "native_token", token)
        wave = self._collected.wave
        if wave is None or wave.loop is not loop or len(wave.writes) >= _AT_ONCE:
            wave = self._collected.wave = _Wave(loop)
            (getattr(loop, "call_soon", None) or loop.run_sync_soon)(self._send, wave)
        wave.writes.append(write)
        return wave

    def _send(self, wave: _Wave) -> None:
        if self._collected.wave is wave:
            self._collected.wave = None
        self._waiting.append(wave)
        try:
            self._thread.submit(self._serve)
        except RuntimeError as error:
            # The executor may keep the call for its next thread, which must not find what is refused here.
            try:
                self._waiting.remove(wave)
            except ValueError:
                return  # an earlier call took it along
            refusal = StoreClosedError if self._closed else StoreUnavailableError
            for write in wave.writes:
                write.error = refusal(f"no thread to write with: {error}")
            wave.answer()

    def _serve(self) -> None:
        """Carry out what waits, as much as is good for a batch."""
        waves: list[_Wave] = []
        batch: list[_Write] = []
        while self._waiting and len(batch) < _AT_ONCE:
            waves.append(self._waiting.popleft())
            batch += waves[-1].writes
        if not batch:  # an earlier call took it along
            return
        try:
            self._carry_out(batch)
        except BaseException as error:  # noqa: BLE001 - it is raised in every task that waits
            for write in batch:
                write.error = write.error or error
        finally:
            for wave in waves:
                wave.answer()

    def _carry_out(self, batch: Sequence[_Write]) -> None:
        try:
            self._commit(batch)
        except Exception as error:
            if len(batch) == 1 or concerns_all(error):
                raise
            # One of them spoils the transaction of all: alone, only that one fails.
            for write in batch:
                try:
                    self._commit([write])
                except Exception as own:  # noqa: BLE001 - it is raised in the task that waits
                    write.error = own

    def _commit(self, batch: Sequence[_Write]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for write in batch:
                write.result = write.work(connection)

        self._database.write(work)

    def close(self) -> None:
        """End the thread, after what was handed over; later calls raise StoreClosedError. Blocks."""
        self._closed = True
        self._thread.shutdown()
