"""Short codes of vectors, compared quickly: two bits a dimension, in blocks that fit the processor's registers.

Each dimension is rounded to one of four values. Two of them make a letter of 4 bits, and FAISS looks up the letters of
32 vectors at a time (F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality is not enough: high-performance nearest
neighbor search with product quantization fast scan. VLDB 2015). From some hundred thousand vectors on, they lie in
cells around centres found by k-means, of which a search visits the nearest, and what is rounded is the way from the
centre.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores._extras import installed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray
    from vectorstores.matrix import Places

# From how many vectors on there are how many cells, and how many of these a search visits at first.
CELLS_FROM: Final = 400_000
CELLS: Final = 1024
VISITED: Final = 208
_TO_A_CELL: Final = 48
_TO_NONE: Final = 24_576
_BATCH: Final = 10_000
# A code block holds 32 vectors.
_BLOCK: Final = 32
# The values that a normally distributed dimension is best rounded to, in its deviations from its mean, and how much of
# a way they keep on average (S. Lloyd: Least squares quantization in PCM. IEEE Transactions on Information Theory 28,
# 1982; J. Max: Quantizing for minimum distortion. IRE Transactions on Information Theory 6, 1960).
_LEVELS: Final = np.array([-1.5104, -0.4528, 0.4528, 1.5104])
_KEPT: Final = 0.8825
# Cells that are farther than this, in deviations, have nothing that is nearer.
_FAR: Final = 5.0
# From so many vectors, the deviations.
_MEASURED: Final = 16_384


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
        self.cells = int(getattr(index, "nlist", 0))
        self.visited = int(getattr(index, "nprobe", 0))
        """How many cells are worth a visit at first."""
        if self.cells:
            faiss = load_faiss()
            letters = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, 16, -1)
            self._centres: FloatArray = faiss.downcast_index(index.quantizer).reconstruct_n(0, self.cells)
            self._deviations = np.ptp(letters, axis=1).ravel() * _KEPT / np.ptp(_LEVELS)
            self._sizes = self._measured()

    @property
    def count(self) -> int:
        """Number of vectors that have codes."""
        return int(self._index.ntotal)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes: two bits a dimension, and a number for each that lies in a cell."""
        return self.count * (int(self._index.d) // 4 + 8)

    def nearest(self, vector: FloatArray, count: int, visits: int) -> tuple[Places, NDArray[np.float32]]:
        """Return up to ``count`` positions that seem nearest, and estimates of their products with the vector.

        They are of the nearest ``visits`` cells, if there are cells.
        """
        faiss = load_faiss()
        # Holds for this thread alone, as OpenMP has it.
        faiss.omp_set_num_threads(1)
        wanted = min(count, self.count)
        estimates, places = np.empty(wanted, dtype=np.float32), np.empty(wanted, dtype=np.int64)
        where = faiss.SearchParametersIVF(nprobe=min(visits, self.cells)) if self.cells else None
        # What FAISS puts around this call for Python takes a tenth of the time.
        pointer = faiss.swig_ptr
        query = np.ascontiguousarray(vector)
        self._index.search_c(1, pointer(query), wanted, pointer(estimates), pointer(places), where)
        known = (places >= 0) & np.isfinite(estimates)
        return (places, estimates) if known.all() else (places[known], estimates[known])

    def visits_for(self, vector: FloatArray, score: float, missed: float) -> int:
        """Return how many cells have to be visited, so that in all others no more than ``missed`` vectors are to be
        expected whose product is higher than ``score``.

        What is left of a vector beside its centre is taken as normally distributed, as its rounding does.
        """
        if not self.cells:
            return 0
        nearness = self._centres @ vector
        order = np.argsort(-nearness)
        spread = math.sqrt(float(np.square(vector) @ np.square(self._deviations)))
        beyond = (score - nearness[order]) / max(math.sqrt(2.0) * spread, 1e-9)
        near = int(np.searchsorted(beyond, _FAR))
        shares = np.array([math.erfc(each) / 2.0 for each in beyond[:near].tolist()])
        # What would be missed by visiting none, one, two and so on.
        expected = np.cumsum((self._sizes[order[:near]] * shares)[::-1])[::-1]
        return int(np.count_nonzero(expected > missed))

    def _measured(self) -> NDArray[np.int64]:
        lists = self._index.invlists
        return np.array([lists.list_size(cell) for cell in range(self.cells)], dtype=np.int64)

    def extend(self, vectors: FloatArray) -> None:
        """Add the codes of the vectors at the positions that follow; not while others search."""
        faiss = load_faiss()
        faiss.omp_set_num_threads(1)
        _stretch(faiss, self._index, _KEPT)
        try:
            self._index.add(_filled(vectors))
        finally:
            _stretch(faiss, self._index, 1 / _KEPT)
        if self.cells:
            self._sizes = self._measured()

    def to_bytes(self) -> memoryview:
        """Return all of it."""
        return memoryview(load_faiss().serialize_index(self._index))


def restored(data: memoryview) -> Codes | None:
    """Return codes that were written by :meth:`Codes.to_bytes`.

    None without FAISS, and if another version of it wrote them.
    """
    if not has_faiss():
        return None
    try:
        return Codes(load_faiss().deserialize_index(np.frombuffer(data, dtype=np.uint8)))
    except RuntimeError:
        return None


def encoded(vectors: FloatArray, wanted: Callable[[], bool]) -> Codes:
    """Return codes of all these vectors.

    Takes less than a second for 100,000 vectors of 384 dimensions, some 10 s for 1M. Raises :class:`Abandoned` when
    they are no longer ``wanted()``.
    """
    faiss = load_faiss()
    faiss.omp_set_num_threads(1)
    index = _trained(faiss, vectors)
    for low in range(0, len(vectors), _BATCH):
        if not wanted():
            raise Abandoned
        index.add(_filled(vectors[low : low + _BATCH].copy()))
    # So that estimates are right on average, and not too near to what is estimated for the centre.
    _stretch(faiss, index, 1 / _KEPT)
    return Codes(index)


def _trained(faiss: Any, vectors: FloatArray) -> Any:  # noqa: ANN401 - FAISS has no types
    size, dim = vectors.shape
    cells = CELLS if size >= CELLS_FROM else 0
    # Runs of rows from all over: as good as single ones, and read faster from a mapped file.
    run = max(1, min(size, _TO_A_CELL * cells or _TO_NONE) // 64)
    starts = np.linspace(0, size - run, 64, dtype=np.int64).tolist()
    sample = _filled(np.concatenate([vectors[at : at + run] for at in starts]))
    letters = dim // 2 if dim % 2 == 0 else dim
    kind = (letters, 4, faiss.METRIC_INNER_PRODUCT, _BLOCK)
    if not cells:
        index = faiss.IndexPQFastScan(dim, *kind)
    else:
        centres = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFPQFastScan(centres, dim, cells, *kind)
        # The index keeps a bare pointer to it.
        index.referenced_objects = [centres]
        index.by_residual = True
        index.cp.niter = 8
        index.cp.min_points_per_centroid = 1
        index.nprobe = min(VISITED, cells)
        index.train_q1(len(sample), faiss.swig_ptr(sample), False, faiss.METRIC_INNER_PRODUCT)  # noqa: FBT003
        sample = sample[:: -(-len(sample) // _MEASURED)]
        _, nearest = centres.search(sample, 1)
        sample = sample - centres.reconstruct_n(0, cells)[nearest[:, 0]]
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


def _stretch(faiss: Any, index: Any, times: float) -> None:  # noqa: ANN401 - FAISS has no types
    """Stretch the values that dimensions are rounded to, away from their mean."""
    letters = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, 16, -1)
    middle = letters.mean(axis=1, keepdims=True)
    faiss.copy_array_to_vector((middle + times * (letters - middle)).ravel(), index.pq.centroids)


def _filled(vectors: FloatArray) -> FloatArray:
    """Put some direction in the place of removed vectors, which have none: their codes would be NaN."""
    vectors[~vectors.any(axis=1)] = np.float32(vectors.shape[1] ** -0.5)
    return vectors
