"""Takes what was deleted or replaced off the disk, after the commit that did it: a failure here undoes nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from vectorstores import _mapped, _rows
from vectorstores.base import VectorStoreError

if TYPE_CHECKING:
    from vectorstores._later import Later
    from vectorstores._mapped import Place
    from vectorstores._sqlite import Database

_log: Final = logging.getLogger(__name__)

# Deletes in a row share a clearing of the log, which takes several flushes to disk.
_PAUSE: Final = 0.1
_AGAIN: Final = 0.02
_LONGEST: Final = 5.0


class Forgetting:
    """Overwrites vectors in the derived files at once, and clears the write-ahead log a moment later.

    What fails is logged, and made up for after the next write, when the store is closed, or when it is opened.
    """

    def __init__(self, database: Database, place_of: Callable[[str], Place], later: Later) -> None:
        self._database = database
        self._place_of = place_of
        self._later = later
        self._lock = threading.Lock()
        self._left: dict[str, dict[int, int]] = {}
        self._unclear = False
        self._failing = False

    def gone(self, rows: Mapping[str, Mapping[int, int]]) -> None:
        """Forget the rows of namespaces, by the numbers of the changes that took them.

        Call it after every commit, so that what failed is tried again.
        """
        if rows:
            self._unclear = True
        elif not self._left and not self._unclear:
            return
        for namespace in rows.keys() | self._left.keys():
            self.overwrite(namespace, rows.get(namespace, {}))
        if self._unclear:
            self._later.do("clear", self._clear, delay=_PAUSE)

    def overwrite(self, namespace: str, rows: Mapping[int, int]) -> None:
        """Take the vectors of these rows, and of those that are left, out of the files of a namespace."""
        with self._lock:
            wanted = self._left.pop(namespace, {}) | dict(rows)
        try:
            _mapped.overwrite(self._place_of(namespace), wanted)
        except (OSError, VectorStoreError) as error:
            with self._lock:
                self._left[namespace] = wanted | self._left.get(namespace, {})
            self._report("vectors that were deleted stay in a file for now", error)

    def look_after_leftovers(self) -> None:
        """Do soon what a process was stopped before that deleted something; :meth:`finish` does it too."""
        self._later.do("leftovers", self._overwrite_leftovers)

    def _overwrite_leftovers(self) -> None:
        try:
            places = map(self._place_of, self._database.read(_rows.bereft))
            for place in [place for place in places if place.vectors.exists()]:
                if rows := _mapped.left(place, partial(self._gone_since, place.namespace)):
                    self.overwrite(place.namespace, rows)
        except (OSError, VectorStoreError) as error:
            self._report("vectors that were deleted may stay in a file for now", error)

    def _gone_since(self, namespace: str, seq: int) -> list[int]:
        return self._database.read(lambda connection: _rows.overtaken(connection, namespace, seq))

    def _clear(self, delay: float = _AGAIN) -> None:
        if not self.clear():
            longer = min(2 * delay, _LONGEST)
            self._later.do("clear", lambda: self._clear(longer), delay=delay)

    def clear(self) -> bool:
        """Clear the log; False if a reader needs it still. An error is logged, and the next write tries again."""
        self._unclear = False
        try:
            done = self._database.scrub()
        except VectorStoreError as error:
            self._unclear = True
            self._report("what was deleted stays in the write-ahead log for now", error)
            return True
        self._unclear = not done
        self._failing = self._failing and not done
        return done

    def _report(self, what: str, error: Exception) -> None:
        # Once, not at each write of a disk that is full.
        _log.log(logging.DEBUG if self._failing else logging.WARNING, "%s: %s", what, error)
        self._failing = True

    def finish(self) -> None:
        """Try once more what is left, by this process or others."""
        self._overwrite_leftovers()
        for namespace in list(self._left):
            self.overwrite(namespace, {})
        if self._unclear:
            self.clear()
