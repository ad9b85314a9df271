"""One namespace in memory: its vectors and filtered metadata, kept in step with the rows by their log of changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores.filters import MISSING
from vectorstores.matrix import SLACK, Matrix
from vectorstores.sqlite_faiss.codes import Codes, restored
from vectorstores.sqlite_faiss.columns import Column, evaluate
from vectorstores.sqlite_faiss.rows import DELETED, PUT, metadata_of, pause, vectors_of

if TYPE_CHECKING:
    from vectorstores._engine import Query
    from vectorstores.base import FloatArray
    from vectorstores.filters import Node
    from vectorstores.matrix import Mask, Places
    from vectorstores.sqlite_faiss.snapshot import Snapshot

# Rows whose vectors are taken in at a time: 1.5 MB of them.
_BATCH: Final = 1024
_VECTORS: Final = "SELECT row, vector, sum FROM vectors WHERE row"
_CHANGED: Final = "SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind"
# From this share of the rows in its range on, a namespace is read with those of others in between.
_DENSE: Final = 0.5
# Columns that are kept of keys that were not declared: those asked for last.
_UNDECLARED: Final = 32
# What an empty one takes, and what one whose vectors are mapped is counted with: of 1,024 open files, half a gigabyte
# of memory leaves more than 700 for others.
_OBJECTS: Final = 6 * 1024
_OPEN_FILES: Final = 4 * 2**20
# Numbers in a product that takes less time than the way to a thread, and characters that are decoded as quickly.
_SMALL: Final = 384 * 1024
_SMALL_CODED: Final = 12_000 * 384
_LOOSE: Final = 256
_SHORT: Final = 8 * 1024
_LENGTH: Final = "max(length(content) + ifnull(length(embed_text), 0) + length(metadata))"

# So few rows are compared one by one, whatever the codes.
_FEW: Final = 16_000
# Candidates asked of the codes, per result and at least; what they grow by in doubt, and how often.
_PER_RESULT: Final = 20
_AT_LEAST: Final = 100
_WIDER: Final = 5
_ROUNDS: Final = 4
# Above this share of the rows, codes cost more than they save.
_CODES_SHARE: Final = 0.1
# A rank is trusted when the last candidate's estimate lies so many of its typical errors below, and when of the cells
# that were not visited less than this share of a result is to be expected.
_ERRORS: Final = 3.0
_MISSED: Final = 0.005
# Comparing so many numbers takes some ten milliseconds, which is borne where the codes leave a doubt.
_BEARABLE: Final = 150_000 * 384


class Namespace:
    """The rows of a namespace as of change ``seq``."""

    def __init__(self, name: str, dim: int, indexed: Collection[str] = ()) -> None:
        self.name = name
        self.indexed = frozenset(indexed)
        self.seq = 0
        self.matrix = Matrix(dim)
        self.snapshot: Snapshot | None = None
        """The file that the first vectors are mapped from."""
        self.codes: Codes | None = None
        self.loose: Places = np.empty(0, dtype=np.int64)
        """Positions whose vectors were replaced since they were coded, ascending."""
        self.columns: dict[str, Column] = {}
        self.lost_file = False
        """Whether rows of the file are gone, which is removed then."""
        self.longest: int | None = None
        """No text with its metadata is longer, in characters; None while that is not known."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes. Pages of a mapped file don't count: the system takes them back."""
        columns = sum(column.nbytes for column in self.columns.values())
        codes = 0 if self.codes is None else self.codes.nbytes
        # It takes two of the files that a process may have open, which are few.
        mapped = 0 if self.snapshot is None else _OPEN_FILES
        return _OBJECTS + self.matrix.nbytes + columns + codes + mapped

    @property
    def is_untouched(self) -> bool:
        """Whether its file is what it was when it was mapped."""
        return self.snapshot is None or self.snapshot.is_untouched

    def is_quick(self, *, filtered: bool) -> bool:
        """Whether a search of it may be made on an event loop."""
        size = len(self.matrix.rows)
        if self.longest is None or self.longest > _SHORT:
            return False
        if size * self.matrix.dim <= _SMALL:
            return True
        return size * self.matrix.dim <= _SMALL_CODED and not filtered

    # ---- following the rows

    def take(self, snapshot: Snapshot) -> None:
        """Begin with what a file holds."""
        self.snapshot, self.seq = snapshot, snapshot.moment.seq
        self.matrix = Matrix(self.matrix.dim, snapshot.rows, snapshot.vectors)
        if data := snapshot.part("codes"):
            self.codes = restored(data, snapshot.trained)
        for key, distinct in json.loads(bytes(snapshot.part("values"))).items():
            if key in self.indexed:
                self.columns[key] = Column(
                    distinct, np.frombuffer(snapshot.part(f"column {key}"), dtype="<i4")
                )

    def load(self, connection: sqlite3.Connection, seq: int) -> None:
        """Read all rows."""
        self.seq = seq
        found = connection.execute("SELECT row FROM chunks WHERE namespace = ? ORDER BY row", (self.name,))
        ours = np.fromiter((row for (row,) in found), dtype=np.int64)
        if not len(ours):
            self.longest = 0
            return
        self.matrix.reserve(len(ours))
        low, high = int(ours[0]), int(ours[-1])
        if len(ours) > _DENSE * (high - low + 1):
            # In the order of the table, and the few of other namespaces passed over.
            self._put(connection.execute(f"{_VECTORS} BETWEEN ? AND ? ORDER BY row", (low, high)), ours)
        else:
            which = "IN (SELECT row FROM chunks WHERE namespace = ?) ORDER BY row"
            self._put(connection.execute(f"{_VECTORS} {which}", (self.name,)))
        self._measure(connection)

    def follow(self, connection: sqlite3.Connection, seq: int) -> None:
        """Take in the changes up to ``seq``, the newest one."""
        since = (self.seq, self.name)
        replaced = self._put(
            connection.execute(f"{_VECTORS} IN ({_CHANGED} = ?) ORDER BY row", (*since, PUT))
        )
        gone = connection.execute(f"{_CHANGED} = ?", (*since, DELETED)).fetchall()
        removed = self.matrix.remove(np.array(gone, dtype=np.int64).reshape(-1))
        split = len(self.matrix.first)
        self.lost_file |= bool((replaced < split).any() or (removed < split).any())
        if self.codes is not None:
            self.loose = np.union1d(self.loose, replaced[replaced < self.codes.count])
        which = f"row IN ({_CHANGED} != ?)"
        if self.columns:
            self._read_columns(connection, self.columns, which, (*since, DELETED))
        self._measure(connection, which, (*since, DELETED))
        self.seq = seq

    def _put(self, found: sqlite3.Cursor, only: Places | None = None) -> Places:
        """Put in (row, vector, sum), of rows among ``only``, which ascend; return the positions of replaced ones."""
        replaced = [np.empty(0, dtype=np.int64)]
        while batch := found.fetchmany(_BATCH):
            numbers = np.array([row for row, *_ in batch], dtype=np.int64)
            vectors = vectors_of(batch, self.matrix.dim)
            if only is not None:
                ours = only[np.minimum(np.searchsorted(only, numbers), len(only) - 1)] == numbers
                numbers, vectors = numbers[ours], vectors[ours]
            replaced.append(self.matrix.put(numbers, vectors))
            if len(batch) == _BATCH:
                pause()
        return np.concatenate(replaced)

    def _measure(
        self, connection: sqlite3.Connection, which: str = "", parameters: Sequence[object] = ()
    ) -> None:
        """Find out the longest text of a small namespace, or of what was added to it."""
        if len(self.matrix.rows) * self.matrix.dim > _SMALL_CODED:
            self.longest = None
            return
        if self.longest is None:
            which, parameters = "namespace = ?", (self.name,)
        sql = f"SELECT {_LENGTH} FROM chunks WHERE {which}"  # noqa: S608 - constants
        (longest,) = connection.execute(sql, parameters).fetchone()
        self.longest = max(self.longest or 0, longest or 0)

    # ---- filters

    def mask(self, connection: sqlite3.Connection, where: Node) -> Mask:
        """Return which positions a filter admits."""

        def column(key: str) -> Column:
            if key not in self.columns:
                wanted = self.indexed - self.columns.keys() if key in self.indexed else {key}
                for old in [each for each in self.columns if each not in self.indexed][: 1 - _UNDECLARED]:
                    del self.columns[old]
                columns = {each: Column() for each in wanted}
                self._read_columns(connection, columns, "namespace = ? ORDER BY row", (self.name,))
                self.columns |= columns
            found = self.columns[key] = self.columns.pop(key)
            found.grow(len(self.matrix.rows))
            return found

        return evaluate(where, column, len(self.matrix.rows))

    def _read_columns(
        self,
        connection: sqlite3.Connection,
        columns: dict[str, Column],
        which: str,
        parameters: Sequence[object],
    ) -> None:
        size = len(self.matrix.rows)
        for batch in metadata_of(connection, which, parameters):
            places = np.searchsorted(self.matrix.rows, np.array([row for row, _ in batch], dtype=np.int64))
            for key, column in columns.items():
                column.put(places, [metadata.get(key, MISSING) for _, metadata in batch], size)

    # ---- search

    def search(self, query: Query, mask: Mask | None) -> list[tuple[int, float]]:
        """Return rows with their scores, best first; ``mask`` says which positions the filter admits."""

        def proposal(vector: FloatArray, k: int, usable: Mask | None) -> Places | None:
            if self.codes is None:
                return None
            admitted = len(self.matrix.rows) if usable is None else int(np.count_nonzero(usable))
            if admitted <= (_FEW if mask is not None else self.codes.count // 4):
                return None
            best, sure = self._proposed(self.codes, vector, min(k, admitted), usable)
            # Among all rows of many, the candidates are good ones even in doubt.
            many = mask is None and len(self.matrix.rows) * self.matrix.dim > _BEARABLE
            return best if sure or many else None

        return self.matrix.search(query, mask, proposal)

    def _proposed(
        self, codes: Codes, vector: FloatArray, k: int, usable: Mask | None
    ) -> tuple[Places | None, bool]:
        """Return the best of the candidates that the codes name and of the rows without codes, and whether that is
        sure enough; none where so many would be looked at that comparing all is the better way.
        """
        view, size = self.matrix.view(), len(self.matrix.rows)
        share = 1.0 if usable is None else float(np.count_nonzero(usable) / size)
        # So many candidates, that about the wanted number is admitted.
        count, visits, best = int(max(_PER_RESULT * k, _AT_LEAST) / share), codes.visited, None
        loose = np.concatenate([self.loose, np.arange(codes.count, size)])
        scores = np.concatenate([view.products_at(vector, self.loose), view.products(vector, codes.count)])
        if usable is not None:
            loose, scores = loose[usable[loose]], scores[usable[loose]]
        for _ in range(_ROUNDS):
            if count > max(_CODES_SHARE * size, _AT_LEAST):
                break
            places, estimates = codes.nearest(vector, count, visits)
            # Fewer than asked for are all that there are in these cells.
            floor = estimates.min(initial=np.inf) if len(places) == min(count, codes.count) else -np.inf
            if usable is not None or len(self.loose):
                kept = np.ones(len(places), dtype=np.bool_) if usable is None else usable[places]
                kept &= ~np.isin(places, self.loose)
                places, estimates = places[kept], estimates[kept]
            exact = view.products_at(vector, places)
            error = float(np.sqrt(np.mean(np.square(estimates - exact)))) if len(places) else np.inf
            places, exact = np.concatenate([places, loose]), np.concatenate([exact, scores])
            if len(exact) >= k:
                kth = float(np.partition(exact, len(exact) - k)[len(exact) - k])
                best = places[exact >= kth - SLACK]
                ranked = kth - floor >= _ERRORS * error
                needed = codes.visits_for(vector, kth, _MISSED * k / share)
                if ranked and needed <= visits:
                    return best, True
                count *= 1 if ranked else _WIDER
                visits = max(visits, needed)
            else:
                count, visits = count * _WIDER, visits * 2
        return best, False
