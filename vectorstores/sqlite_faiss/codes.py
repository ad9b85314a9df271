"""Short codes of vectors, compared quickly: two bits a dimension, in blocks that fit the processor's registers.

Each pair of dimensions is rounded to one of 16 values, a letter of 4 bits, and FAISS looks up the letters of 32 vectors
at a time (F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality is not enough: high-performance nearest neighbor
search with product quantization fast scan. VLDB 2015).
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

# So many vectors, and rounds of k-means, are enough for 16 values of two dimensions: with 25 rounds over three times as
# many vectors no more was found.
_TRAINED_ON: Final = 8192
_ROUNDS: Final = 4
_BATCH: Final = 10_000
# A code block holds 32 vectors.
_BLOCK: Final = 32


class Abandoned(Exception):  # noqa: N818 - no error: the store is being closed, or others changed too much
    """The work is no longer wanted."""


@cache
def has_faiss() -> bool:
    """Whether there is FAISS to make codes, which are not needed for being right; does not load it."""
    return installed("faiss")


def load_faiss() -> Any:  # noqa: ANN401 - its types don't know how Python calls it
    """Return the module ``faiss``, for work in one thread; where :func:`has_faiss`."""
    faiss = importlib.import_module("faiss")
    # Holds for this thread alone, as OpenMP has it.
    faiss.omp_set_num_threads(1)
    return faiss


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
        load_faiss()
        estimates, places = self._index.search(vector[np.newaxis], min(count, self.count))
        known = places[0] >= 0
        return places[0][known], estimates[0][known]

    def extend(self, vectors: FloatArray) -> None:
        """Add the codes of the vectors at the positions that follow; not while others search."""
        load_faiss()
        self._index.add(vectors)

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


def encoded(gather: Callable[[Places], FloatArray], places: Places, wanted: Callable[[], bool]) -> Codes:
    """Return codes of the vectors at these positions, which ``gather`` returns some of.

    Takes a second or so for 100,000 vectors of 384 dimensions, some 10 s for 1M. Raises :class:`Abandoned` when
    they are no longer ``wanted()``.
    """
    faiss = load_faiss()
    # From all over; some of them twice where there are fewer.
    sample = gather(places[np.linspace(0, len(places) - 1, _TRAINED_ON, dtype=np.int64)])
    dim = sample.shape[1]
    letters = dim // 2 if dim % 2 == 0 else dim
    index = faiss.IndexPQFastScan(dim, letters, 4, faiss.METRIC_INNER_PRODUCT, _BLOCK)
    index.pq.cp.niter = _ROUNDS
    index.train(sample)
    for low in range(0, len(places), _BATCH):
        if not wanted():
            raise Abandoned
        index.add(gather(places[low : low + _BATCH]))
    return Codes(index)
