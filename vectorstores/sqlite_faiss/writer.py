"""One thread that writes for many tasks: waiting writes share a transaction, hence a commit and a flush to disk."""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel

from vectorstores.base import StoreClosedError, StoreUnavailableError
from vectorstores.sqlite_faiss.database import concerns_all

if TYPE_CHECKING:
    from vectorstores.sqlite_faiss.database import Database

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)

# The most writes in one transaction.
_AT_ONCE: Final = 256
# Seconds until the log is cleared, so that deletes in a row share the several flushes to disk; and the longest wait
# before another attempt.
_SCRUB: Final = 0.1
_SCRUB_LATEST: Final = 5.0
# Seconds after which an idle thread ends, so that a store that nobody closes keeps none.
_IDLE: Final = 1.0


class _Write:
    """A write that a task has requested, and its outcome."""

    __slots__ = ("awaited", "done", "error", "loop", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Any], *, awaited: bool = True) -> None:
        self.work = work
        self.awaited = awaited
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = anyio.Event()
        token = anyio.lowlevel.current_token()
        # Since anyio 4.11 a token wraps that of the library.
        self.loop: Any = getattr(token, "native_token", token)


class Writer:
    """Runs the writes of tasks of all event loops, and soon afterwards erases deleted bytes from the log.

    A write that was queued is carried out even if its task is cancelled; the task then waits until it is done.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._scrub_at: float | None = None
        self._scrub_wait = _SCRUB
        self._refused = False

    async def __call__(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in the thread; its changes are durable when this returns.

        Work that deletes or replaces something calls :meth:`scrub_soon`. It may run twice, so apart from SQL, which is
        rolled back, it must do only what may be repeated.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        write = _Write(work)
        self._send(write)
        try:
            await write.done.wait()
        except GeneratorExit:
            # The event loop has ended: nothing can be awaited.
            raise
        except BaseException:
            # The thread may be running it. When the caller goes on, it must be finished.
            with anyio.CancelScope(shield=True):
                await write.done.wait()
            raise
        if write.error is not None:
            raise write.error
        result: T = write.result
        return result

    def hand_over(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run ``work`` in the thread without waiting for it, unless many writes wait. A failure is logged."""
        if self._waiting.qsize() < _AT_ONCE:
            self._send(_Write(work, awaited=False))

    def _send(self, write: _Write) -> None:
        with self._lock:
            if self._closed:
                raise StoreClosedError("the store was closed; open it again to use it")
            if self._thread is None:
                # A daemon, for the end of the program need not wait for it: tasks wait for their own writes.
                thread = threading.Thread(target=self._run, name="vectorstores-writes", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise StoreUnavailableError(f"no thread to write with: {error}") from error
                self._thread = thread
            self._waiting.put(write)

    def _run(self) -> None:
        going = True
        while going:
            batch: list[_Write] = []
            wait = _IDLE if self._scrub_at is None else max(self._scrub_at - time.monotonic(), 0.0)
            with suppress(queue.Empty):
                while len(batch) < _AT_ONCE:
                    write = self._waiting.get(timeout=wait)
                    if write is None:
                        going = False
                        break
                    batch.append(write)
                    wait = 0.0
            if batch:
                self._serve(batch)
            if self._scrub_at is None:
                with self._lock:
                    if not batch and self._waiting.empty():
                        self._thread, going = None, False
            elif self._scrub_at <= time.monotonic():
                self.scrub()

    def _serve(self, batch: Sequence[_Write]) -> None:
        try:
            self._commit(batch)
        except BaseException as error:  # noqa: BLE001 - raised in the waiting tasks
            for write in batch:
                write.error = error
            if len(batch) > 1 and isinstance(error, Exception) and not concerns_all(error):
                # One of them makes the whole transaction fail: one by one, only that one does.
                for write in batch:
                    try:
                        self._commit([write])
                        write.error = None
                    except BaseException as own:  # noqa: BLE001 - raised in the waiting task
                        write.error = own
        # One call for each loop: it starts to work at the first one.
        done: dict[Any, list[anyio.Event]] = {}
        for write in batch:
            done.setdefault(write.loop, []).append(write.done)
            if write.error is not None and not write.awaited:
                _log.info("an embedding was not cached: %s", write.error)
        for loop, events in done.items():
            # The method's name in asyncio and in trio; both raise RuntimeError for a loop that has ended.
            with suppress(RuntimeError):
                (getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon)(_set_all, events)

    def _commit(self, batch: Sequence[_Write]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for write in batch:
                write.result = write.work(connection)

        self._database.write(work)

    def scrub_soon(self) -> None:
        """Erase deleted bytes from the write-ahead log soon; for a write to call, which commits first."""
        if self._scrub_at is None:
            self._scrub_at = time.monotonic() + _SCRUB

    def scrub(self) -> None:
        """Erase deleted bytes from the write-ahead log; try again later if a reader needs it or the disk refuses."""
        done = False
        try:
            done = self._database.scrub()
        except Exception as error:  # noqa: BLE001 - the thread goes on
            if not self._refused:  # once, not each time while a disk is full
                _log.warning("what was deleted stays in the write-ahead log for now: %s", error)
            self._refused = True
        else:
            self._refused = False
        self._scrub_at = None if done else time.monotonic() + self._scrub_wait
        self._scrub_wait = _SCRUB if done else min(2 * self._scrub_wait, _SCRUB_LATEST)

    def close(self) -> None:
        """End the thread when it has run all queued writes; later calls raise StoreClosedError. Blocks."""
        with self._lock:
            self._closed = True
            thread = self._thread
            if thread is not None:
                self._waiting.put(None)
        if thread is not None:
            thread.join()
        if self._scrub_at is not None:
            self.scrub()


def _set_all(events: Sequence[anyio.Event]) -> None:
    for event in events:
        event.set()
