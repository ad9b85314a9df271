"""One namespace in memory: its vectors, and columns of its metadata for filters. Follows the log of changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores.filters import MISSING, And, Leaf, Missing, Node, Not, OneOf, Or, canonical
from vectorstores.matrix import SLACK, Matrix
from vectorstores.sqlite_faiss.codes import Codes, restored
from vectorstores.sqlite_faiss.rows import DELETED, PUT, metadata_of, pause, vectors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._engine import Query
    from vectorstores.base import JSON, FloatArray
    from vectorstores.matrix import Mask, Places
    from vectorstores.sqlite_faiss.snapshot import Snapshot

# Rows whose vectors are read at a time: 1.5 MB.
_BATCH: Final = 1024
# Rows that get their codes together: a call for each would mostly be overhead.
_CODED: Final = 512
_VECTORS: Final = "SELECT row, vector, sum FROM vectors"
_CHANGED: Final = "SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind"
# How many columns of undeclared keys are kept: those used last.
_UNDECLARED: Final = 32
# Bytes of an empty namespace, and bytes counted for one that holds its index file open: with the default limit of
# 512 MiB, more than 700 of the 1,024 files that a process may open stay free for others.
_OBJECTS: Final = 6 * 1024
_OPEN_FILES: Final = 4 * 2**20

# A filter that admits no more rows than this is answered exactly, without the codes.
_FEW: Final = 4_000
# Candidates requested from the codes: per result, at least, and the factor by which they grow in doubt.
_PER_RESULT: Final = 20
_AT_LEAST: Final = 100
_WIDER: Final = 5
# With candidates above this share of the rows, comparing all rows is quicker.
_CODES_SHARE: Final = 0.1
# A rank is trusted if it is this many standard deviations of the errors above the last candidate's estimate.
_ERRORS: Final = 3.0
# The standard deviation of the errors is known well enough from this many candidates on.
_SURE: Final = 30
# Distinct values that a column may have, used or unused, before it is read anew; and about the bytes of one value.
_MANY: Final = 1024
_VALUE: Final = 250


class Column:
    """The values of one key: for each position, the number of a distinct value. Number 0 means a missing key."""

    def __init__(
        self, values: Sequence[JSON | Missing] = (), numbers: NDArray[np.int32] | None = None
    ) -> None:
        self._values: list[JSON | Missing] = []
        self._numbers: dict[Hashable, int] = {}
        for value in (MISSING, *values):
            self._number(value)
        self._codes = np.zeros(0, dtype=np.int32) if numbers is None else numbers.astype(np.int32)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return int(self._codes.nbytes) + _VALUE * len(self._values)

    @property
    def is_worn(self) -> bool:
        """Whether repeated changes have left far more distinct values than rows, so that it should be read anew."""
        return len(self._values) > max(_MANY, 2 * len(self._codes))

    def put(self, places: NDArray[np.int64], values: Iterable[JSON | Missing], size: int) -> None:
        """Set the values at these positions, of ``size`` positions in all."""
        self.grow(size)
        self._codes[places] = [self._number(value) for value in values]

    def grow(self, size: int) -> None:
        """Make room for ``size`` positions; the key is missing at the new ones."""
        if size > len(self._codes):
            grown = np.zeros(max(size, 5 * len(self._codes) // 4), dtype=np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown

    def _number(self, value: JSON | Missing) -> int:
        form = canonical(value)
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self._values)
            self._values.append(value)
        return number

    def packed(self, places: NDArray[np.int64]) -> tuple[list[JSON], NDArray[np.int32]]:
        """Return the distinct values at these positions, and for each position the number of its value."""
        self.grow(int(places[-1]) + 1 if len(places) else 0)
        numbers = self._codes[places]
        used = np.bincount(numbers, minlength=len(self._values)) > 0
        kept = [
            each
            for each, has in zip(self._values, used, strict=True)
            if has and not isinstance(each, Missing)
        ]
        used[0] = True
        return kept, (np.cumsum(used, dtype="<i4") - 1)[numbers]

    def mask(self, leaf: Leaf, size: int) -> NDArray[np.bool_]:
        """Return which positions the leaf admits."""
        codes = self._codes[:size]
        if isinstance(leaf, OneOf):
            # A filter names few of the values, of which there may be as many as rows.
            numbers = [self._numbers[form] for form in leaf.forms if form in self._numbers]
            if len(numbers) == 1:  # the most frequent filter takes a tenth of the time this way
                same: NDArray[np.bool_] = codes == numbers[0]
                return same
            admitted = np.zeros(len(self._values), dtype=np.bool_)
            admitted[numbers] = True
        else:
            admitted = np.fromiter(
                (leaf.admits(value) for value in self._values), dtype=np.bool_, count=len(self._values)
            )
        mask: NDArray[np.bool_] = admitted[codes]
        return mask


class Namespace:
    """The rows of a namespace as of the change ``seq``."""

    def __init__(self, name: str, dim: int, indexed: Collection[str] = ()) -> None:
        self.name = name
        self.indexed = frozenset(indexed)
        self.seq = 0
        self.matrix = Matrix(dim)
        self.snapshot: Snapshot | None = None
        """The file from which the first vectors are mapped."""
        self.codes: Codes | None = None
        self.loose: Places = np.empty(0, dtype=np.int64)
        """Positions whose vectors were replaced after they were coded, ascending."""
        self.columns: dict[str, Column] = {}
        self.weight = 0
        """Its ``nbytes`` when it was last counted."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes. Pages of a mapped file don't count: the system can reclaim them."""
        columns = sum(column.nbytes for column in self.columns.values())
        codes = 0 if self.codes is None else self.codes.count * self.matrix.dim // 4
        # It uses two of the process's open files, which are limited.
        mapped = 0 if self.snapshot is None else _OPEN_FILES
        return _OBJECTS + self.matrix.nbytes + columns + codes + mapped

    # ---- following the rows

    def take(self, snapshot: Snapshot) -> None:
        """Start from the contents of a file."""
        self.snapshot, self.seq = snapshot, snapshot.moment[0]
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
        """Read all rows, of which there are ``count``."""
        self.seq = seq
        self.matrix.reserve(count)
        where = "WHERE row IN (SELECT row FROM chunks WHERE namespace = ?) ORDER BY row"
        self._put(connection.execute(f"{_VECTORS} {where}", (self.name,)))

    def follow(self, connection: sqlite3.Connection, seq: int) -> None:
        """Apply the changes up to ``seq``, the newest one."""
        since = (self.seq, self.name)
        replaced = self._put(
            connection.execute(f"{_VECTORS} WHERE row IN ({_CHANGED} = ?) ORDER BY row", (*since, PUT))
        )
        deleted = connection.execute(f"{_CHANGED} = ?", (*since, DELETED)).fetchall()
        self.matrix.remove(np.array(deleted, dtype=np.int64).reshape(-1))
        if self.codes is not None:
            self.loose = np.union1d(self.loose, replaced[replaced < self.codes.count])
            # A last few rows stay without codes: they are compared as quickly without.
            size = len(self.matrix.rows)
            while size - self.codes.count >= _CODED:
                end = min(self.codes.count + _BATCH, size)
                self.codes.extend(self.matrix.gather(np.arange(self.codes.count, end)))
        self.columns = {key: column for key, column in self.columns.items() if not column.is_worn}
        if self.columns:
            self._read_columns(connection, self.columns, f"row IN ({_CHANGED} != ?)", (*since, DELETED))
        self.seq = seq

    def _put(self, cursor: sqlite3.Cursor) -> Places:
        """Add or replace the rows of a query for (row, vector, sum). Returns the positions of the replaced ones."""
        replaced = [np.empty(0, dtype=np.int64)]
        while batch := cursor.fetchmany(_BATCH):
            numbers = np.array([row for row, *_ in batch], dtype=np.int64)
            replaced.append(self.matrix.put(numbers, vectors_of(batch, self.matrix.dim)))
            if len(batch) == _BATCH:
                pause()
        return np.concatenate(replaced)

    # ---- filters

    def mask(self, connection: sqlite3.Connection, where: Node) -> Mask:
        """Return which positions a filter admits."""
        size = len(self.matrix.rows)
        if isinstance(where, And | Or):
            mask = np.full(size, isinstance(where, And))
            for part in where.parts:
                if isinstance(where, And):
                    mask &= self.mask(connection, part)
                else:
                    mask |= self.mask(connection, part)
            return mask
        if isinstance(where, Not):
            return ~self.mask(connection, where.part)
        key = where.key
        if key not in self.columns:
            wanted = self.indexed - self.columns.keys() if key in self.indexed else {key}
            for old in [each for each in self.columns if each not in self.indexed][: 1 - _UNDECLARED]:
                del self.columns[old]
            columns = {each: Column() for each in wanted}
            self._read_columns(connection, columns, "namespace = ? ORDER BY row", (self.name,))
            self.columns |= columns
        column = self.columns[key] = self.columns.pop(key)
        column.grow(size)
        return column.mask(where, size)

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
        return self.matrix.search(query, mask, partial(self._proposed, filtered=mask is not None))

    def _proposed(self, vector: FloatArray, k: int, usable: Mask | None, *, filtered: bool) -> Places | None:
        """Return the best among the candidates of the codes and the rows without codes.

        Returns None where all rows are to be compared: they are few, or the result stays in doubt with as many
        candidates as are worth comparing.
        """
        codes = self.codes
        if codes is None:
            return None
        admitted = len(self.matrix.rows) if usable is None else int(np.count_nonzero(usable))
        if admitted <= (_FEW if filtered else codes.count // 4):
            return None
        k = min(k, admitted)
        matrix, size = self.matrix, len(self.matrix.rows)
        loose = np.concatenate([self.loose, np.arange(codes.count, size)])
        scores = np.concatenate(
            [matrix.products_at(vector, self.loose), matrix.products(vector, codes.count)]
        )
        share = 1.0
        if usable is not None:
            loose, scores = loose[usable[loose]], scores[usable[loose]]
            share = admitted / size
        # Take enough candidates that the filter admits about the wanted number.
        count = int(max(_PER_RESULT * k, _AT_LEAST) / share)
        while count <= max(_CODES_SHARE * size, _AT_LEAST):
            places, estimates = codes.nearest(vector, count)
            floor = float(estimates.min(initial=np.inf)) if count < codes.count else -np.inf
            if usable is not None or len(self.loose):
                kept = ~np.isin(places, self.loose)
                if usable is not None:
                    kept &= usable[places]
                places, estimates = places[kept], estimates[kept]
            exact = matrix.products_at(vector, places)
            # A bound for the rows that are not candidates. Estimates are too low near the query, and vary.
            errors = exact - estimates
            sure = len(places) >= _SURE
            highest = floor + float(errors.mean() + _ERRORS * errors.std()) if sure else np.inf
            places, exact = np.concatenate([places, loose]), np.concatenate([exact, scores])
            if len(exact) >= k:
                kth = float(np.partition(exact, len(exact) - k)[len(exact) - k])
                if kth >= highest:
                    return places[exact >= kth - SLACK]
            count *= _WIDER
        return None
