"""Vectors in a FAISS index, searched exactly, filters and all."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores.base import MissingDependencyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray

# Removed rows keep their place, as zero vectors, until the table is packed. So few are passed over by asking
# for as many more; more are kept out by a selector.
_FEW: Final = 64
# Up to this size one thread is quick enough, and a second one would mostly spin.
_ONE_THREAD: Final = 200_000


def require_faiss() -> None:
    """Raise :class:`MissingDependencyError` if FAISS is not installed; does not load it."""
    if importlib.util.find_spec("faiss") is None:
        raise MissingDependencyError(
            'a store on disk needs FAISS, which is not installed: pip install "jeeves-reflexion[faiss]"'
        )


def load_faiss() -> Any:  # noqa: ANN401 - its types don't know how Python calls it
    """Return the module ``faiss``, which takes a moment to load and is optional."""
    require_faiss()
    return importlib.import_module("faiss")


class FaissBlock:
    """Vectors in an ``IndexFlatIP``; the index holds the only copy."""

    def __init__(self, dim: int, index: Any = None) -> None:  # noqa: ANN401 - see load_faiss
        self._faiss = load_faiss()
        self._dim = dim
        self.index = self._faiss.IndexFlatIP(dim) if index is None else index
        self._view = self._map()

    def _map(self) -> FloatArray:
        if self.index.ntotal == 0:
            return np.empty((0, self._dim), dtype=np.float32)
        flat = self._faiss.rev_swig_ptr(self.index.get_xb(), self.index.ntotal * self._dim)
        view: FloatArray = flat.reshape(self.index.ntotal, self._dim)
        return view

    @property
    def matrix(self) -> FloatArray:
        """See :class:`~vectorstores._table.Block`."""
        return self._view

    def append(self, vectors: FloatArray) -> None:
        """See :class:`~vectorstores._table.Block`."""
        self.index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        self._view = self._map()

    def top(self, query: FloatArray, k: int, usable: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """See :class:`~vectorstores._table.Block`."""
        excluded = 0 if usable is None else int(len(usable) - usable.sum())
        # A few more than asked for, so that the exact re-scoring afterwards has the ties in its hands.
        wanted = min(k + 16, self.index.ntotal)
        parameters = None
        if usable is not None and excluded > _FEW:
            bits = np.packbits(usable, bitorder="little")
            selector = self._faiss.IDSelectorBitmap(bits)
            parameters = self._faiss.SearchParameters(sel=selector)
        else:
            wanted = min(wanted + excluded, self.index.ntotal)
        # Holds for this thread alone, as OpenMP has it.
        self._faiss.omp_set_num_threads(1 if self.index.ntotal <= _ONE_THREAD else os.cpu_count() or 1)
        _, found = self.index.search(query[np.newaxis], wanted, params=parameters)
        places: NDArray[np.int64] = found[0][found[0] >= 0]
        return places if usable is None else places[usable[places]]
