"""The searchable side of a store on disk: derived from its rows, and kept in step by their log of changes."""

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
    from vectorstores.sqlite_faiss.database import Database
    from vectorstores.sqlite_faiss.snapshot import Place, Snapshot

MEMORY: Final = 512 * 2**20
"""How many bytes namespaces may take when nothing else is said."""
INDEX_FROM: Final = 5_000
"""From so many rows on, a namespace has codes and a file; fewer are compared, and read, as quickly without."""
ROLE: Final = "search"
# Places of removed rows that are borne in a namespace that needs no file.
_DEAD: Final = 1000


class Index:
    """The namespaces that were searched, in the order of their last use, within about ``memory`` bytes.

    They change under the lock of the database's role :data:`ROLE`. Those used least recently are let go of; the next
    search reads them anew. The one in use stays, whatever it takes.
    """

    def __init__(
        self,
        database: Database,
        place_of: Callable[[str], Place],
        indexed: Sequence[str],
        memory: int,
    ) -> None:
        self._database = database
        self._place_of = place_of
        self._indexed = tuple(indexed)
        self._memory = memory
        self._spaces: OrderedDict[str, Namespace] = OrderedDict()
        self.held = 0
        """About how many bytes they take."""

    def names(self) -> list[str]:
        """Return the namespaces that are held, the one used last at the end."""
        return list(self._spaces)

    def get(self, namespace: str) -> Namespace | None:
        """Return a namespace that is held, without using it."""
        return self._spaces.get(namespace)

    def search(self, namespace: str, query: Query) -> list[SearchHit]:
        """Find in the newest state of the rows, whichever process wrote it."""

        def work(connection: sqlite3.Connection) -> list[SearchHit]:
            space = self.current(connection, namespace)
            mask = None if query.where is None else self._mask(connection, space, query.where)
            found = space.search(query, mask)
            chunks = rows.chunks_by_row(connection, [row for row, _ in found])
            return [SearchHit(chunk, score) for chunk, (_, score) in zip(chunks, found, strict=True)]

        return self._database.read(work, ROLE)

    def count(self, namespace: str, where: Node) -> int:
        """Count the chunks that a filter admits: its columns are quicker than the rows, and a search needs them too."""

        def work(connection: sqlite3.Connection) -> int:
            space = self.current(connection, namespace)
            return int((self._mask(connection, space, where) & space.matrix.alive).sum())

        return self._database.read(work, ROLE)

    def _mask(self, connection: sqlite3.Connection, space: Namespace, where: Node) -> Mask:
        columns = len(space.columns)
        mask = space.mask(connection, where)
        if len(space.columns) != columns:
            self._hold(space)
        return mask

    def current(self, connection: sqlite3.Connection, namespace: str) -> Namespace:
        """Return a namespace in the newest state, as the one used last."""
        newest = rows.last_change(connection)
        space = self._spaces.get(namespace)
        if space is not None and space.seq == newest:
            self._spaces.move_to_end(namespace)
            return space
        try:
            if space is None or not rows.oldest_change(connection) - 1 <= space.seq <= newest:
                space = self._loaded(connection, namespace, newest)
            else:
                space.follow(connection, newest)
                live = len(space.matrix)
                if live < INDEX_FROM and space.matrix.dead > max(_DEAD, live):
                    space = self._loaded(connection, namespace, newest)
        except BaseException:
            # Half of the changes may be in: read it anew next time.
            self._drop(namespace)
            raise
        self._hold(space)
        return space

    def _loaded(self, connection: sqlite3.Connection, namespace: str, newest: int) -> Namespace:
        count = rows.count_chunks(connection, namespace)
        found = snapshot.opened(self._place_of(namespace)) if count >= INDEX_FROM else None
        if found is not None and is_known(connection, found):
            space = self._taken(connection, namespace, found)
            # Another count means another history, such as a database restored without its files.
            if len(space.matrix) == count:
                return space
        space = self._empty(namespace)
        space.load(connection, newest, count)
        return space

    def install(self, connection: sqlite3.Connection, namespace: str, found: Snapshot) -> Namespace:
        """Hold what is in a file, with what has changed since, in place of what is in memory."""
        space = self._taken(connection, namespace, found)
        self._hold(space)
        return space

    def _taken(self, connection: sqlite3.Connection, namespace: str, found: Snapshot) -> Namespace:
        space = self._empty(namespace)
        space.take(found)
        space.follow(connection, rows.last_change(connection))
        return space

    def _empty(self, namespace: str) -> Namespace:
        return Namespace(namespace, self._place_of(namespace).dim, self._indexed)

    def _hold(self, space: Namespace) -> None:
        """Hold a namespace that is new or was changed as the one used last; let go of others if that is too much."""
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
        """Let go of all."""
        self._spaces.clear()


def is_known(connection: sqlite3.Connection, found: Snapshot) -> bool:
    """Whether what a file knows of is in the log: not too old, and not of another history."""
    seq, token = found.moment
    return rows.token_at(connection, seq) == token
