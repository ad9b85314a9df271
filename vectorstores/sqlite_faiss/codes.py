"""Short codes of vectors for quick comparison: two bits per dimension, in blocks that fit the processor's registers.

Each pair of dimensions is rounded to one of 16 values (4 bits), and FAISS looks up those of 32 vectors at a time
(F. André, A.-M. Kermarrec, N. Le Scouarnec: Cache locality is not enough: high-performance nearest neighbor search with
product quantization fast scan. VLDB 2015).
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

# Vectors and rounds of k-means to find the 16 values of two dimensions: 25 rounds over three times as many vectors did
# not improve recall.
_TRAINED_ON: Final = 8192
_ROUNDS: Final = 4
_BATCH: Final = 10_000
# A code block holds 32 vectors.
_BLOCK: Final = 32


class Abandoned(Exception):  # noqa: N818 - not an error: the store is closing, or others changed too much
    """The codes or the file are no longer wanted."""


@cache
def has_faiss() -> bool:
    """Whether FAISS is installed, which makes codes and is needed for speed only. Does not load it."""
    return installed("faiss")


def load_faiss() -> Any:  # noqa: ANN401 - its type hints don't fit its Python calls
    """Return the module ``faiss``, set to work in one thread. Call it only if :func:`has_faiss`."""
    faiss = importlib.import_module("faiss")
    # OpenMP applies this to the calling thread only.
    faiss.omp_set_num_threads(1)
    return faiss


class Codes:
    """Codes of the first ``count`` positions."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - FAISS has no types
        self._index = index

    @property
    def count(self) -> int:
        """Number of vectors that have codes."""
        return int(self._index.ntotal)

    def nearest(self, vector: FloatArray, count: int) -> tuple[Places, NDArray[np.float32]]:
        """Return up to ``count`` positions that seem nearest, and their estimated products with the vector."""
        load_faiss()
        estimates, places = self._index.search(vector[np.newaxis], min(count, self.count))
        known = places[0] >= 0
        return places[0][known], estimates[0][known]

    def extend(self, vectors: FloatArray) -> None:
        """Add codes for the vectors at the next positions. No search may run meanwhile."""
        load_faiss()
        self._index.add(vectors)

    def to_bytes(self) -> memoryview:
        """Return the codes as bytes."""
        return memoryview(load_faiss().serialize_index(self._index))


def restored(data: memoryview) -> Codes | None:
    """Return the codes that :meth:`Codes.to_bytes` wrote.

    Returns None without FAISS, and if another version of it, or of this package, wrote them.
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
    """Return codes of the vectors at these positions; ``gather`` returns the vectors at some positions.

    Takes about a second for 100,000 vectors of 384 dimensions, and 10 s for 1M. Raises :class:`Abandoned` when the
    codes are no longer ``wanted()``.
    """
    faiss = load_faiss()
    # Evenly spread; if there are fewer vectors, some are taken twice.
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
