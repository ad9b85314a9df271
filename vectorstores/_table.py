"""Vectors of one namespace, found exactly, or by codes that propose candidates for an exact ranking."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores._vectors import Growing, Vectors, numpy_product
from vectorstores.mmr import mmr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._codes import Codes
    from vectorstores._engine import Query
    from vectorstores._vectors import Product
    from vectorstores.base import FloatArray

# Products of float32 rows depend on their place in the matrix in the last digits. Candidates within this
# distance of the k-th are scored again in float64, so that equal vectors get equal scores and the earlier one
# wins.
_SLACK: Final = 1e-5
# Above this share of the rows, gathering them for a product costs more than it saves.
_GATHER_SHARE: Final = 0.3
# So few rows are scored exactly, whatever the index.
_GATHER: Final = 16_000
# Of so few numbers the exact products take a tenth of a millisecond, less than the codes.
_FEW: Final = 500_000
# Candidates asked of the codes, per result and at least; and how many times as many when the first ones leave a doubt.
_PER_RESULT: Final = 20
_AT_LEAST: Final = 100
_AGAIN: Final = (1, 5, 20)
# From how many times as many cells these come.
_WIDEN: Final = 2.0
# Products with so many numbers take some ten milliseconds, which is borne where the codes leave a doubt.
_BEARABLE: Final = 150_000 * 384
# A rank is trusted when the last candidate's estimate lies so many of its typical errors below.
_ERRORS: Final = 3.0
# Above this share of the rows, codes cost more than they save.
_CODES_SHARE: Final = 0.1
# Vectors have the length 1, but for what float32 can't hold.
_OFF: Final = 1e-3
_NO_PLACES: Final = np.empty(0, dtype=np.int64)


class ChangedFileError(Exception):
    """What is mapped is not what was written: somebody else changed the file in its place."""


def best_positions(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the positions of the ``k`` highest scores and of those that can't be told from the ``k``-th."""
    if k >= len(scores):
        return np.flatnonzero(scores > -np.inf)
    bound = np.partition(scores, len(scores) - k)[len(scores) - k]
    if bound == -np.inf:
        return np.flatnonzero(scores > -np.inf)
    # Called for every search: half the time of flatnonzero.
    places: NDArray[np.int64] = (scores >= bound - _SLACK).nonzero()[0]
    return places


