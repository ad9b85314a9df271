"""Vectors of one namespace in memory, found exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from vectorstores.mmr import mmr

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from vectorstores._engine import Query
    from vectorstores.base import FloatArray

# Products of float32 rows depend on their place in the matrix in the last digits. Candidates within this
# distance of the k-th are scored again in float64, so that equal vectors get equal scores and the earlier one
# wins.
_SLACK: Final = 1e-5
# Above this share of the rows, gathering them for a product costs more than it saves.
_GATHER_SHARE: Final = 0.3


class Block(Protocol):
    """Vectors by position."""

    @property
    def matrix(self) -> FloatArray:
        """The vectors, of shape ``(n, dim)``, as a view that may be written to until the next ``append``."""
        ...

    def append(self, vectors: FloatArray) -> None:
        """Add rows at the end."""
        ...

    def top(self, query: FloatArray, k: int, usable: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Return the positions of at least the ``k`` best rows (or all there are), in any order."""
        ...


class Growing:
    """An array that rows are appended to, in amortised constant time."""

    def __init__(self, *shape: int, dtype: DTypeLike) -> None:
        self._array: NDArray[Any] = np.empty((0, *shape), dtype=dtype)
        self._size = 0

    @property
    def view(self) -> NDArray[Any]:
        """What has been appended; valid for writing until the next append."""
        return self._array[: self._size]

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        end = self._size + len(rows)
        if end > len(self._array):
            grown = np.empty((max(end, 2 * self._size, 16), *self._array.shape[1:]), dtype=self._array.dtype)
            grown[: self._size] = self.view
            self._array = grown
        self._array[self._size : end] = rows
        self._size = end


class NumpyBlock:
    """Vectors in one growing array, searched by a product with all of them."""

    def __init__(self, dim: int) -> None:
        self._vectors = Growing(dim, dtype=np.float32)

    @property
    def matrix(self) -> FloatArray:
        """See :class:`Block`."""
        return self._vectors.view

    def append(self, vectors: FloatArray) -> None:
        """See :class:`Block`."""
        self._vectors.append(vectors)

    def top(self, query: FloatArray, k: int, usable: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """See :class:`Block`."""
        scores = self.matrix @ query
        if usable is not None:
            scores[~usable] = -np.inf
        return best_positions(scores, k)


def best_positions(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the positions of the ``k`` highest scores and of those that can't be told from the ``k``-th."""
    if k >= len(scores):
        return np.flatnonzero(scores > -np.inf)
    bound = scores[np.argpartition(scores, len(scores) - k)[len(scores) - k]]
    return np.flatnonzero((scores >= bound - _SLACK) & (scores > -np.inf))


class VectorTable:
    """Rows and their vectors. Row numbers only grow; a removed one never comes back."""

    def __init__(self, dim: int, block: Block | None = None, rows: NDArray[np.int64] | None = None) -> None:
        """``rows`` are those whose vectors are in ``block`` already."""
        self.dim = dim
        self.block: Block = NumpyBlock(dim) if block is None else block
        self.dead = 0
        self._rows = Growing(dtype=np.int64)
        self._alive = Growing(dtype=np.bool_)
        if rows is not None:
            self._rows.append(rows)
            self._alive.append(np.ones(len(rows), dtype=np.bool_))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row number at each position, ascending."""
        return self._rows.view

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Whether the row at each position has not been removed."""
        return self._alive.view

    def __len__(self) -> int:
        """Number of rows that have not been removed."""
        return len(self.rows) - self.dead

    def find(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of those rows that are there."""
        if not len(self.rows):
            return np.empty(0, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        found: NDArray[np.int64] = places[(self.rows[places] == rows) & self.alive[places]]
        return found

    def packed(self, block: Block | None = None) -> VectorTable:
        """Return a copy without the places of removed rows, its vectors in ``block``."""
        copy = VectorTable(self.dim, block)
        copy.put(self.rows[self.alive], self.block.matrix[self.alive])
        return copy

    def put(self, rows: NDArray[np.int64], vectors: FloatArray) -> None:
        """Add rows, or replace the vectors of those that are there. ``rows`` ascends; new ones come last."""
        last = self.rows[-1] if len(self.rows) else np.int64(-1)
        fresh = rows > last
        places = np.searchsorted(self.rows, rows[~fresh])
        if len(places):
            self.block.matrix[places] = vectors[~fresh]
        if fresh.any():
            self.block.append(np.ascontiguousarray(vectors[fresh]))
            self._rows.append(rows[fresh])
            self._alive.append(np.ones(int(fresh.sum()), dtype=np.bool_))

    def remove(self, rows: NDArray[np.int64]) -> int:
        """Remove rows that are there and return how many; their vectors are overwritten."""
        places = np.unique(self.find(rows))
        if len(places):
            self.block.matrix[places] = 0.0
            self.alive[places] = False
            self.dead += len(places)
        return len(places)

    def search(self, query: Query, mask: NDArray[np.bool_] | None) -> list[tuple[int, float]]:
        """Return rows with their scores, best first. ``mask`` says which positions the filter admits."""
        usable = self.alive if self.dead else None
        if mask is not None:
            usable = mask if usable is None else usable & mask
        wanted = query.k if query.diversity == 0.0 else max(4 * query.k, query.k + 20)
        places = self._candidates(query.vector, wanted, usable)
        vectors = self.block.matrix[places]
        scores = np.clip(vectors.astype(np.float64) @ query.vector.astype(np.float64), -1.0, 1.0)
        # Equal rows may still differ in the last bit: rounded away, far below the precision of float32.
        scores = np.round(scores, 9)
        order = np.lexsort((places, -scores))[:wanted]
        order = order[scores[order] >= query.min_score]
        if query.diversity:
            order = order[mmr(scores[order], vectors[order], k=query.k, diversity=query.diversity)]
        return [(int(self.rows[places[i]]), float(scores[i])) for i in order]

    def _candidates(self, vector: FloatArray, k: int, usable: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        if usable is not None:
            chosen = np.flatnonzero(usable)
            if len(chosen) <= _GATHER_SHARE * len(usable):
                return chosen[best_positions(self.block.matrix[chosen] @ vector, k)]
        return self.block.top(vector, k, usable)
