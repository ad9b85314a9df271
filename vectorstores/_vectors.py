"""Vectors by position: in memory, or the first of them in a file that is mapped, the later ones in memory."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from vectorstores.base import FloatArray

# A product with more numbers than this is given to several threads by OpenBLAS, which then wait for each other
# on a busy machine.
_PRODUCT: Final = 384 * 1024


class Product(Protocol):
    """Products of all rows of a matrix, contiguous and of shape ``(n, dim)``, with a vector."""

    def __call__(self, matrix: FloatArray, vector: FloatArray, out: NDArray[np.float32]) -> None:
        """Write them to ``out``, of shape ``(n,)``; in one thread."""
        ...


def numpy_product(matrix: FloatArray, vector: FloatArray, out: NDArray[np.float32]) -> None:
    """See :class:`Product`."""
    step = max(1, _PRODUCT // len(vector))
    for low in range(0, len(matrix), step):
        np.dot(matrix[low : low + step], vector, out=out[low : low + step])


class Growing:
    """An array that rows are appended to, in amortised constant time."""

    def __init__(self, *shape: int, dtype: DTypeLike) -> None:
        self._array: NDArray[Any] = np.empty((0, *shape), dtype=dtype)
        self._size = 0

    @property
    def view(self) -> NDArray[Any]:
        """What has been appended; valid for writing until the next append."""
        return self._array[: self._size]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, with the room for more."""
        return int(self._array.nbytes)

    def reserve(self, size: int) -> None:
        """Make room for so many rows in all."""
        if size > len(self._array):
            grown = np.empty((size, *self._array.shape[1:]), dtype=self._array.dtype)
            grown[: self._size] = self.view
            self._array = grown

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        end = self._size + len(rows)
        if end > len(self._array):
            self.reserve(max(end, 2 * self._size, 16))
        self._array[self._size : end] = rows
        self._size = end


@dataclass(frozen=True, slots=True)
class Parts:
    """The vectors as they were, of shape ``(n, dim)`` in two pieces, for a thread that reads them without a lock.

    A row that is replaced meanwhile may be read half old, half new.
    """

    first: FloatArray
    rest: FloatArray

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.first) + len(self.rest)

    def between(self, start: int, stop: int) -> FloatArray:
        """Return a copy of the rows ``start`` to ``stop``."""
        split = len(self.first)
        if stop <= split:
            return self.first[start:stop].copy()
        return np.concatenate(
            [self.first[min(start, split) :], self.rest[max(start - split, 0) : stop - split]]
        )


def _file_of(array: object) -> mmap.mmap | None:
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


class Vectors:
    """A matrix of shape ``(n, dim)`` that grows at its end. ``first`` may be a mapped file; it is written to."""

    def __init__(self, dim: int, first: FloatArray | None = None, product: Product = numpy_product) -> None:
        self.product = product
        self._first = np.empty((0, dim), dtype=np.float32) if first is None else first
        self._file = _file_of(self._first)
        self._split = len(self._first)
        self._rest = Growing(dim, dtype=np.float32)
        self._step = max(1, _PRODUCT // max(1, dim))

    @property
    def is_mapped(self) -> bool:
        """Whether the first vectors lie in a file."""
        return self._split > 0

    @property
    def is_cut(self) -> bool:
        """Whether somebody cut the mapped file short: reading it would end the process."""
        return self._file is not None and self._file.size() < self._first.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, but for a file that is mapped."""
        return self._rest.nbytes

    def parts(self, limit: int | None = None) -> Parts:
        """Return the matrix as it is now, or its first rows."""
        end = self._split + len(self._rest.view) if limit is None else limit
        return Parts(self._first[:end], self._rest.view[: max(end - self._split, 0)])

    def reserve(self, size: int) -> None:
        """Make room for so many vectors in all."""
        self._rest.reserve(size - self._split)

    def append(self, vectors: FloatArray) -> None:
        """Add rows at the end."""
        self._rest.append(vectors)

    def put(self, places: NDArray[np.int64], vectors: FloatArray | float) -> None:
        """Replace the vectors at these positions."""
        early = places < self._split
        whole = np.broadcast_to(np.asarray(vectors, dtype=np.float32), (len(places), self._first.shape[1]))
        self._first[places[early]] = whole[early]
        self._rest.view[places[~early] - self._split] = whole[~early]

    def gather(self, places: NDArray[np.int64]) -> FloatArray:
        """Return a copy of the vectors at these positions."""
        if not self._split:
            return self._rest.view.take(places, axis=0)
        early = places < self._split
        if early.all():
            return self._first.take(places, axis=0)
        copied: FloatArray = np.empty((len(places), self._first.shape[1]), dtype=np.float32)
        copied[early] = self._first[places[early]]
        copied[~early] = self._rest.view[places[~early] - self._split]
        return copied

    def products(self, query: FloatArray, start: int = 0) -> NDArray[np.float32]:
        """Return the products of a vector with all rows from ``start`` on, in one thread."""
        total = self._split + len(self._rest.view)
        scores = np.empty(total - start, dtype=np.float32)
        early = max(self._split - start, 0)
        if early:
            self.product(self._first[start:], query, scores[:early])
        if early < len(scores):
            self.product(self._rest.view[max(start - self._split, 0) :], query, scores[early:])
        return scores

    def products_at(self, query: FloatArray, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the products of a vector with the rows at these positions, in one thread."""
        if len(places) <= self._step:
            few: NDArray[np.float32] = self.gather(places) @ query
            return few
        scores = np.empty(len(places), dtype=np.float32)
        for low in range(0, len(places), self._step):
            some = places[low : low + self._step]
            np.dot(self.gather(some), query, out=scores[low : low + len(some)])
        return scores