class VectorTable:
    """Rows and their vectors. Row numbers only grow; a removed one never comes back."""

    def __init__(self, dim: int, first: FloatArray | None = None, product: Product = numpy_product) -> None:
        """``first`` are the vectors of rows that :meth:`name_first` tells."""
        self.dim = dim
        self.vectors = Vectors(dim, first, product)
        self.dead = 0
        self.codes: Codes | None = None
        self.outdated: NDArray[np.int64] = _NO_PLACES
        """Positions whose vectors were replaced since they were coded, ascending."""
        self._rows = Growing(dtype=np.int64)
        self._alive = Growing(dtype=np.bool_)

    def name_first(self, rows: NDArray[np.int64], alive: NDArray[np.bool_]) -> None:
        """Say which rows the first vectors are, and which of them have not been removed."""
        self._rows.append(rows)
        self._alive.append(alive)
        self.dead = len(alive) - int(np.count_nonzero(alive))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row number at each position, ascending."""
        return self._rows.view

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Whether the row at each position has not been removed."""
        return self._alive.view

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, but for mapped files."""
        codes = 0 if self.codes is None else self.codes.nbytes
        return (
            self.vectors.nbytes + self._rows.nbytes + self._alive.nbytes + int(self.outdated.nbytes) + codes
        )

    def __len__(self) -> int:
        """Number of rows that have not been removed."""
        return len(self.rows) - self.dead

    def find(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of those rows that are there."""
        if not len(self.rows):
            return _NO_PLACES
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        found: NDArray[np.int64] = places[(self.rows[places] == rows) & self.alive[places]]
        return found

    def packed(self) -> VectorTable:
        """Return a copy without the places of removed rows, and without codes."""
        copy = VectorTable(self.dim, product=self.vectors.product)
        places = np.flatnonzero(self.alive)
        copy.put(self.rows[places], self.vectors.gather(places))
        return copy

    def put(self, rows: NDArray[np.int64], vectors: FloatArray) -> NDArray[np.int64]:
        """Add rows, or replace the vectors of those that are there, and return the positions of these.

        ``rows`` ascends; new ones come last.
        """
        last = self.rows[-1] if len(self.rows) else np.int64(-1)
        fresh = rows > last
        places = np.searchsorted(self.rows, rows[~fresh])
        if len(places):
            self.vectors.put(places, vectors[~fresh])
            if self.codes is not None:
                self.outdated = np.union1d(self.outdated, places[places < self.codes.count])
        if fresh.any():
            self.vectors.append(vectors[fresh])
            self._rows.append(rows[fresh])
            self._alive.append(np.ones(int(fresh.sum()), dtype=np.bool_))
        return places

    def remove(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Remove rows that are there and return their positions; their vectors are overwritten."""
        places = np.unique(self.find(rows))
        if len(places):
            self.vectors.put(places, 0.0)
            self.alive[places] = False
            self.dead += len(places)
        return places

    def search(self, query: Query, mask: NDArray[np.bool_] | None) -> list[tuple[int, float]]:
        """Return rows with their scores, best first. ``mask`` says which positions the filter admits.

        Raises :class:`ChangedFileError` where what it meets can't be right.
        """
        if self.vectors.is_cut:
            raise ChangedFileError
        usable = self.alive if self.dead else None
        if mask is not None:
            usable = mask if usable is None else usable & mask
        wanted = query.k if query.diversity == 0.0 else max(4 * query.k, query.k + 20)
        places = self._candidates(query.vector, wanted, usable, filtered=mask is not None)
        vectors = self.vectors.gather(places)
        if self.vectors.is_mapped:
            there = len(self.rows) if usable is None else int(np.count_nonzero(usable))
            # NaN is in no order, and whatever else was written over vectors has not the length of one.
            lengths = np.einsum("ij,ij->i", vectors, vectors)
            if len(places) < min(wanted, there) or not (np.abs(lengths - 1.0) < _OFF).all():
                raise ChangedFileError
        scores = vectors.astype(np.float64) @ query.vector.astype(np.float64)
        np.minimum(np.maximum(scores, -1.0, out=scores), 1.0, out=scores)
        # Equal rows may still differ in the last bit: rounded away, far below the precision of float32.
        scores.round(9, out=scores)
        order = np.lexsort((places, -scores))[:wanted]
        if query.min_score > -1.0:
            order = order[scores[order] >= query.min_score]
        if query.diversity:
            order = order[mmr(scores[order], vectors[order], k=query.k, diversity=query.diversity)]
        return list(zip(self.rows[places[order]].tolist(), scores[order].tolist(), strict=True))

    def _candidates(
        self, vector: FloatArray, k: int, usable: NDArray[np.bool_] | None, *, filtered: bool
    ) -> NDArray[np.int64]:
        admitted = len(self.rows) if usable is None else int(np.count_nonzero(usable))
        least = _FEW // self.dim if usable is None else min(_GATHER, len(usable) // 2)
        if self.codes is not None and admitted > least:
            found, sure = self._by_codes(self.codes, vector, min(k, admitted), usable, admitted)
            # Among all rows of many, the candidates are good ones even in doubt.
            if sure or (len(found) and not filtered and len(self.rows) * self.dim > _BEARABLE):
                return found
        if usable is not None and admitted <= _GATHER_SHARE * len(usable):
            chosen = np.flatnonzero(usable)
            return chosen[best_positions(self.vectors.products_at(vector, chosen), k)]
        scores = self.vectors.products(vector)
        if usable is not None:
            scores[~usable] = -np.inf
        return best_positions(scores, k)

    def _by_codes(
        self, codes: Codes, vector: FloatArray, k: int, usable: NDArray[np.bool_] | None, admitted: int
    ) -> tuple[NDArray[np.int64], bool]:
        """Return the best of the candidates that the codes name and of the rows without codes, and whether that is
        sure enough.

        There may be none of them, if the exact way is the better one.
        """
        size = len(self.rows)
        # So many candidates, that about the wanted number is admitted.
        count = int(max(_PER_RESULT * k, _AT_LEAST) * size / admitted)
        if count > max(_CODES_SHARE * size, _AT_LEAST):
            return _NO_PLACES, False
        loose, scores = self._loose(codes, vector, usable)
        best = _NO_PLACES
        for times in _AGAIN:
            attempt = times * count
            if times > 1 and attempt > _CODES_SHARE * size:
                return _NO_PLACES, False
            places, estimates = codes.nearest(vector, attempt, widen=1.0 if times == 1 else _WIDEN)
            if len(places) < min(attempt, codes.count):
                places, estimates = codes.nearest(vector, attempt, widen=math.inf)
            complete = len(places) == codes.count
            floor = -np.inf if complete else float(estimates.min(initial=np.inf))
            if usable is not None or len(self.outdated):
                kept = np.ones(len(places), dtype=np.bool_) if usable is None else usable[places]
                kept &= ~np.isin(places, self.outdated)
                places, estimates = places[kept], estimates[kept]
            exact = self.vectors.products_at(vector, places)
            wrong = estimates - exact
            error = math.sqrt(float(wrong @ wrong) / len(wrong)) if len(wrong) else math.inf
            if len(loose):
                places, exact = np.concatenate([places, loose]), np.concatenate([exact, scores])
            if len(exact) >= k:
                kth = np.partition(exact, len(exact) - k)[len(exact) - k]
                best = places[exact >= kth - _SLACK]
                if complete or kth - floor >= _ERRORS * error:
                    return best, True
        return best, False

    def _loose(
        self, codes: Codes, vector: FloatArray, usable: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the positions that the codes don't know, or not as they are, with their exact scores."""
        size = len(self.rows)
        if codes.count == size and not len(self.outdated):
            return _NO_PLACES, np.empty(0, dtype=np.float32)
        places = np.concatenate([self.outdated, np.arange(codes.count, size)])
        scores = np.concatenate(
            [
                self.vectors.products_at(vector, self.outdated),
                self.vectors.products(vector, codes.count),
            ]
        )
        if usable is not None:
            places, scores = places[usable[places]], scores[usable[places]]
        return places, scores
