"""What is done in the background: files of large namespaces are written, and the write-ahead log is cleared."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vectorstores._extras import warn_once
from vectorstores.base import VectorStoreError
from vectorstores.matrix import Matrix
from vectorstores.sqlite_faiss import codes as coding
from vectorstores.sqlite_faiss import index as searching
from vectorstores.sqlite_faiss import rows, snapshot
from vectorstores.sqlite_faiss.codes import Abandoned
from vectorstores.sqlite_faiss.columns import packed
from vectorstores.sqlite_faiss.index import ROLE, Index
from vectorstores.sqlite_faiss.snapshot import Draft, Moment, Place, Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import JSON
    from vectorstores.filters import Missing
    from vectorstores.matrix import Places, View
    from vectorstores.sqlite_faiss.database import Database
    from vectorstores.sqlite_faiss.namespace import Namespace

_log: Final = logging.getLogger(__name__)

# A file is worth writing again when so many rows were added, and this share of them.
_NEW_ROWS: Final = 2000
_NEW_SHARE: Final = 0.1
_BATCH: Final = 4096
# Above this size, codes are not made while someone waits for the store to close (5 s for 1M vectors and more).
_WHILE_CLOSING: Final = 300_000
# A file that was removed is written again so many seconds later, and none before so many times as long as the last one
# took have passed.
_IDLE: Final = 10.0
_REST: Final = 20.0
# After a failure.
_AGAIN: Final = 60.0
# Deletes in a row share a clearing of the log, which takes several flushes to disk; the longest wait for a busy one.
_SCRUB: Final = 0.1
_SCRUB_LATEST: Final = 5.0
# From so many rows on, comparing them all takes milliseconds.
SLOW_FROM: Final = 20_000


class _State(NamedTuple):
    """A namespace as it was at a moment, without the rows that were removed."""

    moment: Moment
    rows: Places
    places: Places
    view: View
    columns: dict[str, tuple[list[JSON | Missing], NDArray[np.int32]]]


class Upkeep:
    """Does in the background what a store needs. A failure undoes nothing: it is logged, and tried again later."""

    def __init__(self, database: Database, place_of: Callable[[str], Place], index: Index) -> None:
        self._database = database
        self._place_of = place_of
        self._index = index
        self._files = ThreadPoolExecutor(1, "vectorstores-upkeep")
        self._scrubs = ThreadPoolExecutor(1, "vectorstores-scrub")
        self._closing = threading.Event()
        self._unclear = False
        self._failing = False
        self._tended: set[str] = set()
        self._not_before: dict[str, float] = {}

    def look_after(self, namespace: str) -> None:
        """Have the file of a namespace written if that is due; after every search of it."""
        space = self._index.get(namespace)
        if space is None or namespace in self._tended:
            return
        if len(space.matrix) >= SLOW_FROM and not coding.has_faiss():
            warn_once(
                f"{SLOW_FROM:,} chunks and more are compared one by one at each search, since FAISS is not installed:"
                ' pip install "jeeves-reflexion[faiss]" makes that several times as fast'
            )
        if self._is_due(space, _IDLE) and self._not_before.get(namespace, 0.0) <= time.monotonic():
            self._tended.add(namespace)
            self._start(self._files, self._tend, namespace)

    def scrub_soon(self) -> None:
        """Take what is being deleted out of the write-ahead log in a moment, once that is committed."""
        if not self._unclear:
            self._unclear = True
            self._start(self._scrubs, self._scrub, _SCRUB)

    def _start(self, threads: ThreadPoolExecutor, work: Callable[..., None], argument: object) -> None:
        try:
            threads.submit(work, argument).add_done_callback(_tell)
        except RuntimeError as error:
            # No thread to be had, or the program is ending.
            _log.info("work in the background has to wait: %s", error)

    def _scrub(self, wait: float) -> None:
        self._closing.wait(wait)
        self._unclear = False  # before: what is deleted meanwhile sets it again
        try:
            done = self._database.scrub()
        except VectorStoreError as error:
            # Once, not each time while a disk is full.
            level = logging.DEBUG if self._failing else logging.WARNING
            _log.log(level, "what was deleted stays in the write-ahead log for now: %s", error)
            self._failing, done = True, False
        else:
            self._failing = self._failing and not done
        if not done:
            self._unclear = True
            if not self._closing.is_set():
                self._start(self._scrubs, self._scrub, min(2 * wait, _SCRUB_LATEST))

    def _tend(self, namespace: str) -> None:
        begun = time.monotonic()
        wait = _AGAIN
        try:
            self._make(namespace)
            wait = _REST * (time.monotonic() - begun)
        except Abandoned:
            pass  # the store is being closed, or others change more than can be followed
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread, and nothing is lost
            _log.warning(
                "no file of %r was written, searching and opening it will take longer: %s: %s",
                namespace,
                type(error).__name__,
                error,
            )
        self._not_before[namespace] = time.monotonic() + wait
        # Only now: a search meanwhile would have it done once more.
        self._tended.discard(namespace)

    def _make(self, namespace: str) -> None:
        """Write the file of a namespace, and go on with what is in it."""
        found = snapshot.opened(self._place_of(namespace))

        def begin(connection: sqlite3.Connection) -> tuple[Namespace, _State] | None:
            if self._closing.is_set() and self._index.get(namespace) is None:
                return None  # let go of, and nobody is left who would read it
            space = self._index.current(connection, namespace)
            mine = space.snapshot and space.snapshot.moment
            if found is not None and found.moment != mine and searching.is_known(connection, found):
                # Another process has written one meanwhile, which may be enough.
                space = self._index.install(connection, space, found)
            return (space, _state(connection, space)) if self._is_due(space) else None

        begun = self._database.read(begin, ROLE)
        if begun is None:
            return
        space, state = begun
        with Draft(self._place_of(namespace)) as draft:
            written = self._write(draft, space, state)
            self._database.write(lambda connection: self._put_in_place(connection, namespace, draft, written))
            self._database.read(lambda connection: self._install(connection, space, written), ROLE)

    def _write(self, draft: Draft, space: Namespace, state: _State) -> Snapshot:
        def wanted() -> bool:
            return self._has_time_for_codes(len(state.places))

        draft.add("vectors", _pieces(space, state))
        draft.add("rows", [state.rows.astype("<i8").data])
        if wanted():
            draft.add("codes", [coding.encoded(draft.vectors(), wanted).to_bytes()])
        columns = {key: packed(*column) for key, column in state.columns.items()}
        draft.add("values", [json.dumps({key: values for key, (values, _) in columns.items()}).encode()])
        draft.add("columns", [numbers.data for _, numbers in columns.values()])
        return draft.finish(state.moment)

    @staticmethod
    def _put_in_place(
        connection: sqlite3.Connection, namespace: str, draft: Draft, written: Snapshot
    ) -> None:
        """Put a file in its place unless it holds what was deleted or replaced meanwhile.

        Inside a write transaction: who deletes removes, in one of theirs, the file that is there.
        """
        if not searching.is_known(connection, written):
            return
        changed = np.array(rows.overtaken(connection, namespace, written.moment.seq), dtype=np.int64)
        file = Matrix(written.vectors.shape[1], written.rows, written.vectors)
        for place in file.find(changed).tolist():
            now = rows.vector_at(connection, int(written.rows[place]))
            if now != written.vectors[place].tobytes():
                return
        draft.put_in_place()

    def _install(self, connection: sqlite3.Connection, space: Namespace, written: Snapshot) -> None:
        if not searching.is_known(connection, written):
            raise Abandoned
        self._index.install(connection, space, written)

    def _is_due(self, space: Namespace, patience: float = 0.0) -> bool:
        """Whether a file should be written; one that was removed, when ``patience`` seconds have passed since."""
        matrix, size, live = space.matrix, len(space.matrix.rows), len(space.matrix)
        if live < searching.INDEX_FROM:
            return False
        worn = space.codes is None or len(space.loose) > max(500, size // 50)
        if worn and self._has_time_for_codes(live):
            return True
        if matrix.dead > max(1000, size // 4) or size - len(matrix.first) > max(_NEW_ROWS, _NEW_SHARE * live):
            return True
        if space.snapshot is None or space.snapshot.is_in_place:
            return False
        if space.lost_since is None:
            space.lost_since = time.monotonic()
        return time.monotonic() - space.lost_since >= patience

    def _has_time_for_codes(self, size: int) -> bool:
        return coding.has_faiss() and not (self._closing.is_set() and size >= _WHILE_CLOSING)

    def close(self) -> None:
        """Do what is left: write the files that are missing, clear the log. Blocks."""
        self._closing.set()
        self._files.shutdown()
        for namespace in self._index.names():
            space = self._index.get(namespace)
            if space is not None and self._is_due(space):
                self._tend(namespace)
        self._scrubs.shutdown()
        if self._unclear:
            self._scrub(0.0)


def _tell(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        _log.error("work in the background failed", exc_info=error)


def _state(connection: sqlite3.Connection, space: Namespace) -> _State:
    token = rows.token_at(connection, space.seq)
    if token is None:
        # So far behind that the log has forgotten it: the next search reads all rows, and asks for a file again.
        raise Abandoned
    matrix = space.matrix
    places = np.flatnonzero(matrix.alive)
    columns = {key: each.at(places) for key, each in space.columns.items() if key in space.indexed}
    return _State(Moment(space.seq, token), matrix.rows[places], places, matrix.view(), columns)


def _pieces(space: Namespace, state: _State) -> Iterator[memoryview]:
    for low in range(0, len(state.places), _BATCH):
        if not space.is_untouched:
            # What somebody else wrote to the file must not get checksums; the next search reads the rows.
            raise Abandoned
        yield state.view.gather(state.places[low : low + _BATCH]).astype("<f4", copy=False).data
    if not space.is_untouched:
        raise Abandoned
