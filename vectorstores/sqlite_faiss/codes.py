"""Short codes of vectors, compared quickly: two bits a dimension, in blocks that fit the processor's registers.

Each dimension is rounded to one of four values. Two of them make a letter of 4 bits, and FAISS looks up the letters of
32 vectors at a time (F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality is not enough: high-performance nearest
neighbor search with product quantization fast scan. VLDB 2015).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores._extras import installed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray
    from vectorstores.matrix import Places

_TRAINED_ON: Final = 24_576
_BATCH: Final = 10_000
# A code block holds 32 vectors.
_BLOCK: Final = 32
# The values that a normally distributed dimension is best rounded to, in its deviations from its mean, and how much of
# a distance they keep on average (S. Lloyd: Least squares quantization in PCM. IEEE Transactions on Information Theory
# 28, 1982; J. Max: Quantizing for minimum distortion. IRE Transactions on Information Theory 6, 1960).
_LEVELS: Final = np.array([-1.5104, -0.4528, 0.4528, 1.5104])
_KEPT: Final = 0.8825


class Abandoned(Exception):  # noqa: N818 - no error: the store is being closed, or others changed too much
    """The work is no longer wanted."""


@cache
def has_faiss() -> bool:
    """Whether there is FAISS to make codes, which are not needed for being right; does not load it."""
    return installed("faiss")


@cache
def load_faiss() -> Any:  # noqa: ANN401 - its types don't know how Python calls it
    """Return the module ``faiss``, which takes a moment to load; where :func:`has_faiss`."""
    return importlib.import_module("faiss")


class Codes:
    """Codes of the positions 0 to ``count``."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - FAISS has no types
        self._index = index

    @property
    def count(self) -> int:
        """Number of vectors that have codes."""
        return int(self._index.ntotal)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes."""
        return self.count * int(self._index.d) // 4

    def nearest(self, vector: FloatArray, count: int) -> tuple[Places, NDArray[np.float32]]:
        """Return up to ``count`` positions that seem nearest, and estimates of their products with the vector."""
        faiss = load_faiss()
        # Holds for this thread alone, as OpenMP has it.
        faiss.omp_set_num_threads(1)
        estimates, places = self._index.search(vector[np.newaxis], min(count, self.count))
        known = (places[0] >= 0) & np.isfinite(estimates[0])
        return places[0][known], estimates[0][known]

    def extend(self, vectors: FloatArray) -> None:
        """Add the codes of the vectors at the positions that follow; not while others search."""
        load_faiss().omp_set_num_threads(1)
        _stretch(self._index, _KEPT)
        try:
            self._index.add(_filled(vectors))
        finally:
            _stretch(self._index, 1 / _KEPT)

    def to_bytes(self) -> memoryview:
        """Return all of it."""
        return memoryview(load_faiss().serialize_index(self._index))


def restored(data: memoryview) -> Codes | None:
    """Return codes that were written by :meth:`Codes.to_bytes`.

    None without FAISS, and if another version of it, or of this package, wrote them.
    """
    if not has_faiss():
        return None
    faiss = load_faiss()
    try:
        index = faiss.deserialize_index(np.frombuffer(data, dtype=np.uint8))
    except RuntimeError:
        return None
    return Codes(index) if isinstance(index, faiss.IndexPQFastScan) else None


def encoded(vectors: FloatArray, wanted: Callable[[], bool]) -> Codes:
    """Return codes of all these vectors.

    Takes less than a second for 100,000 vectors of 384 dimensions, some 10 s for 1M. Raises :class:`Abandoned` when
    they are no longer ``wanted()``.
    """
    load_faiss().omp_set_num_threads(1)
    index = _trained(vectors)
    for low in range(0, len(vectors), _BATCH):
        if not wanted():
            raise Abandoned
        index.add(_filled(vectors[low : low + _BATCH].copy()))
    # So that estimates are right on average, and not too near to what is estimated for the mean.
    _stretch(index, 1 / _KEPT)
    return Codes(index)


def _trained(vectors: FloatArray) -> Any:  # noqa: ANN401 - FAISS has no types
    faiss = load_faiss()
    size, dim = vectors.shape
    # Runs of rows from all over: as good as single ones, and read faster from a mapped file.
    run = max(1, min(size, _TRAINED_ON) // 64)
    starts = np.linspace(0, size - run, 64, dtype=np.int64).tolist()
    sample = _filled(np.concatenate([vectors[at : at + run] for at in starts]))
    letters = dim // 2 if dim % 2 == 0 else dim
    index = faiss.IndexPQFastScan(dim, letters, 4, faiss.METRIC_INNER_PRODUCT, _BLOCK)
    levels = sample.mean(axis=0)[:, np.newaxis] + np.multiply.outer(sample.std(axis=0), _LEVELS)
    faiss.copy_array_to_vector(_letters(levels, dim // letters).ravel(), index.pq.centroids)
    index.is_trained = True
    return index


def _letters(levels: NDArray[np.float64], width: int) -> NDArray[np.float32]:
    """Return the 16 letters of each ``width`` dimensions (one or two), by the four values of each dimension.

    k-means would find others. These take no time, and with so few dimensions to a letter are hardly worse.
    """
    first, last = levels[0::width], levels[width - 1 :: width]
    pairs = np.stack([np.repeat(first, 4, axis=1), np.tile(last, 4)], axis=-1)
    letters: NDArray[np.float32] = pairs[:, :, :width].astype(np.float32)
    return letters


def _stretch(index: Any, times: float) -> None:  # noqa: ANN401 - FAISS has no types
    """Stretch the values that dimensions are rounded to, away from their mean."""
    faiss = load_faiss()
    letters = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, 16, -1)
    middle = letters.mean(axis=1, keepdims=True)
    faiss.copy_array_to_vector((middle + times * (letters - middle)).ravel(), index.pq.centroids)


def _filled(vectors: FloatArray) -> FloatArray:
    """Put some direction in the place of removed vectors, which have none: their codes would be NaN."""
    vectors[~vectors.any(axis=1)] = np.float32(vectors.shape[1] ** -0.5)
    return vectors
