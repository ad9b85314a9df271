"""What is done for the namespaces of a store in the background: codes, files, giving up the places of removed rows.

Everything here takes note of what it works on under the lock of the role ``index``, works without holding it, and
puts the result in its place under it again; what changed meanwhile is taken in from the log. No search waits for more.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vectorstores import _codes, _mapped, _rows, _sidecar
from vectorstores._codes import Abandoned
from vectorstores._mapped import Moment
from vectorstores._sidecar import Sidecar
from vectorstores._space import CODES, Space
from vectorstores._vectors import Parts
from vectorstores.base import VectorStoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._codes import Codes
    from vectorstores._later import Later
    from vectorstores._mapped import Place
    from vectorstores._spaces import Spaces
    from vectorstores._sqlite import Database

_log: Final = logging.getLogger(__name__)

_ROLE: Final = "index"
# Above this size, codes are not made while someone waits for the store to close (5 s for 1M vectors and more).
_WHILE_CLOSING: Final = 300_000
_BATCH: Final = 10_000
_IDLE: Final = 10.0


class Needs(NamedTuple):
    """What should be done for a namespace; ``large`` ones have codes and files."""

    large: bool = False
    pack: bool = False
    rebuild: bool = False
    extend: bool = False
    write: bool = False


class Upkeep:
    """What has to be done for which namespace, in the thread of :class:`~vectorstores._later.Later`."""

    def __init__(
        self,
        database: Database,
        place_of: Callable[[str], Place],
        spaces: Spaces,
        needs: Callable[[Space], Needs],
        later: Later,
    ) -> None:
        self._database = database
        self._place_of = place_of
        self._spaces = spaces
        self._needs = needs
        self._later = later

    def look_after(self, namespace: str) -> None:
        """Do soon what the namespace needs."""
        self._later.do(namespace, lambda: self._reporting(namespace, self._tend))

    def look_after_when_idle(self, namespace: str) -> None:
        """Write the files that are missing when nothing was deleted for a while."""
        work = self._finish_patiently
        self._later.do(
            (namespace, "idle"), lambda: self._reporting(namespace, work), delay=_IDLE, postpone=True
        )

    def _reporting(self, namespace: str, work: Callable[[Space], None]) -> None:
        with self._spaces.worked_on(namespace) as space:
            if space is not None:
                self._try(namespace, space, work)

    def _try(self, namespace: str, space: Space, work: Callable[[Space], None]) -> None:
        try:
            work(space)
        except Abandoned:
            pass  # the store is being closed, or too far behind its log; the next search or opening asks again
        except (OSError, VectorStoreError) as error:
            # Nobody waits for this thread. Nothing is lost: the next process reads the rows instead.
            _log.warning("no snapshot of %r was written, opening it will take longer: %s", namespace, error)
        except (RuntimeError, MemoryError) as error:
            # From FAISS, which says no more. Searches stay exact.
            for each in (space, self._spaces.get(namespace) or space):
                each.uncodable = True
            _log.warning("no codes of %r could be made, searching it will take longer: %s", namespace, error)

    def _tend(self, space: Space) -> None:
        needs = self._needs(space)
        if needs.pack:
            space = self._pack(space)
            needs = self._needs(space)
        if needs.rebuild or needs.extend:
            self._encode(space, anew=needs.rebuild)
        if needs.write:
            self._write(space)
        elif needs.rebuild and space.layout is not None and CODES not in space.kept:
            self._write_sidecar(space)

    def _wanted(self, size: int) -> Callable[[], bool]:
        return lambda: not self._later.closing or size < _WHILE_CLOSING

    def _encode(self, space: Space, *, anew: bool, limit: int | None = None) -> None:
        def note(_: sqlite3.Connection) -> tuple[Parts, Codes | None]:
            space.moved = []
            codes = space.table.codes
            return space.table.vectors.parts(limit), None if anew else codes

        def install(_: sqlite3.Connection) -> None:
            table = space.table
            moved = np.concatenate([np.empty(0, dtype=np.int64), *(space.moved or [])])
            before = table.outdated if like is not None else moved[:0]
            table.outdated = np.union1d(before, moved[moved < codes.count])
            table.codes = codes
            space.tainted = len(moved) > 0 or (space.tainted and like is not None)
            space.settled = -1
            self._spaces.weigh(space)

        vectors, like = self._database.read(note, _ROLE)
        try:
            codes = _codes.encoded(vectors, self._wanted(len(vectors)), like=like)
            self._database.read(install, _ROLE)
        finally:
            space.moved = None

    def _pack(self, space: Space) -> Space:
        """Move a namespace to a table without the places of removed rows."""
        packed = Space(space.namespace, space.table.dim, space.seq, tuple(space.indexed))

        def note(_: sqlite3.Connection) -> tuple[Parts, NDArray[np.int64], NDArray[np.int64]]:
            places = np.flatnonzero(space.table.alive)
            packed.seq, packed.longest, packed.uncodable = space.seq, space.longest, space.uncodable
            packed.columns = {key: column.taken(places) for key, column in space.columns.items()}
            return space.table.vectors.parts(), space.table.rows[places], places

        def install(connection: sqlite3.Connection) -> bool:
            if self._spaces.get(space.namespace) is not space:
                return False
            if packed.seq < _rows.oldest_change(connection) - 1:
                return False
            packed.follow(connection, _rows.last_change(connection))
            self._spaces.put(packed)
            return True

        vectors, rows, places = self._database.read(note, _ROLE)
        for low in range(0, len(places), _BATCH):
            some = places[low : low + _BATCH]
            within = vectors.between(int(some[0]), int(some[-1]) + 1)
            packed.table.put(rows[low : low + _BATCH], within[some - some[0]])
        packed.stale = len(rows)
        if self._needs(packed).rebuild:
            packed.table.codes = _codes.encoded(packed.table.vectors.parts(), self._wanted(len(rows)))
        return packed if self._database.read(install, _ROLE) else space

    def _write(self, space: Space) -> None:
        def note(
            connection: sqlite3.Connection,
        ) -> tuple[Moment, Parts, NDArray[np.int64], NDArray[np.bool_]]:
            table = space.table
            moment = self._moment(space, connection)
            space.stale = 0
            return moment, table.vectors.parts(), table.rows, table.alive.copy()

        moment, vectors, rows, alive = self._database.read(note, _ROLE)
        place = self._place_of(space.namespace)
        space.layout = _mapped.write(
            place, moment, vectors, rows, alive, lambda: self._overtaken(space.namespace, moment.seq)
        )
        self._write_sidecar(space)

    @staticmethod
    def _moment(space: Space, connection: sqlite3.Connection) -> Moment:
        token = _rows.token_at(connection, space.seq)
        if token is None:
            # So far behind that the log has forgotten it: the next search reads all rows, and asks for a file again.
            raise Abandoned
        return Moment(space.seq, token)

    def _overtaken(self, namespace: str, seq: int) -> list[int]:
        return self._database.read(lambda connection: _rows.overtaken(connection, namespace, seq))

    def _write_sidecar(self, space: Space) -> None:
        layout = space.layout
        if layout is None:
            return

        def note(connection: sqlite3.Connection) -> Sidecar:
            codes = space.table.codes
            fit = codes is not None and codes.count <= layout.count and not space.tainted
            places = np.arange(layout.count)
            columns = {key: each.taken(places) for key, each in space.columns.items() if key in space.indexed}
            return Sidecar(self._moment(space, connection), codes if fit else None, columns)

        sidecar = self._database.read(note, _ROLE)
        written = _sidecar.write(
            self._place_of(space.namespace),
            layout,
            sidecar,
            lambda: not self._overtaken(space.namespace, sidecar.moment.seq),
        )
        if written:
            codes = () if sidecar.codes is None else (CODES,)
            space.kept = frozenset(codes) | sidecar.columns.keys()

    def finish(self) -> None:
        """Write the files that are missing; when nothing more is begun."""
        for namespace in self._spaces.names():
            self._reporting(namespace, self._finish)

    def _finish_patiently(self, space: Space) -> None:
        self._finish(space, patient=True)

    def _finish(self, space: Space, *, patient: bool = False) -> None:
        needs = self._needs(space)
        if not needs.large:
            return
        self._database.read(lambda connection: self._catch_up(space, connection), _ROLE)
        place = self._place_of(space.namespace)
        quick = patient or len(space.table.rows) < _WHILE_CLOSING
        whole = needs.write or space.layout is None or not place.vectors.exists()
        if not whole and place.codes.exists() and space.kept >= space.holds():
            return
        known = len(space.table.rows) if whole or space.layout is None else space.layout.count
        codes = space.table.codes
        if quick and (codes is None or space.tainted or codes.count > known):
            self._encode(space, anew=True, limit=known)
        elif space.tainted:
            _log.info("%r opens without codes, which are made anew in the background then", space.namespace)
        if whole:
            self._write(space)
        else:
            self._write_sidecar(space)

    @staticmethod
    def _catch_up(space: Space, connection: sqlite3.Connection) -> None:
        if space.seq >= _rows.oldest_change(connection) - 1:
            space.follow(connection, _rows.last_change(connection))
