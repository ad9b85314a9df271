"""The searchable side of a store on disk: derived from its rows, and kept in step by their log of changes."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from vectorstores.base import SearchHit
from vectorstores.sqlite_faiss import rows, snapshot
from vectorstores.sqlite_faiss.columns import keys_of
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
# A search for more is not one for the event loop.
_FEW: Final = 20


class Index:
    """The namespaces that were searched, in the order of their last use, within about ``memory`` bytes.

    They change under the lock of the database's role :data:`ROLE`. Those used least recently are let go of; the next
    search reads them anew. The one in use stays, whatever it takes, and so does one that is :attr:`kept`.
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
        self._weights: dict[str, int] = {}
        self.held = 0
        """About how many bytes they take."""
        self.kept: str | None = None
        """The namespace that is worked on in the background."""
        self.guard = threading.Lock()
        """For changing what is :attr:`kept`."""

    def names(self) -> list[str]:
        """Return the names of the namespaces that are held, the one used least recently first."""
        return list(self._spaces)

    def get(self, namespace: str) -> Namespace | None:
        """Return a namespace that is held, without using it."""
        return self._spaces.get(namespace)

    def search(self, namespace: str, query: Query) -> list[SearchHit]:
        """Find in the newest state of the rows, whichever process wrote it."""

        def work(connection: sqlite3.Connection) -> list[SearchHit]:
            while True:
                space = self._current(connection, namespace)
                hits = self._search(connection, space, query)
                if space.is_untouched:
                    return hits

        return self._database.read(work, ROLE)

    def search_at_once(self, namespace: str, query: Query) -> list[SearchHit] | None:
        """Search if that takes a fraction of a millisecond and waits for nothing; None if it does not."""

        def work(connection: sqlite3.Connection) -> list[SearchHit] | None:
            space = self._spaces.get(namespace)
            # Asked once more: until now another thread may have put another one in its place.
            if space is None or not _is_quick(space, query) or space.seq != rows.last_change(connection):
                return None
            if not space.is_untouched:
                return None
            self._spaces.move_to_end(namespace)
            hits = self._search(connection, space, query)
            return hits if space.is_untouched else None

        space = self._spaces.get(namespace)
        if space is None or not _is_quick(space, query):
            return None
        return self._database.read_at_once(work, ROLE)

    def is_quick(self, namespace: str, query: Query) -> bool:
        """Whether a search is quicker than the way to a thread and back, if the namespace is up to date."""
        space = self._spaces.get(namespace)
        return space is not None and _is_quick(space, query)

    def _search(self, connection: sqlite3.Connection, space: Namespace, query: Query) -> list[SearchHit]:
        mask = None if query.where is None else self._mask(connection, space, query.where)
        found = space.search(query, mask)
        chunks = rows.chunks_by_row(connection, [row for row, _ in found])
        return [SearchHit(chunk, score) for chunk, (_, score) in zip(chunks, found, strict=True)]

    def _mask(self, connection: sqlite3.Connection, space: Namespace, where: Node) -> Mask:
        before = len(space.columns)
        mask = space.mask(connection, where)
        if len(space.columns) != before:
            self.weigh(space)
        return mask

    def _current(self, connection: sqlite3.Connection, namespace: str) -> Namespace:
        newest = rows.last_change(connection)
        space = self._spaces.get(namespace)
        if space is not None and not space.is_untouched:
            # Somebody else wrote to the file: where it has not its checksums any more, the rows are read.
            space = None
        if space is not None and space.seq == newest:
            self._spaces.move_to_end(namespace)
            return space
        try:
            if space is None or not rows.oldest_change(connection) - 1 <= space.seq <= newest:
                space = self._loaded(connection, namespace, newest)
            else:
                space.follow(connection, newest)
        except BaseException:
            # Half of the changes may be in: read it anew next time.
            self._drop(namespace)
            raise
        self.put(space)
        return space

    def _loaded(self, connection: sqlite3.Connection, namespace: str, newest: int) -> Namespace:
        count = rows.count_chunks(connection, namespace, None)
        place = self._place_of(namespace)
        found = snapshot.opened(place) if count >= INDEX_FROM else None
        if found is not None and is_known(connection, found):
            space = Namespace(namespace, place.dim, self._indexed)
            space.take(found)
            space.follow(connection, newest)
            # Another count means another history, such as a database restored without its files.
            if len(space.matrix) == count:
                return space
        space = Namespace(namespace, place.dim, self._indexed)
        space.load(connection, newest)
        return space

    def put(self, space: Namespace) -> None:
        """Hold a namespace, which is new or was changed, as the one used last."""
        self._spaces[space.name] = space
        self._spaces.move_to_end(space.name)
        self.weigh(space)

    def replace(self, space: Namespace) -> None:
        """Hold a namespace in place of what is held under its name, which was not used thereby."""
        self._spaces[space.name] = space
        self.weigh(space)

    def weigh(self, space: Namespace) -> None:
        """Take note of what a namespace takes now, and let go of others if that is too much."""
        if self._spaces.get(space.name) is not space:
            return  # let go of meanwhile
        weight = space.nbytes
        self.held += weight - self._weights.get(space.name, 0)
        self._weights[space.name] = weight
        if self.held <= self._memory:
            return
        with self.guard:
            last_used = next(reversed(self._spaces))
            for name in [each for each in self._spaces if each not in (last_used, self.kept)]:
                if self.held <= self._memory:
                    break
                self._drop(name)

    def _drop(self, namespace: str) -> None:
        self._spaces.pop(namespace, None)
        self.held -= self._weights.pop(namespace, 0)

    def clear(self) -> None:
        """Let go of all."""
        self._spaces.clear()
        self._weights.clear()


def is_known(connection: sqlite3.Connection, found: Snapshot) -> bool:
    """Whether what a file knows of is in the log: not too old, and not of another history."""
    return rows.token_at(connection, found.moment.seq) == found.moment.token


def _is_quick(space: Namespace, query: Query) -> bool:
    if query.k > _FEW or not space.is_quick(filtered=query.where is not None):
        return False
    return query.where is None or keys_of(query.where) <= space.columns.keys()
