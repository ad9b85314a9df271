"""Short codes of vectors, compared quickly: two bits a dimension, in blocks that fit the processor's registers.

Each dimension is rounded to one of four values. Two of them make a letter of 4 bits, and FAISS looks up the letters of
32 vectors at a time (F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality is not enough: high-performance nearest
neighbor search with product quantization fast scan. VLDB 2015). From some ten thousand vectors on, they lie in cells
around centres found by k-means, of which a search visits the nearest, and what is rounded is the way from the centre.
"""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores._vectors import numpy_product
from vectorstores.base import MissingDependencyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._vectors import Parts
    from vectorstores.base import FloatArray

# From how many vectors on there are how many cells, and how many of these a search visits. Fewer would do for clusters,
# not for vectors that lie evenly.
LEVELS: Final = ((400_000, 1024, 208), (60_000, 128, 80))
_TO_A_CELL: Final = 48
_TO_NONE: Final = 24_576
_BATCH: Final = 10_000
# Below this size, numpy's product is the faster one.
_CACHED: Final = 4 * 2**20
# A code block holds 32 vectors.
_BLOCK: Final = 32
# The values that a normally distributed dimension is best rounded to, in its deviations from its mean, and how much of
# a way they keep on average (S. Lloyd: Least squares quantization in PCM. IEEE Transactions on Information Theory 28,
# 1982; J. Max: Quantizing for minimum distortion. IRE Transactions on Information Theory 6, 1960).
_LEVELS: Final = np.array([-1.5104, -0.4528, 0.4528, 1.5104])
_KEPT: Final = 0.8825
# From so many vectors, the deviations.
_MEASURED: Final = 16_384


class Abandoned(Exception):  # noqa: N818 - no error: the store is being closed
    """The codes are no longer wanted."""


def require_faiss() -> None:
    """Raise :class:`MissingDependencyError` if FAISS is not installed; does not load it."""
    if importlib.util.find_spec("faiss") is None:
        raise MissingDependencyError(
            'a store on disk needs FAISS, which is not installed: pip install "jeeves-reflexion[faiss]"'
        )


@cache
def load_faiss() -> Any:  # noqa: ANN401 - its types don't know how Python calls it
    """Return the module ``faiss``, which takes a moment to load and is optional."""
    require_faiss()
    return importlib.import_module("faiss")


def faiss_product(matrix: FloatArray, vector: FloatArray, out: NDArray[np.float32]) -> None:
    """See :class:`vectorstores._vectors.Product`: twice as fast as numpy's for matrices beyond the caches."""
    if matrix.nbytes <= _CACHED:
        numpy_product(matrix, vector, out)
        return
    faiss = load_faiss()
    pointer = faiss.swig_ptr
    faiss.fvec_inner_products_ny(pointer(out), pointer(vector), pointer(matrix), matrix.shape[1], len(matrix))


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes of the positions 0 to ``count``. Searched by many threads at once, and never changed."""

    index: Any
    count: int
    trained: int
    """How many vectors there were when the centres were chosen."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes: two bits a dimension, and a number for each that lies in a cell."""
        return self.count * (int(self.index.d) // 4 + 8)

    def nearest(
        self, query: FloatArray, count: int, *, widen: float = 1.0
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return up to ``count`` positions that seem nearest, and estimates of their products with the query.

        They are of the nearest cells, of ``widen`` times as many as usual, which may hold fewer; of all of them with
        infinity.
        """
        faiss = load_faiss()
        # Holds for this thread alone, as OpenMP has it.
        faiss.omp_set_num_threads(1)
        visits = None
        if widen != 1.0:
            cells = getattr(self.index, "nlist", 0)
            visits = cells and faiss.SearchParametersIVF(nprobe=int(min(cells, widen * self.index.nprobe)))
        wanted = min(count, self.count)
        estimates, places = np.empty(wanted, dtype=np.float32), np.empty(wanted, dtype=np.int64)
        # What FAISS puts around this call for Python takes a tenth of the time.
        pointer = faiss.swig_ptr
        self.index.search_c(
            1,
            pointer(np.ascontiguousarray(query)),
            wanted,
            pointer(estimates),
            pointer(places),
            visits or None,
        )
        known = (places >= 0) & np.isfinite(estimates)
        return (places, estimates) if known.all() else (places[known], estimates[known])

    def to_bytes(self) -> memoryview:
        """Return all of it but the counts."""
        return memoryview(load_faiss().serialize_index(self.index))


def restored(data: bytes | memoryview, trained: int) -> Codes:
    """Return codes that were written by :meth:`Codes.to_bytes`."""
    index = load_faiss().deserialize_index(np.frombuffer(data, dtype=np.uint8))
    return Codes(index, int(index.ntotal), trained)


def encoded(vectors: Parts, wanted: Callable[[], bool], *, like: Codes | None = None) -> Codes:
    """Return codes of all these vectors; with ``like``, of those that it does not hold, added to its own.

    Takes less than a second for 100,000 vectors of 384 dimensions, some 10 s for 1M. Raises :class:`Abandoned` when
    they are no longer ``wanted()``.
    """
    faiss = load_faiss()
    faiss.omp_set_num_threads(1)
    if like is None:
        index, start, trained = _trained(faiss, vectors), 0, len(vectors)
    else:
        index = faiss.deserialize_index(faiss.serialize_index(like.index))
        _stretch(faiss, index, _KEPT)
        start, trained = like.count, like.trained
    for low in range(start, len(vectors), _BATCH):
        if not wanted():
            raise Abandoned
        index.add(_filled(vectors.between(low, min(low + _BATCH, len(vectors)))))
    # So that estimates are right on average, and not too near to what is estimated for the centre.
    _stretch(faiss, index, 1 / _KEPT)
    return Codes(index, len(vectors), trained)


def _trained(faiss: Any, vectors: Parts) -> Any:  # noqa: ANN401 - FAISS has no types
    dim = vectors.first.shape[1]
    cells, visited = next((level[1:] for level in LEVELS if len(vectors) >= level[0]), (0, 0))
    count = min(len(vectors), _TO_A_CELL * cells or _TO_NONE)
    # Runs of rows from all over: as good as single ones, and read faster from a mapped file.
    starts = (
        np.linspace(0, len(vectors) - count // 64, 64, dtype=np.int64) if count >= 64 else np.zeros(1, int)
    )
    run = count // 64 if count >= 64 else count
    sample = _filled(np.concatenate([vectors.between(int(at), int(at) + run) for at in starts]))
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
        index.nprobe = visited
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


def checksum(*parts: bytes | memoryview) -> int:
    """Return the CRC-32 of these bytes."""
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value
