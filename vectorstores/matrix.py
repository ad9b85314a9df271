"""The vectors of one namespace by row number, with exact search."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from vectorstores._engine import Query
    from vectorstores.base import FloatArray

    Places: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]
    Proposal: TypeAlias = Callable[[FloatArray, int, Mask | None], Places | None]

# OpenBLAS splits a product of more numbers than this among several threads, which wait for each other on a busy
# machine.
_PRODUCT: Final = 384 * 1024
# The last digits of a float32 product depend on the row's position in the matrix. Candidates within this distance of
# the k-th are scored again in float64, so that equal vectors get equal scores and the earlier one wins.
SLACK: Final = 1e-5
# Above this share of the rows, computing all products is quicker than copying those rows first.
_GATHER_SHARE: Final = 0.3


class _Growing:
    """An array to which rows are appended in amortised constant time."""

    def __init__(self, *shape: int, dtype: DTypeLike) -> None:
        self.array: NDArray[Any] = np.empty((0, *shape), dtype=dtype)
        self.view = self.array
        """The rows appended so far. Write to it only before the next append."""

    def reserve(self, size: int) -> None:
        if size > len(self.array):
            grown = np.empty((size, *self.array.shape[1:]), dtype=self.array.dtype)
            grown[: len(self.view)] = self.view
            self.array, self.view = grown, grown[: len(self.view)]

    def append(self, rows: NDArray[Any]) -> None:
        end = len(self.view) + len(rows)
        if end > len(self.array):
            self.reserve(max(end, 5 * len(self.view) // 4, 16))
        self.array[len(self.view) : end] = rows
        self.view = self.array[:end]


class Matrix:
    """Row numbers and their unit vectors, at positions that ascend with the row number.

    ``vectors`` holds those of the first ``rows``, for example of a mapped file; it is written to when one is replaced.
    A removed row keeps its position, and its number is not used again.
    """

    def __init__(self, dim: int, rows: Places | None = None, vectors: FloatArray | None = None) -> None:
        self.dim = dim
        self.first: FloatArray = np.empty((0, dim), dtype=np.float32) if vectors is None else vectors
        self.dead = 0
        self._rest = _Growing(dim, dtype=np.float32)
        self._rows, self._alive = _Growing(dtype=np.int64), _Growing(dtype=np.bool_)
        if rows is not None:
            self._rows.append(rows)
            self._alive.append(np.ones(len(rows), dtype=np.bool_))
        self.rows: Places = self._rows.view
        """The row number at each position, ascending."""
        self.alive: Mask = self._alive.view
        """Whether the row at each position has not been removed."""

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it takes, without the vectors that were passed in."""
        return sum(each.array.nbytes for each in (self._rest, self._rows, self._alive))

    def __len__(self) -> int:
        """Number of rows that have not been removed."""
        return len(self.rows) - self.dead

    def reserve(self, size: int) -> None:
        """Make room for ``size`` rows in all."""
        self._rest.reserve(size - len(self.first))

    def find(self, rows: Places) -> Places:
        """Return the positions of those of these rows that exist."""
        if not len(self.rows):
            return np.empty(0, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        existing: Places = places[(self.rows[places] == rows) & self.alive[places]]
        return existing

    def put(self, rows: Places, vectors: FloatArray) -> Places:
        """Add rows, or replace the vectors of existing ones. Returns the positions whose vector has changed.

        ``rows`` must ascend; new rows come last.
        """
        last = self.rows[-1] if len(self.rows) else np.int64(-1)
        fresh = rows > last
        old = np.flatnonzero(~fresh)
        places = np.searchsorted(self.rows, rows[old])
        if len(old):
            there = self.rows[places] == rows[old]
            old, places = old[there], places[there]
            other = (self.gather(places) != vectors[old]).any(axis=1)
            places = places[other]
            self._set(places, vectors[old[other]])
        if fresh.any():
            self._rest.append(vectors[fresh])
            self._rows.append(rows[fresh])
            self._alive.append(np.ones(int(fresh.sum()), dtype=np.bool_))
            self.rows, self.alive = self._rows.view, self._alive.view
        return places

    def remove(self, rows: Places) -> Places:
        """Remove those of these rows that exist and return their positions. Their vectors are overwritten."""
        places = np.unique(self.find(rows))
        self._set(places, np.zeros((len(places), self.dim), dtype=np.float32))
        self.alive[places] = False
        self.dead += len(places)
        return places

    def _set(self, places: Places, vectors: FloatArray) -> None:
        split = len(self.first)
        early = places < split
        if early.any():
            self.first[places[early]] = vectors[early]
        self._rest.view[places[~early] - split] = vectors[~early]

    def gather(self, places: Places) -> FloatArray:
        """Return a copy of the vectors at these positions.

        May be called without the lock of writers; a vector that is replaced meanwhile may be half old, half new.
        """
        split, rest = len(self.first), self._rest.view
        early = places < split
        if not split or not early.any():
            return rest.take(places - split, axis=0)
        if early.all():
            return self.first.take(places, axis=0)
        copied: FloatArray = np.empty((len(places), self.first.shape[1]), dtype=np.float32)
        copied[early] = self.first[places[early]]
        copied[~early] = rest[places[~early] - split]
        return copied

    def products(self, vector: FloatArray, start: int = 0) -> NDArray[np.float32]:
        """Return the products of a vector with all rows from position ``start``, in one thread."""
        split, rest = len(self.first), self._rest.view
        scores = np.empty(split + len(rest) - start, dtype=np.float32)
        step = max(1, _PRODUCT // max(1, len(vector)))
        done = 0
        for part in (self.first[start:], rest[max(start - split, 0) :]):
            for low in range(0, len(part), step):
                some = part[low : low + step]
                np.dot(some, vector, out=scores[done : done + len(some)])
                done += len(some)
        return scores

    def products_at(self, vector: FloatArray, places: Places) -> NDArray[np.float32]:
        """Return the products of a vector with the rows at these positions, in one thread."""
        step = max(1, _PRODUCT // max(1, len(vector)))
        scores = np.empty(len(places), dtype=np.float32)
        for low in range(0, len(places), step):
            some = self.gather(places[low : low + step])
            np.dot(some, vector, out=scores[low : low + len(some)])
        return scores

    def search(
        self, query: Query, mask: Mask | None, proposal: Proposal | None = None
    ) -> list[tuple[int, float]]:
        """Return rows with their scores, best first. ``mask`` says which positions the filter admits.

        ``proposal`` returns the positions to compare, or None to compare all.
        """
        usable = self.alive if self.dead else None
        if mask is not None:
            usable = mask if usable is None else usable & mask
        places = None if proposal is None else proposal(query.vector, query.k, usable)
        if places is None:
            if usable is not None and np.count_nonzero(usable) <= _GATHER_SHARE * len(usable):
                chosen = np.flatnonzero(usable)
                places = chosen[best_places(self.products_at(query.vector, chosen), query.k)]
            else:
                products = self.products(query.vector)
                if usable is not None:
                    products[~usable] = -np.inf
                places = best_places(products, query.k)
        vectors = self.gather(places)
        scores = vectors.astype(np.float64) @ query.vector.astype(np.float64)
        np.minimum(np.maximum(scores, -1.0, out=scores), 1.0, out=scores)
        # Scores of equal rows may differ in the last bit; rounding removes that, far below float32's precision.
        scores.round(9, out=scores)
        order = np.lexsort((places, -scores))[: query.k]
        if query.min_score > -1.0:
            order = order[scores[order] >= query.min_score]
        return list(zip(self.rows[places[order]].tolist(), scores[order].tolist(), strict=True))


def best_places(scores: NDArray[np.float32], k: int) -> Places:
    """Return the positions of the ``k`` highest scores and of those too close to the ``k``-th to order."""
    if k >= len(scores):
        return np.flatnonzero(scores > -np.inf)
    bound = np.partition(scores, len(scores) - k)[len(scores) - k]
    if bound == -np.inf:
        return np.flatnonzero(scores > -np.inf)
    # Runs in every search; np.flatnonzero takes twice as long.
    places: Places = (scores >= bound - SLACK).nonzero()[0]
    return places
