"""Holds our BM25 against other libraries': the same scores up to a factor, and how long a query takes."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.lessons.retrieval_set import Paths, read_sets
from jeeves_reflexion.lessons.lexical import K1, B, WordIndex, words_of

_REPETITIONS: Final = 5
_NEAR: Final = 1e-4  # bm25s computes in float32

Score = Callable[[list[str]], Sequence[float]]


def against_peers(paths: Paths) -> list[dict[str, Any]]:
    """Compare with bm25s (its variant "lucene") and rank_bm25 (for time alone: its idf is another)."""
    sets = read_sets(paths)
    texts = [each.text for each in (*sets.lessons, *sets.answers)]
    queries = [each.task.prompt for each in (*sets.described, *sets.questions)]
    index = WordIndex()
    for number, text in enumerate(texts):
        index.put(str(number), text)
    tokens = [words_of(text) for text in texts]
    rows = []
    for name, make in (("bm25s", _bm25s), ("rank_bm25", _rank_bm25)):
        if importlib.util.find_spec(name) is not None:
            rows.append(_compare(name, index, make(tokens), queries, len(texts)))
    return rows


def _bm25s(tokens: list[list[str]]) -> Score:
    retriever = importlib.import_module("bm25s").BM25(method="lucene", k1=K1, b=B)
    retriever.index(tokens, show_progress=False)
    known = set(retriever.vocab_dict)

    def score(query: list[str]) -> Sequence[float]:
        # Each word once, as we do; it refuses a query none of whose words it knows.
        words = sorted(set(query) & known)
        return list(retriever.get_scores(words)) if words else [0.0] * len(tokens)

    return score


def _rank_bm25(tokens: list[list[str]]) -> Score:
    retriever = importlib.import_module("rank_bm25").BM25Okapi(tokens, k1=K1, b=B)
    return lambda query: list(retriever.get_scores(sorted(set(query))))


def _compare(name: str, index: WordIndex, score: Score, queries: Sequence[str], n: int) -> dict[str, Any]:
    equal = 0
    for query in queries:
        mine = np.zeros(n)
        for id, value in index.search(query, k=n):
            mine[int(id)] = value / (K1 + 1)  # the factor that Lucene leaves out; it changes no order
        equal += bool(np.allclose(mine, score(words_of(query)), atol=_NEAR))
    return {
        "peer": name,
        "texts": n,
        "queries": len(queries),
        "equal": equal,
        "ours": _seconds(lambda query: index.search(query, k=20), queries),
        "theirs": _seconds(lambda query: heaviest(score(words_of(query))), queries),
    }


def heaviest(scores: Sequence[float]) -> list[int]:
    """Return the places of the twenty highest scores."""
    return [int(at) for at in np.argsort(scores)[::-1][:20]]


def _seconds(search: Callable[[str], object], queries: Sequence[str]) -> float:
    """Median over repetitions of the mean time of a query, in seconds of this process."""
    taken = []
    for _ in range(_REPETITIONS):
        began = time.process_time()
        for query in queries:
            search(query)
        taken.append((time.process_time() - began) / len(queries))
    return statistics.median(taken)
