"""Maximal marginal relevance: near to the query, and not all saying the same.

J. Carbonell, J. Goldstein: The use of MMR, diversity-based reranking for reordering documents and producing
summaries. SIGIR 1998.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray


def mmr(scores: NDArray[np.float64], vectors: FloatArray, *, k: int, diversity: float) -> list[int]:
    """Choose up to ``k`` of ``n`` candidates, one after the other, and return their positions in that order.

    Each time the candidate with the highest ``(1 - diversity) * score - diversity * similarity`` is taken,
    where the similarity is that to the nearest one already taken; among equals, the first. ``scores`` has
    shape ``(n,)``: the cosine similarity of each candidate to the query. ``vectors`` has shape ``(n, dim)``,
    rows of unit length. ``diversity`` lies in [0, 1]: 0 orders by score, 1 looks at the score for the first
    choice alone.
    """
    count = len(scores)
    relevance = (1.0 - diversity) * scores
    # The first choice has nothing to differ from: it is the best candidate, at any diversity.
    similarity = np.zeros(count)
    taken = np.zeros(count, dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(k, count):
        value = relevance - diversity * similarity if chosen else scores
        best = int(np.argmax(np.where(taken, -np.inf, value)))
        nearness = (vectors @ vectors[best]).astype(np.float64)
        similarity = np.maximum(similarity, nearness) if chosen else nearness
        taken[best] = True
        chosen.append(best)
    return chosen
