"""Takes what was deleted or replaced off the disk, after the commit that did it: a failure here undoes nothing."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores.base import VectorStoreError
from vectorstores.matrix import Matrix
from vectorstores.sqlite_faiss import rows, snapshot
from vectorstores.sqlite_faiss.index import is_known

if TYPE_CHECKING:
    from vectorstores.sqlite_faiss.background import Background
    from vectorstores.sqlite_faiss.database import Database
    from vectorstores.sqlite_faiss.snapshot import Place, Snapshot

_log: Final = logging.getLogger(__name__)

# Deletes in a row share a clearing of the log, which takes several flushes to disk; how soon a busy log is tried again.
_SCRUB: Final = 0.1
_SCRUB_AGAIN: Final = 0.02
_SCRUB_LATEST: Final = 5.0


class Removal:
    """Removes files of the index at once, and clears the write-ahead log a moment later.

    What fails is logged, and made up for after the next write, when the store is closed, or when it is opened.
    """

    def __init__(self, database: Database, place_of: Callable[[str], Place], background: Background) -> None:
        self._database = database
        self._place_of = place_of
        self._background = background
        self._guard = threading.Lock()
        self._left: set[str] = set()
        """Namespaces whose files could not be removed."""
        self._unclear = True
        self._failing = False

    def gone(self, namespaces: Mapping[str, int]) -> None:
        """Take what was deleted or replaced off the disk: for each namespace, the oldest row of that.

        Call it after every commit, so that what failed is tried again.
        """
        for namespace, row in namespaces.items():
            try:
                moment = snapshot.moment_of(self._place_of(namespace).path)
            except FileNotFoundError:
                continue
            if moment is None or row <= moment.seq:
                with self._guard:
                    self._left.add(namespace)
        self._remove_files()
        self._unclear |= bool(namespaces)
        if self._unclear:
            self._background.do("scrub", self._scrub, delay=_SCRUB)

    def look_for_leftovers(self) -> None:
        """Do soon what a process was stopped before that deleted something; :meth:`finish` does it too."""
        self._background.do("leftovers", self._find_leftovers)
        self._background.do("scrub", self._scrub)

    def _find_leftovers(self) -> None:
        def bereft(connection: sqlite3.Connection) -> list[str]:
            found = connection.execute(
                "SELECT DISTINCT namespace FROM changes WHERE row < seq AND kind != ?", (rows.PATCHED,)
            )
            return [namespace for (namespace,) in found if self._place_of(namespace).path.exists()]

        try:
            for namespace in self._database.read(bereft):
                found = snapshot.opened(self._place_of(namespace), check=False)
                if found is None or self.holds_gone(namespace, found):
                    with self._guard:
                        self._left.add(namespace)
        except (OSError, VectorStoreError) as error:
            self._report("vectors that were deleted may stay in a file for now", error)
        self._remove_files()

    def holds_gone(self, namespace: str, found: Snapshot) -> bool:
        """Whether a file has the vector of a row that is gone or has another one now."""

        def work(connection: sqlite3.Connection) -> bool:
            if not is_known(connection, found):
                return True
            changed = np.array(rows.overtaken(connection, namespace, found.moment.seq), dtype=np.int64)
            file = Matrix(found.vectors.shape[1], found.rows, found.vectors)
            for place in file.find(changed).tolist():
                row = int(file.rows[place])
                now = connection.execute("SELECT vector FROM vectors WHERE row = ?", (row,)).fetchone()
                if now is None or now[0] != found.vectors[place].tobytes():
                    return True
            return False

        return self._database.read(work)

    def _remove_files(self) -> None:
        with self._guard:
            left, self._left = self._left, set()
        for namespace in left:
            try:
                self._place_of(namespace).path.unlink(missing_ok=True)
            except OSError as error:
                with self._guard:
                    self._left.add(namespace)
                self._report("vectors that were deleted stay in a file for now", error)

    def _scrub(self, delay: float = _SCRUB_AGAIN) -> None:
        """Clear the write-ahead log, later if a reader needs it still; after an error the next write tries again."""
        self._unclear = False  # before: what is deleted meanwhile sets it again
        try:
            done = self._database.scrub()
        except VectorStoreError as error:
            self._unclear = True
            self._report("what was deleted stays in the write-ahead log for now", error)
            return
        self._failing = self._failing and not done
        if not done:
            self._unclear = True
            longer = min(2 * delay, _SCRUB_LATEST)
            self._background.do("scrub", lambda: self._scrub(longer), delay=delay)

    def _report(self, what: str, error: Exception) -> None:
        # Once, not at each write of a disk that is full.
        _log.log(logging.DEBUG if self._failing else logging.WARNING, "%s: %s", what, error)
        self._failing = True

    def finish(self) -> None:
        """Try once more what is left, by this process or others."""
        self._find_leftovers()
        if self._unclear:
            self._scrub()
