"""The vectors lie as they should, and the exact answers are exact."""

import numpy as np
import pytest

from benchmarks.vectorstores.vectors import (
    KEY,
    SHARES,
    clustered,
    exact,
    identity,
    recall,
)


def test_the_same_seed_gives_the_same_unit_vectors() -> None:
    one, same, other = clustered(500, 10), clustered(500, 10), clustered(500, 10, seed=1)
    assert np.array_equal(one.vectors, same.vectors)
    assert np.array_equal(one.queries, same.queries)
    assert not np.array_equal(one.vectors, other.vectors)
    for vectors in (one.vectors, one.queries):
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_neighbours_are_near_and_strangers_far() -> None:
    corpus = clustered(2_000, 50)
    scores = np.sort(corpus.vectors @ corpus.queries.T, axis=0)[::-1]
    assert np.median(scores[0]) > 0.9
    assert np.median(scores[4]) > 0.6
    assert np.median(scores[1_000]) < 0.1


def test_as_many_rows_have_a_value_as_it_says() -> None:
    corpus = clustered(20_000, 1, dim=4)
    for value, share in SHARES.items():
        assert (corpus.labels == value).mean() == pytest.approx(share, rel=0.3)


def test_exact_answers_are_those_of_a_full_sort() -> None:
    corpus = clustered(300, 20, dim=8)
    admitted = corpus.labels == "some"
    for mask in (None, admitted):
        for query, found in zip(corpus.queries, exact(corpus, mask), strict=True):
            scores = corpus.vectors @ query
            if mask is not None:
                scores[~mask] = -2
            assert found == [int(place) for place in np.argsort(-scores)[:5]]


def test_fewer_rows_than_asked_for_are_all_found() -> None:
    corpus = clustered(3, 1, dim=4)
    assert sorted(exact(corpus)[0]) == [0, 1, 2]


def test_recall_counts_what_was_found_of_what_was_wanted() -> None:
    wanted = [[1, 2], [3, 4]]
    assert recall([[identity(2), identity(1)], [identity(4), identity(3)]], wanted) == 1.0
    assert recall([[identity(1), identity(9)], []], wanted) == 0.25


def test_chunks_have_their_rows_label_and_repeat_vectors_with_other_ids() -> None:
    corpus = clustered(100, 5, dim=8)
    chunk, again = corpus.chunk(39), corpus.chunk(139)
    assert chunk.vector is not None
    assert chunk.metadata[KEY] == corpus.labels[39]
    assert np.array_equal(again.vector, chunk.vector)
    assert again.id != chunk.id
