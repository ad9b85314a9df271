"""The searchable side of a store on disk: derived from its rows, and kept in step by their log of changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores import _mapped, _rows, _sidecar
from vectorstores._columns import keys_of
from vectorstores._forgetting import Forgetting
from vectorstores._later import Later
from vectorstores._reading import chunks_by_row, chunks_now
from vectorstores._rows import last_change, oldest_change, token_at
from vectorstores._space import Space
from vectorstores._spaces import MEMORY, Spaces
from vectorstores._table import ChangedFileError
from vectorstores._upkeep import Needs, Upkeep
from vectorstores.base import Page, SearchHit, StoreCorruptError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vectorstores._engine import Query
    from vectorstores._mapped import Moment, Place
    from vectorstores._sqlite import Database
    from vectorstores.base import Chunk
    from vectorstores.filters import Node

# From this size on codes are quicker than a product with all vectors, and a file than reading all rows.
FAISS_FROM: Final = 5_000
# The file is worth writing again when so many rows changed, or this share of them.
_STALE_ROWS: Final = 2000
_STALE_SHARE: Final = 0.1
# Rows without codes are compared exactly: codes are made for them when they are so many, or this share.
_LOOSE_ROWS: Final = 2000
_LOOSE_SHARE: Final = 0.01
_ROLE: Final = "index"
# How often a search is made whose rows are replaced meanwhile.
_TRIES: Final = 3
# A search for more is not one for the event loop.
_FEW: Final = 20


class Indexes:
    """The namespaces that were searched, under the lock of the database's role ``index``.

    ``memory`` bounds the bytes that they take, as :class:`~vectorstores._spaces.Spaces` says.
    """

    def __init__(
        self,
        database: Database,
        place_of: Callable[[str], Place],
        dim: int,
        indexed: Sequence[str],
        memory: int = MEMORY,
    ) -> None:
        self._database = database
        self._place_of = place_of
        self._dim = dim
        self._indexed = tuple(indexed)
        self._spaces = Spaces(memory, lambda space: any(needs(space)[1:]))
        self._newest = (-1, 0)
        self._commits = 0
        """How often this process has written: an inexpensive sign that there may be something new."""
        self._known = (-1, 0)
        """How many commits there had been when the newest change was asked for on the event loop, and that change."""
        self._later = Later("vectorstores-upkeep")
        self._forgetting = Forgetting(database, place_of, self._later)
        self._upkeep = Upkeep(database, place_of, self._spaces, needs, self._later)

    def search(self, namespace: str, query: Query) -> list[SearchHit]:
        """Find in the newest state of the rows, whichever process wrote it."""

        def work(connection: sqlite3.Connection) -> tuple[list[SearchHit], bool, tuple[int, int] | None]:
            space = self._current(connection, namespace)
            state = None if space.layout is None else (space.seq, self._database.version(_ROLE))
            return self._search(connection, space, query), self._is_due(space), state

        hits: list[SearchHit] | None = None
        for tried in range(_TRIES):
            try:
                hits, due, state = self._database.read(work, _ROLE)
            except ChangedFileError:
                # Rows that another process deletes are overwritten in the file: those are gone in the newest state.
                if tried:  # its checksums tell, when it is read anew, what the rows have to be read for
                    self._database.read(lambda _: self._spaces.drop(namespace), _ROLE)
                continue
            if state is None or not self._is_overtaken(namespace, *state):
                break
        if hits is None:
            raise StoreUnavailableError(
                f"{self._place_of(namespace).vectors} keeps being changed by somebody else: try again"
            )
        if due:
            self._upkeep.look_after(namespace)
        return hits

    def _is_overtaken(self, namespace: str, seq: int, version: int) -> bool:
        """Whether rows were replaced since a change, at which the database had this version.

        Their old vectors in a mapped file are overwritten at once, also for those who search an earlier state, and the
        new ones are not in it yet.
        """

        def work(connection: sqlite3.Connection) -> bool:
            return _rows.replaced_since(connection, namespace, seq)

        return self._database.is_newer(_ROLE, version) and self._database.read(work, _ROLE)

    def search_at_once(self, namespace: str, query: Query) -> list[SearchHit] | None:
        """Search if that takes a fraction of a millisecond and waits for nothing; None if it does not."""

        def work(connection: sqlite3.Connection) -> list[SearchHit] | None:
            space = self._spaces.use(namespace)
            if self._known[0] != self._commits:
                self._known = (self._commits, last_change(connection))
            # Asked once more: until now another thread may have put another one in its place.
            if space is None or space.seq < self._known[1] or not self.is_quick(namespace, query):
                return None
            mask = None if query.where is None else self._mask(connection, space, query.where)
            try:
                found = space.table.search(query, mask)
            except ChangedFileError:
                return None
            rows = [row for row, _ in found]
            chunks, newest, store = chunks_now(connection, rows)
            # What has been found is of the state that the texts are of, or it does not count.
            if space.seq != newest or self._database.store not in (None, store):
                return None
            if self._is_due(space):
                self._upkeep.look_after(namespace)
            return self._hits(found, self._whole(rows, chunks))

        return self._database.read_at_once(work, _ROLE) if self.is_quick(namespace, query) else None

    def is_quick(self, namespace: str, query: Query) -> bool:
        """Whether a search is quicker than the way to a thread and back, if the namespace is up to date."""
        space = self._spaces.get(namespace)
        if space is None or query.k > _FEW or query.diversity:
            return False
        if not space.is_quick(filtered=query.where is not None):
            return False
        return query.where is None or keys_of(query.where) <= space.columns.keys()

    def _mask(self, connection: sqlite3.Connection, space: Space, where: Node) -> NDArray[np.bool_]:
        before = len(space.columns)
        mask = space.mask(connection, where)
        if len(space.columns) != before:
            self._spaces.weigh(space)
        return mask

    def _search(self, connection: sqlite3.Connection, space: Space, query: Query) -> list[SearchHit]:
        mask = None if query.where is None else self._mask(connection, space, query.where)
        found = space.table.search(query, mask)
        rows = [row for row, _ in found]
        return self._hits(found, self._whole(rows, chunks_by_row(connection, rows)))

    @staticmethod
    def _hits(found: Sequence[tuple[int, float]], chunks: Sequence[Chunk]) -> list[SearchHit]:
        return [SearchHit(chunk, score) for chunk, (_, score) in zip(chunks, found, strict=True)]

    def _whole(self, rows: Sequence[int], chunks: Mapping[int, Chunk]) -> list[Chunk]:
        """Return the chunks in the order of the rows, of which each must be there."""
        if len(chunks) < len(rows):
            raise StoreCorruptError(f"{self._database.path}: vectors without their texts; restore a backup")
        return [chunks[row] for row in rows]

    @staticmethod
    def _is_due(space: Space) -> bool:
        """Whether something should be done for a namespace; where nothing was, that holds until it changes."""
        if space.settled == space.seq:
            return False
        due = any(needs(space)[1:])
        if not due:
            space.settled = space.seq
        return due

    def count(self, namespace: str, where: Node | None) -> int:
        """Count the chunks that are admitted: where they were searched, by what is in memory."""

        def work(connection: sqlite3.Connection) -> int:
            space = self._current(connection, namespace)
            if where is None:
                return len(space.table)
            return int(np.count_nonzero(self._mask(connection, space, where) & space.table.alive))

        if namespace in self._spaces:
            return self._database.read(work, _ROLE)
        return self._database.read(lambda connection: _rows.count_chunks(connection, namespace, where))

    def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        """Return the admitted chunks that follow row ``after``."""

        def work(connection: sqlite3.Connection) -> Page:
            space = self._current(connection, namespace)
            assert where is not None  # noqa: S101 - see below
            admitted = self._mask(connection, space, where) & space.table.alive & (space.table.rows > after)
            rows: list[int] = space.table.rows[np.flatnonzero(admitted)[: limit + 1]].tolist()
            chunks = self._whole(rows[:limit], chunks_by_row(connection, rows[:limit]))
            return Page(tuple(chunks), str(rows[limit - 1]) if len(rows) > limit else None)

        if where is not None and namespace in self._spaces:
            return self._database.read(work, _ROLE)
        return self._database.read(
            lambda connection: _rows.scan_chunks(connection, namespace, where, after, limit)
        )

    def _current(self, connection: sqlite3.Connection, namespace: str) -> Space:
        newest = self._newest_change(connection)
        space = self._spaces.use(namespace)
        if space is not None and space.seq == newest:
            return space
        reachable = range(oldest_change(connection) - 1, newest + 1)
        try:
            if space is None or space.seq not in reachable:
                space = self._load(connection, namespace, newest)
            else:
                space.follow(connection, newest)
        except BaseException:
            # Half of the changes may be in: read it anew next time.
            self._spaces.drop(namespace)
            raise
        self._spaces.put(space)
        return space

    def _newest_change(self, connection: sqlite3.Connection) -> int:
        version = self._database.version(_ROLE)
        if self._newest[0] != version:
            self._newest = (version, last_change(connection))
        return self._newest[1]

    def _load(self, connection: sqlite3.Connection, namespace: str, newest: int) -> Space:
        count = _rows.count_chunks(connection, namespace, None)
        if count >= FAISS_FROM:
            space = self._from_files(connection, namespace, newest)
            # Another count means another history, such as a database restored without its files.
            if space is not None and len(space.table) == count:
                return space
        space = Space(namespace, self._dim, newest, self._indexed)
        space.load(connection)
        return space

    def _from_files(self, connection: sqlite3.Connection, namespace: str, newest: int) -> Space | None:
        place = self._place_of(namespace)
        mapped = _mapped.read(place)
        if mapped is None or not _known(connection, mapped.layout.moment):
            return None
        space = Space(namespace, self._dim, newest, self._indexed)
        space.take(mapped, connection)
        sidecar = _sidecar.read(place, mapped.layout)
        if sidecar is not None and _known(connection, sidecar.moment):
            space.take_sidecar(sidecar, connection)
        space.follow(connection, newest, repeated=True)
        return space

    def forget(self, gone: Mapping[str, Mapping[int, int]]) -> None:
        """Take rows that were deleted or replaced, by namespace, off the disk; after every commit."""
        self._commits += 1
        self._forgetting.gone(gone)
        for namespace in gone:
            if namespace in self._spaces:
                self._upkeep.look_after_when_idle(namespace)

    def forget_leftovers(self) -> None:
        """Take what a process that was killed left to do off the disk, now or as soon as readers let it be."""
        self._forgetting.clear()
        self._forgetting.gone({})
        self._forgetting.look_after_leftovers()

    def close(self) -> None:
        """Do what was to be done later, and let go of the memory."""
        self._later.close()
        # Files lose what was deleted first: those that are written then are whole.
        self._forgetting.finish()
        self._upkeep.finish()
        self._spaces.clear()


def _known(connection: sqlite3.Connection, moment: Moment) -> bool:
    """Whether what a file knows of is in the log: not too old, and not of another history."""
    return token_at(connection, moment.seq) == moment.token


def needs(space: Space) -> Needs:
    """Say what should be done for a namespace in the background."""
    table, codes = space.table, space.table.codes
    size, live = len(table.rows), len(table)
    if live < FAISS_FROM:
        return Needs(pack=table.dead > max(1000, live))
    rebuild = codes is None or size > 2 * codes.trained or len(table.outdated) > max(500, size // 50)
    more = codes is not None and size - codes.count > max(_LOOSE_ROWS, int(_LOOSE_SHARE * size))
    return Needs(
        large=True,
        pack=table.dead > max(1000, size // 4),
        rebuild=rebuild and not space.uncodable,
        extend=more and not rebuild and not space.uncodable,
        write=space.stale >= max(_STALE_ROWS, int(_STALE_SHARE * live)),
    )
