"""Work that nobody waits for, in one thread that is there while there is some."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

_log: Final = logging.getLogger(__name__)

# How often the thread looks whether the program has ended without closing.
_LOOK: Final = 0.25


class Background:
    """Tasks by key, each done once at its time; one at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._tasks: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether nothing more is begun."""
        return self._closing

    def do(self, key: Hashable, work: Callable[[], None], *, delay: float = 0.0) -> None:
        """Have ``work`` done in ``delay`` seconds, or sooner if a task of this key waits for an earlier time."""
        due = time.monotonic() + delay
        with self._changed:
            if self._closing:
                return
            known = self._tasks.get(key)
            due = due if known is None else min(due, known[0])
            self._tasks[key] = (due, work)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name)
                try:
                    thread.start()
                except RuntimeError as error:
                    _log.warning("work in the background has to wait (%r): %s", key, error)
                else:
                    self._thread = thread
            elif known is None or due < known[0]:
                self._changed.notify()

    def _run(self) -> None:
        while (found := self._next()) is not None:
            key, work = found
            try:
                work()
            except Exception:  # noqa: BLE001 - it is logged
                # Nobody waits for it, who could be told; and without this thread, nothing would be done any more.
                _log.exception("work in the background failed (%r)", key)

    def _next(self) -> tuple[Hashable, Callable[[], None]] | None:
        with self._changed:
            while self._tasks and not self._closing:
                key = min(self._tasks, key=lambda each: self._tasks[each][0])
                wait = self._tasks[key][0] - time.monotonic()
                if wait <= 0:
                    return key, self._tasks.pop(key)[1]
                if wait > 1.0 and not threading.main_thread().is_alive():
                    break
                self._changed.wait(min(wait, _LOOK))
            self._thread = None
            return None

    def close(self) -> None:
        """Begin nothing more, and wait for what is being done."""
        with self._changed:
            self._closing = True
            self._tasks.clear()
            thread = self._thread
            self._changed.notify()
        if thread is not None:
            thread.join()
