"""The search index of a store on disk: derived from its rows, and updated from their log of changes."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from vectorstores.base import SearchHit
from vectorstores.sqlite_faiss import rows, snapshot
from vectorstores.sqlite_faiss.namespace import Namespace

if TYPE_CHECKING:
    from vectorstores._engine import Query
    from vectorstores.filters import Node
    from vectorstores.matrix import Mask
    from vectorstores.sqlite_faiss.snapshot import Place, Snapshot

MEMORY: Final = 512 * 2**20
"""The default limit for the memory of all namespaces, in bytes."""
INDEX_FROM: Final = 5_000
"""A namespace has codes and a file from so many rows on; smaller ones are searched and read as quickly without."""
ROLE: Final = "search"
# Removed rows that a namespace without a file may keep before it is read anew.
_DEAD: Final = 1000


class Index:
    """The namespaces searched last, in about ``memory`` bytes.

    Every ``connection`` is that of the database's role :data:`ROLE`, under whose lock they change. The least recently
    used are dropped and read again by their next search. The one in use stays, even beyond the limit.
    """

    def __init__(self, place_of: Callable[[str], Place], indexed: Sequence[str], memory: int) -> None:
        self._place_of = place_of
        self._indexed = tuple(indexed)
        self._memory = memory
        self._spaces: OrderedDict[str, Namespace] = OrderedDict()
        self.held = 0
        """About how many bytes the namespaces take."""

    def names(self) -> list[str]:
        """Return the names of the namespaces in memory, the one used last at the end."""
        return list(self._spaces)

    def get(self, namespace: str) -> Namespace | None:
        """Return a namespace if it is in memory, without counting this as a use."""
        return self._spaces.get(namespace)

    def search(self, connection: sqlite3.Connection, namespace: str, query: Query) -> list[SearchHit]:
        """Search the newest state of the rows, whichever process wrote it."""
        space = self.current(connection, namespace)
        mask = None if query.where is None else self._mask(connection, space, query.where)
        found = space.search(query, mask)
        chunks = rows.chunks_by_row(connection, [row for row, _ in found])
        return [SearchHit(chunk, score) for chunk, (_, score) in zip(chunks, found, strict=True)]

    def count(self, connection: sqlite3.Connection, namespace: str, where: Node) -> int:
        """Count the chunks that a filter admits, by columns: these are quicker than rows, and searches use them too."""
        space = self.current(connection, namespace)
        return int((self._mask(connection, space, where) & space.matrix.alive).sum())

    def _mask(self, connection: sqlite3.Connection, space: Namespace, where: Node) -> Mask:
        columns = len(space.columns)
        mask = space.mask(connection, where)
        if len(space.columns) != columns:
            self._hold(space)
        return mask

    def current(self, connection: sqlite3.Connection, namespace: str) -> Namespace:
        """Return a namespace in its newest state, and count this as a use."""
        newest = rows.last_change(connection)
        space = self._spaces.get(namespace)
        if space is not None and space.seq == newest:
            self._spaces.move_to_end(namespace)
            return space
        try:
            if space is not None:
                (oldest,) = connection.execute("SELECT min(seq) FROM changes").fetchone()
                if (oldest or 1) - 1 <= space.seq <= newest:
                    space.follow(connection, newest)
                    live = len(space.matrix)
                    worn = live < INDEX_FROM and space.matrix.dead > max(_DEAD, live)
                    space = None if worn else space
                else:
                    space = None
            if space is None:
                space = self._read(connection, namespace, newest)
        except BaseException:
            # Some of the changes may have been applied: read it anew next time.
            self._drop(namespace)
            raise
        self._hold(space)
        return space

    def _read(self, connection: sqlite3.Connection, namespace: str, newest: int) -> Namespace:
        """Return a namespace from its file and the changes since, or from its rows."""
        count = rows.count_chunks(connection, namespace)
        place = self._place_of(namespace)
        found = snapshot.opened(place) if count >= INDEX_FROM else None
        space = None if found is None else self.install(connection, namespace, found)
        # Another count means another history, such as that of a database restored without its files.
        if space is None or len(space.matrix) != count:
            space = Namespace(namespace, place.dim, self._indexed)
            space.load(connection, newest, count)
        return space

    def install(self, connection: sqlite3.Connection, namespace: str, found: Snapshot) -> Namespace | None:
        """Replace a namespace in memory by the contents of a file and the changes since; None if it is not known."""
        if not is_known(connection, found):
            return None
        space = Namespace(namespace, self._place_of(namespace).dim, self._indexed)
        space.take(found)
        space.follow(connection, rows.last_change(connection))
        self._hold(space)
        return space

    def _hold(self, space: Namespace) -> None:
        """Keep a new or changed namespace as the one used last; drop others if memory exceeds the limit."""
        self._drop(space.name)
        space.weight = space.nbytes
        self.held += space.weight
        self._spaces[space.name] = space
        while self.held > self._memory and len(self._spaces) > 1:
            self._drop(next(iter(self._spaces)))

    def _drop(self, namespace: str) -> None:
        space = self._spaces.pop(namespace, None)
        if space is not None:
            self.held -= space.weight

    def clear(self) -> None:
        """Drop all namespaces."""
        self._spaces.clear()


def is_known(connection: sqlite3.Connection, found: Snapshot) -> bool:
    """Whether the log contains the newest change of a file, so that it is not too old and of the same history."""
    seq, token = found.moment
    return rows.token_at(connection, seq) == token
