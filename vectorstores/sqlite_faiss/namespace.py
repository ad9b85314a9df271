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
# Rows that get their codes together, so that what a call takes by itself does not count.
_CODED: Final = 512
_VECTORS: Final = "SELECT row, vector, sum FROM vectors"
_CHANGED: Final = "SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind"
# Columns that are kept of keys that were not declared: those asked for last.
_UNDECLARED: Final = 32
# What an empty one takes, and what one whose vectors are mapped is counted with: of 1,024 open files, half a gigabyte
# of memory leaves more than 700 for others.
_OBJECTS: Final = 6 * 1024
_OPEN_FILES: Final = 4 * 2**20

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
        self.weight = 0
        """The bytes that it was counted with last."""
        self.lost_since: float | None = None
        """When its file was first found to be removed, on the monotonic clock."""

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

    # ---- following the rows

    def take(self, snapshot: Snapshot) -> None:
        """Begin with what a file holds."""
        self.snapshot, self.seq = snapshot, snapshot.moment.seq
        self.matrix = Matrix(self.matrix.dim, snapshot.rows, snapshot.vectors)
        if data := snapshot.part("codes"):
            self.codes = restored(data)
        values = json.loads(bytes(snapshot.part("values")))
        numbers = np.frombuffer(snapshot.part("columns"), dtype="<i4").reshape(
            len(values), len(snapshot.rows)
        )
        for (key, distinct), column in zip(values.items(), numbers, strict=True):
            if key in self.indexed:
                self.columns[key] = Column(distinct, column)

    def load(self, connection: sqlite3.Connection, seq: int, count: int) -> None:
        """Read all rows, which are so many."""
        self.seq = seq
        self.matrix.reserve(count)
        found = "WHERE row IN (SELECT row FROM chunks WHERE namespace = ?) ORDER BY row"
        self._put(connection.execute(f"{_VECTORS} {found}", (self.name,)))

    def follow(self, connection: sqlite3.Connection, seq: int) -> None:
        """Take in the changes up to ``seq``, the newest one."""
        since = (self.seq, self.name)
        replaced = self._put(
            connection.execute(f"{_VECTORS} WHERE row IN ({_CHANGED} = ?) ORDER BY row", (*since, PUT))
        )
        gone = connection.execute(f"{_CHANGED} = ?", (*since, DELETED)).fetchall()
        self.matrix.remove(np.array(gone, dtype=np.int64).reshape(-1))
        if self.codes is not None:
            self.loose = np.union1d(self.loose, replaced[replaced < self.codes.count])
            self._extend(self.codes)
        self.columns = {key: column for key, column in self.columns.items() if not column.is_worn}
        if self.columns:
            self._read_columns(connection, self.columns, f"row IN ({_CHANGED} != ?)", (*since, DELETED))
        self.seq = seq

    def _put(self, found: sqlite3.Cursor) -> Places:
        """Put in (row, vector, sum); return the positions of those that are replaced."""
        replaced = [np.empty(0, dtype=np.int64)]
        while batch := found.fetchmany(_BATCH):
            numbers = np.array([row for row, *_ in batch], dtype=np.int64)
            replaced.append(self.matrix.put(numbers, vectors_of(batch, self.matrix.dim)))
            if len(batch) == _BATCH:
                pause()
        return np.concatenate(replaced)

    def _extend(self, codes: Codes) -> None:
        """Make codes for rows that have none; a few are compared as quickly without."""
        size = len(self.matrix.rows)
        while size - codes.count >= _CODED:
            codes.extend(self.matrix.gather(np.arange(codes.count, min(codes.count + _BATCH, size))))

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
