"""What is made for the namespaces of a store in the background: codes, files, and room where rows were removed."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vectorstores._extras import warn_once
from vectorstores.base import VectorStoreError
from vectorstores.sqlite_faiss import codes as coding
from vectorstores.sqlite_faiss import index as searching
from vectorstores.sqlite_faiss import rows, snapshot
from vectorstores.sqlite_faiss.codes import Abandoned, Codes
from vectorstores.sqlite_faiss.index import ROLE, Index
from vectorstores.sqlite_faiss.namespace import Namespace
from vectorstores.sqlite_faiss.snapshot import Moment, Place, Snapshot

if TYPE_CHECKING:
    from vectorstores.matrix import Places, View
    from vectorstores.sqlite_faiss.background import Background
    from vectorstores.sqlite_faiss.columns import Column
    from vectorstores.sqlite_faiss.database import Database
    from vectorstores.sqlite_faiss.removal import Removal

_log: Final = logging.getLogger(__name__)

# The file is worth writing again when so many rows were added, and this share of them.
_NEW_ROWS: Final = 2000
_NEW_SHARE: Final = 0.1
# Rows without codes are compared exactly: codes are made for them when they are so many, and this share; some at a
# time, since searches wait meanwhile.
_LOOSE_ROWS: Final = 2000
_LOOSE_SHARE: Final = 0.01
_STEP: Final = 512
_BATCH: Final = 4096
# Above this size, codes are not made while someone waits for the store to close (5 s for 1M vectors and more).
_WHILE_CLOSING: Final = 300_000
# A file that was removed is written again when nothing was deleted for a while, and not before so many times as long
# as the last one took have passed.
_IDLE: Final = 10.0
_REST: Final = 20.0
# After a failure.
_AGAIN: Final = 60.0
# From so many rows on, comparing them all takes milliseconds.
SLOW_FROM: Final = 20_000


class _State(NamedTuple):
    """A namespace as it was at a moment, without the rows that were removed."""

    moment: Moment
    rows: Places
    places: Places
    view: View
    columns: Mapping[str, Column]
    codes: Codes | None
    """Those that it had, if they are of these rows and of no others."""


class Upkeep:
    """Does in the background what namespaces need. A failure undoes nothing: it is logged, and tried again later."""

    def __init__(
        self,
        database: Database,
        place_of: Callable[[str], Place],
        index: Index,
        background: Background,
        removal: Removal,
    ) -> None:
        self._database = database
        self._place_of = place_of
        self._index = index
        self._background = background
        self._removal = removal
        self._not_before: dict[str, float] = {}

    def look_after(self, namespace: str) -> None:
        """Have done in the background what a namespace needs; after every search of it."""
        space = self._index.get(namespace)
        if space is None:
            return
        if len(space.matrix) >= SLOW_FROM and not coding.has_faiss():
            warn_once(
                f"{SLOW_FROM:,} chunks and more are compared one by one at each search, since FAISS is not installed:"
                ' pip install "jeeves-reflexion[faiss]" makes that several times as fast'
            )
        early = self._not_before.get(namespace, 0.0) - time.monotonic()
        if space.lost_file:
            # Its file is missing, which nobody has to wait for.
            space.lost_file = False
            wait = max(_IDLE, early)
            self._background.do((namespace, "idle"), lambda: self._tend(namespace, idle=True), delay=wait)
        if early <= 0.0 and _need(space):
            self._background.do(namespace, lambda: self._tend(namespace))

    @contextmanager
    def _kept(self, namespace: str) -> Iterator[Namespace | None]:
        """Keep a namespace in memory, if it is held, while something is done for it."""
        with self._index.guard:
            self._index.kept = namespace
            space = self._index.get(namespace)
        try:
            yield space
        finally:
            self._index.kept = None

    def _tend(self, namespace: str, *, idle: bool = False, closing: bool = False) -> None:
        with self._kept(namespace) as space:
            begun = time.monotonic()
            # Asked once more: it may have been tried in vain while this was waiting.
            early = self._not_before.get(namespace, 0.0) > begun and not (idle or closing)
            if space is None or early:
                return
            try:
                self._make(space, _need(space), idle=idle, closing=closing)
            except Abandoned:
                # The store is being closed, or others change more than can be followed.
                self._not_before[namespace] = begun + _AGAIN
            except (OSError, VectorStoreError) as error:
                # Nobody waits for this thread. Nothing is lost: the next process reads the rows instead.
                self._not_before[namespace] = begun + _AGAIN
                _log.warning(
                    "no snapshot of %r was written, opening it will take longer: %s", namespace, error
                )
            except (RuntimeError, MemoryError) as error:
                # From FAISS, which says no more. Searches stay exact.
                self._not_before[namespace] = begun + _AGAIN
                _log.warning(
                    "no codes of %r could be made, searching it will take longer: %s", namespace, error
                )
            else:
                if idle:
                    self._not_before[namespace] = time.monotonic() + _REST * (time.monotonic() - begun)

    def _make(self, space: Namespace, need: str | None, *, idle: bool, closing: bool) -> None:
        if need == "pack":
            self._database.read(lambda _: self._pack(space), ROLE)
        elif need == "extend":
            self._extend(space)
        elif need == "write" or ((idle or closing) and len(space.matrix) >= searching.INDEX_FROM):
            found = snapshot.opened(self._place_of(space.name))
            if found is not None and self._removal.holds_gone(space.name, found):
                found = None
            mine = space.snapshot and space.snapshot.moment
            if need and found is not None and found.moment != mine:
                # Another process has written one meanwhile, which may be enough.
                self._database.read(lambda connection: self._install(connection, space, found), ROLE)
                space = self._index.get(space.name) or space
                need = _need(space)
            if need == "write" or found is None:
                self._write(space, closing=closing)

    def _pack(self, space: Namespace) -> None:
        """Give up the places of rows that were removed from a small namespace."""
        packed = Namespace(space.name, space.matrix.dim, space.indexed)
        packed.seq, packed.matrix, packed.longest = space.seq, space.matrix.packed(), space.longest
        if self._index.get(space.name) is space:
            self._index.replace(packed)

    def _extend(self, space: Namespace) -> None:
        """Make codes for rows that have none."""

        def work(_: sqlite3.Connection) -> bool:
            size = len(space.matrix.rows)
            if space.codes is None or not space.is_untouched or space.codes.count >= size:
                return False
            end = min(space.codes.count + _STEP, size)
            space.codes.extend(space.matrix.gather(np.arange(space.codes.count, end)))
            self._index.weigh(space)
            return end < size

        while self._database.read(work, ROLE) and not self._background.closing:
            rows.pause()

    def _write(self, space: Namespace, *, closing: bool) -> None:
        """Write the file of a namespace, and go on with what is in it."""

        def wanted() -> bool:
            return not self._background.closing or len(space.matrix) < _WHILE_CLOSING

        state = self._database.read(lambda connection: self._state(space, connection), ROLE)
        codes = state.codes
        with snapshot.Draft(self._place_of(space.name)) as draft:
            draft.add("vectors", self._pieces(space, state))
            draft.add("rows", [state.rows.astype("<i8").data])
            if codes is not None and self._database.read(lambda _: len(space.loose), ROLE):
                # Vectors were replaced while they were read: what is in the file now is not what their codes say.
                codes = None
            if codes is None and coding.has_faiss() and (not closing or wanted()):
                codes = coding.encoded(draft.vectors(), wanted)
            if codes is not None:
                draft.add("codes", [codes.to_bytes()])
            packed = {key: column.packed() for key, column in state.columns.items()}
            draft.add("values", [json.dumps({key: values for key, (values, _) in packed.items()}).encode()])
            for key, (_, numbers) in packed.items():
                draft.add(f"column {key}", [numbers.astype("<i4").data])
            found = draft.put_in_place(state.moment, 0 if codes is None else codes.trained)
        # A process that deletes something after this removes the file that it finds; what was deleted before, here.
        current = False
        try:
            current = not self._removal.holds_gone(space.name, found)
        finally:
            if not current:
                self._place_of(space.name).path.unlink(missing_ok=True)
        self._database.read(lambda connection: self._install(connection, space, found), ROLE)

    def _state(self, space: Namespace, connection: sqlite3.Connection) -> _State:
        token = rows.token_at(connection, space.seq)
        if token is None:
            # So far behind that the log has forgotten it: the next search reads all rows, and asks for a file again.
            raise Abandoned
        matrix, codes = space.matrix, space.codes
        places = np.flatnonzero(matrix.alive)
        if matrix.dead or len(space.loose) or (codes is not None and len(places) > 2 * codes.trained):
            codes = None
        columns = {key: each.taken(places) for key, each in space.columns.items() if key in space.indexed}
        return _State(Moment(space.seq, token), matrix.rows[places], places, matrix.view(), columns, codes)

    @staticmethod
    def _pieces(space: Namespace, state: _State) -> Iterator[memoryview]:
        for low in range(0, len(state.places), _BATCH):
            if not space.is_untouched:
                # What somebody else wrote to the file must not get checksums; the next search reads the rows.
                raise Abandoned
            yield state.view.gather(state.places[low : low + _BATCH]).astype("<f4", copy=False).data
        if not space.is_untouched:
            raise Abandoned

    def _install(self, connection: sqlite3.Connection, space: Namespace, found: Snapshot) -> None:
        """Hold what is in a file, with what has changed since, in place of what is in memory."""
        if not searching.is_known(connection, found):
            raise Abandoned
        if self._index.get(space.name) is not space:
            return
        fresh = Namespace(space.name, space.matrix.dim, space.indexed)
        fresh.take(found)
        fresh.follow(connection, rows.last_change(connection))
        self._index.replace(fresh)

    def finish(self) -> None:
        """Write the files that are missing; when nothing more is begun."""
        for namespace in self._index.names():
            self._tend(namespace, closing=True)


def _need(space: Namespace) -> str | None:
    """Say what should be done for a namespace soon: ``pack``, ``extend``, ``write``."""
    matrix, codes = space.matrix, space.codes
    size, live = len(matrix.rows), len(matrix)
    if live < searching.INDEX_FROM:
        return "pack" if matrix.dead > max(1000, live) else None
    if coding.has_faiss() and (
        codes is None or size > 2 * codes.trained or len(space.loose) > max(500, size // 50)
    ):
        return "write"
    if matrix.dead > max(1000, size // 4) or size - len(matrix.first) > max(_NEW_ROWS, _NEW_SHARE * live):
        return "write"
    if codes is not None and size - codes.count > max(_LOOSE_ROWS, _LOOSE_SHARE * size):
        return "extend"
    return None
