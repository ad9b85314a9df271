"""Writes the index files of large namespaces in the background."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from vectorstores._extras import warn_once
from vectorstores.matrix import Matrix
from vectorstores.sqlite_faiss import codes as coding
from vectorstores.sqlite_faiss import index as searching
from vectorstores.sqlite_faiss import rows, snapshot
from vectorstores.sqlite_faiss.codes import Abandoned
from vectorstores.sqlite_faiss.index import ROLE, Index
from vectorstores.sqlite_faiss.snapshot import Place, Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import JSON
    from vectorstores.matrix import Places
    from vectorstores.sqlite_faiss.database import Database
    from vectorstores.sqlite_faiss.namespace import Namespace

    _Parts: TypeAlias = Iterator[tuple[str, Iterable[bytes | memoryview]]]

_log: Final = logging.getLogger(__name__)

# A file is written again when more rows than this were added, and more than this share.
_NEW_ROWS: Final = 2000
_NEW_SHARE: Final = 0.1
_BATCH: Final = 4096
# Above this size, no codes are made while someone waits for the store to close: it takes 5 s for 1M vectors.
_WHILE_CLOSING: Final = 300_000
# The wait before the next file, as a multiple of the time that the last one took; after a failure, in seconds.
_REST: Final = 20.0
_AGAIN: Final = 60.0
# Comparing all of so many rows takes milliseconds.
SLOW_FROM: Final = 20_000


class Upkeep:
    """Writes files in a thread. A failure loses nothing: it is logged, and the file is tried again later."""

    def __init__(self, database: Database, place_of: Callable[[str], Place], index: Index) -> None:
        self._database = database
        self._place_of = place_of
        self._index = index
        self._thread = ThreadPoolExecutor(1, "vectorstores-upkeep")
        self._closing = threading.Event()
        self._not_before: dict[str, float] = {}

    def look_after(self, namespace: str) -> None:
        """Have the file of a namespace written if that is due. Called after every search."""
        space = self._index.get(namespace)
        if space is None:
            return
        if len(space.matrix) >= SLOW_FROM and not coding.has_faiss():
            warn_once(
                f"{SLOW_FROM:,} chunks and more are compared one by one at each search, since FAISS is not installed:"
                ' pip install "jeeves-reflexion[faiss]" makes that several times as fast'
            )
        if self._is_due(space) and self._not_before.get(namespace, 0.0) <= time.monotonic():
            # No other search requests it until it is done.
            self._not_before[namespace] = float("inf")
            try:
                self._thread.submit(self._tend, namespace)
            except RuntimeError as error:
                # No thread can be started, or the program is ending.
                self._not_before[namespace] = time.monotonic() + _AGAIN
                _log.info("the file of %r has to wait: %s", namespace, error)

    def _tend(self, namespace: str) -> None:
        begun = time.monotonic()
        wait = _AGAIN
        try:
            place = self._place_of(namespace)
            found = snapshot.opened(place)
            due = self._database.read(lambda connection: self._begin(connection, namespace, found), ROLE)
            known = True
            if due is not None:
                with snapshot.draft(place, *due) as (path, written):
                    self._database.write(lambda connection: _put_in_place(connection, place, path, written))
                    install = partial(self._index.install, namespace=namespace, found=written)
                    known = self._database.read(install, ROLE) is not None
            if known:  # else the log has dropped the change
                wait = _REST * (time.monotonic() - begun)
        except (Abandoned, FileNotFoundError):
            pass  # the store is closing, the log has dropped the change, or another process removed the draft
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread, and nothing is lost
            _log.warning(
                "no file of %r was written, searching and opening it will take longer: %s: %s",
                namespace,
                type(error).__name__,
                error,
            )
        self._not_before[namespace] = time.monotonic() + wait

    def _begin(
        self, connection: sqlite3.Connection, namespace: str, found: Snapshot | None
    ) -> tuple[tuple[int, int], _Parts] | None:
        """Return the newest change of a new file and its parts, or None if none is due; ``found`` is the one in place.

        The parts are read while the file is written, when others may use the namespace.
        """
        space = self._index.get(namespace)
        if self._closing.is_set() and space is None:
            return None  # dropped from memory, and nobody will search it here
        space = self._index.current(connection, namespace)
        if found is not None and found.moment != (space.snapshot and space.snapshot.moment):
            # Another process has written a file meanwhile, which may suffice.
            space = self._index.install(connection, namespace, found) or space
        if not self._is_due(space):
            return None
        token = rows.token_at(connection, space.seq)
        if token is None:
            # The log no longer contains this change: the next search reads all rows, and requests a file again.
            raise Abandoned
        places = np.flatnonzero(space.matrix.alive)
        columns = {key: each.packed(places) for key, each in space.columns.items() if key in space.indexed}
        return (space.seq, token), self._parts(places, space.matrix, columns)

    def _parts(
        self, places: Places, matrix: Matrix, columns: dict[str, tuple[list[JSON], NDArray[np.int32]]]
    ) -> _Parts:
        batches = (places[low : low + _BATCH] for low in range(0, len(places), _BATCH))
        yield "vectors", (matrix.gather(batch).astype("<f4", copy=False).data for batch in batches)
        yield "rows", [matrix.rows[places].astype("<i8").data]
        wanted = partial(self._has_time_for_codes, len(places))
        if wanted():
            yield "codes", [coding.encoded(matrix.gather, places, wanted).to_bytes()]
        yield "values", [json.dumps({key: values for key, (values, _) in columns.items()}).encode()]
        yield "columns", [numbers.data for _, numbers in columns.values()]

    def _is_due(self, space: Namespace) -> bool:
        matrix, size, live = space.matrix, len(space.matrix.rows), len(space.matrix)
        if live < searching.INDEX_FROM:
            return False
        worn = space.codes is None or len(space.loose) > max(500, size // 50)
        if worn and self._has_time_for_codes(live):
            return True
        if matrix.dead > max(1000, size // 4) or size - len(matrix.first) > max(_NEW_ROWS, _NEW_SHARE * live):
            return True
        return space.snapshot is not None and not space.snapshot.is_in_place

    def _has_time_for_codes(self, size: int) -> bool:
        return coding.has_faiss() and not (self._closing.is_set() and size >= _WHILE_CLOSING)

    def close(self) -> None:
        """Write the files that are due. Blocks."""
        self._closing.set()
        self._thread.shutdown()
        for namespace in self._index.names():
            space = self._index.get(namespace)
            if space is not None and self._is_due(space):
                self._tend(namespace)


def _put_in_place(connection: sqlite3.Connection, place: Place, path: Path, written: Snapshot) -> None:
    """Put a file in its place unless it contains vectors that were deleted or replaced meanwhile.

    Runs in a write transaction, as every delete does, which removes the file that is in place.
    """
    if not searching.is_known(connection, written):
        return
    file = Matrix(place.dim, written.rows, written.vectors)
    for row, vector in rows.overtaken(connection, place.namespace, written.moment[0]):
        for at in file.find(np.array([row])):
            if vector != written.vectors[at].tobytes():
                return
    path.replace(place.path)
