"""Diversity re-ranking."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vectorstores.mmr import mmr


def candidates(seed: int, count: int, dim: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count + 1, dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows[1:] @ rows[0]).astype(np.float64), rows[1:]


def plain(scores, vectors, k, diversity):
    """The definition, candidate by candidate."""
    chosen: list[int] = []
    while len(chosen) < min(k, len(scores)):

        def value(i):
            if not chosen:
                return scores[i]
            nearest = max(float(vectors[i] @ vectors[j]) for j in chosen)
            return (1 - diversity) * scores[i] - diversity * nearest

        chosen.append(max((i for i in range(len(scores)) if i not in chosen), key=value))
    return chosen


@given(
    st.integers(0, 10**6), st.integers(0, 12), st.integers(1, 15), st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])
)
def test_it_is_the_definition(seed, count, k, diversity):
    scores, vectors = candidates(seed, count)
    assert mmr(scores, vectors, k=k, diversity=diversity) == plain(scores, vectors, k, diversity)


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_without_diversity_it_orders_by_score(seed, count):
    scores, vectors = candidates(seed, count)
    assert mmr(scores, vectors, k=count, diversity=0.0) == list(np.argsort(-scores, kind="stable"))


def test_a_repetition_comes_last():
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    scores = np.array([0.9, 0.9, 0.4])
    assert mmr(scores, vectors, k=3, diversity=0.5) == [0, 2, 1]
