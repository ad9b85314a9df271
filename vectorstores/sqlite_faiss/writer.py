"""Writes of many tasks in one thread: those that wait share a transaction, hence a commit and a flush to disk."""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from vectorstores.base import StoreUnavailableError
from vectorstores.sqlite_faiss.database import concerns_all
from vectorstores.sqlite_faiss.rows import Gone

if TYPE_CHECKING:
    from vectorstores._checks import Row
    from vectorstores.sqlite_faiss.database import Database

_log: Final = logging.getLogger(__name__)

# Writes of one batch: more are taken into the next.
_AT_ONCE: Final = 256
# How often the thread looks whether the program has ended without closing, and for how long it waits for more work.
_LOOK: Final = 0.25
_LOOKS: Final = 20


class Write:
    """What a task wants written: ``work``, or ``rows`` put into a namespace and nothing else."""

    __slots__ = ("error", "namespace", "result", "rows", "work")

    def __init__(
        self,
        work: Callable[[sqlite3.Connection], Any],
        namespace: str | None = None,
        rows: Sequence[Row] = (),
    ) -> None:
        self.work = work
        self.namespace = namespace
        """Where what ``work`` returns as gone was."""
        self.rows = rows
        """What ``work`` puts into the namespace, if it does nothing else: then others may be put with it."""
        self.result: Any = None
        self.error: BaseException | None = None


class _Wave:
    """Writes of tasks of one event loop that are answered together."""

    __slots__ = ("done", "loop", "writes")

    def __init__(self, loop: Any) -> None:  # noqa: ANN401 - a loop of asyncio's, or a token of trio's
        self.loop = loop
        self.writes: list[Write] = []
        self.done = anyio.Event()

    def answer(self, error: BaseException | None = None) -> None:
        """Tell the tasks, from another thread than theirs."""
        for write in self.writes:
            write.error = write.error or error
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
    """Carries out the writes of tasks of all event loops; ``committed`` is told of each batch that is durable.

    A write that was handed over is carried out whatever becomes of its task; a cancelled task goes on when it is done.
    The thread is there while there is work, and some seconds more.
    """

    def __init__(
        self,
        database: Database,
        put: Callable[[sqlite3.Connection, str, Sequence[Row]], list[Gone]],
        committed: Callable[[Sequence[Write]], None],
    ) -> None:
        self._database = database
        self._put = put
        self._committed = committed
        self._guard = threading.Lock()
        # None ends the thread.
        self._waiting: queue.SimpleQueue[_Wave | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._collected = _Collected()

    async def __call__(self, write: Write) -> Any:  # noqa: ANN401 - as the work says
        """Have a write carried out, durable when this returns.

        Its work may be run twice, so it must do nothing but SQL.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
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
        return write.result

    def _collect(self, write: Write) -> _Wave:
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
        with self._guard:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="vectorstores-writes")
                try:
                    thread.start()
                except RuntimeError as error:
                    wave.answer(StoreUnavailableError(f"no thread to write with: {error}"))
                    return
                self._thread = thread
            self._waiting.put(wave)

    def _run(self) -> None:
        waves: list[_Wave] = []
        try:
            while waves := self._next():
                self._serve([write for wave in waves for write in wave.writes])
                while waves:
                    waves[0].answer()
                    del waves[0]
        except BaseException as error:  # noqa: BLE001 - it is logged, and told
            # As when memory runs out while it answers: those who wait must not do so for ever.
            _log.exception("the thread that writes ended")
            self._give_up(waves, error)

    def _give_up(self, waves: list[_Wave], error: BaseException) -> None:
        left: list[_Wave | None] = [*waves]
        with self._guard:
            self._thread = None
            while not self._waiting.empty():
                left.append(self._waiting.get())
        failed = StoreUnavailableError(
            f"the thread that writes ended of {type(error).__name__}; whether the call was stored is not known"
        )
        failed.__cause__ = error
        for wave in left:
            if wave is not None:
                wave.answer(failed)

    def _next(self) -> list[_Wave]:
        """Return what waits, as much as is good for a batch; nothing when the thread has to end."""
        looks = 0
        while True:
            try:
                wave = self._waiting.get(timeout=_LOOK)
                break
            except queue.Empty:
                looks += 1
                with self._guard:
                    if self._waiting.empty() and (looks == _LOOKS or not threading.main_thread().is_alive()):
                        self._thread = None
                        return []
        waves: list[_Wave] = []
        ends = wave is None
        with self._guard:
            if wave is not None:
                waves.append(wave)
            while sum(len(each.writes) for each in waves) < _AT_ONCE and not self._waiting.empty():
                wave = self._waiting.get()
                if wave is None:
                    ends = True
                else:
                    waves.append(wave)
            if ends and waves:
                # What came after the word to end has to be answered first.
                self._waiting.put(None)
            elif ends:
                self._thread = None
        return waves

    def _serve(self, batch: Sequence[Write]) -> None:
        try:
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
            # Durable by now, so nothing there may say that it was not.
            self._committed([write for write in batch if write.error is None])
        except BaseException as error:  # noqa: BLE001 - it is raised in every task that waits
            for write in batch:
                write.error = write.error or error

    def _commit(self, batch: Sequence[Write]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for group in _grouped(batch):
                if len(group) == 1:
                    group[0].result = group[0].work(connection)
                else:
                    rows = [row for write in group for row in write.rows]
                    assert group[0].namespace is not None  # noqa: S101 - that of the rows
                    group[0].result = self._put(connection, group[0].namespace, rows)

        self._database.write(work)

    def close(self) -> None:
        """End the thread, after what was handed over. Blocks; a call that comes later starts another."""
        with self._guard:
            thread = self._thread
            if thread is not None:
                self._waiting.put(None)
        if thread is not None:
            thread.join()


def _grouped(batch: Sequence[Write]) -> list[list[Write]]:
    """Put neighbours together that only put rows, all different ones, into the same namespace."""
    groups: list[list[Write]] = []
    ids: set[str] = set()
    for write in batch:
        own = {row.id for row in write.rows}
        if (
            groups
            and own
            and groups[-1][0].rows
            and groups[-1][0].namespace == write.namespace
            and ids.isdisjoint(own)
        ):
            groups[-1].append(write)
            ids |= own
        else:
            groups.append([write])
            ids = own
    return groups
