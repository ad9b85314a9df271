"""Vectors that lie as those of texts do, the metadata beside them, and the exact answers to hold others against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores import AbsentEmbedder, Chunk, Origin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import JSON, FloatArray

DIM: Final = 384
MEMBERS: Final = 50
"""Vectors to a cluster, on average."""
NEAREST: Final = 5
DECLARED: Final = "kind"
UNDECLARED: Final = "shade"
SHARES: Final = {"rare": 0.01, "some": 0.1}
"""What share of the rows has which value, under both keys; the others have the value ``other``."""
_BATCH: Final = 50_000
_TEXT: Final = "When the drawer is shut, open it before you look for the {0}; it was in there in run {1} too."


@dataclass(frozen=True, slots=True)
class Corpus:
    """``n`` unit vectors of shape ``(n, dim)`` with queries near some of them; ``labels`` by metadata key."""

    vectors: FloatArray
    queries: FloatArray
    labels: dict[str, NDArray[np.str_]]

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    def first(self, n: int) -> Corpus:
        """Return the first ``n`` rows, with the same queries."""
        return Corpus(
            self.vectors[:n], self.queries, {key: labels[:n] for key, labels in self.labels.items()}
        )

    def metadata(self, place: int) -> dict[str, JSON]:
        """Return the metadata of a row: both keys and what a lesson carries besides."""
        keys: dict[str, JSON] = {key: str(labels[place]) for key, labels in self.labels.items()}
        return keys | {"run": f"run-{place % 97}", "score": (place % 11) / 10, "trial": place % 4}

    def chunk(self, place: int) -> Chunk:
        """Return a row as a chunk that brings its vector."""
        return Chunk(text(place), identity(place), self.metadata(place), vector=self.vectors[place])

    def batches(self, start: int, stop: int, size: int = 5_000) -> Iterator[list[Chunk]]:
        """Yield the rows of a range as chunks."""
        for first in range(start, stop, size):
            yield [self.chunk(place) for place in range(first, min(first + size, stop))]


def identity(place: int) -> str:
    """Return the id of a row: 32 characters, as ids are."""
    return f"{place:032x}"


def text(place: int) -> str:
    """Return the content of a row, about as long as a lesson."""
    return _TEXT.format(place * 7919, place)


def clustered(n: int, queries: int, *, dim: int = DIM, seed: int = 0) -> Corpus:
    """Return ``n`` vectors around ``n / 50`` centres, each at a distance of its own, and perturbed members as queries.

    Two members of a cluster have a cosine similarity of 0.5 to 0.9, a query and its member about 0.95, and strangers
    about 0: close neighbours and far strangers, as with the embeddings of texts on many subjects.
    """
    rng = np.random.default_rng(seed)
    centres = _unit(rng.standard_normal((max(1, n // MEMBERS), dim), dtype=np.float32))
    vectors = np.empty((n, dim), dtype=np.float32)
    for start in range(0, n, _BATCH):
        stop = min(start + _BATCH, n)
        chosen = centres[rng.integers(len(centres), size=stop - start)]
        vectors[start:stop] = _around(rng, chosen, low=0.35, high=1.0)
    members = vectors[rng.integers(n, size=queries)]
    drawn = {key: rng.random(n) for key in (DECLARED, UNDECLARED)}
    return Corpus(
        vectors, _around(rng, members, low=0.3, high=0.3), {key: _label(at) for key, at in drawn.items()}
    )


def _around(rng: np.random.Generator, centres: FloatArray, *, low: float, high: float) -> FloatArray:
    """Return unit vectors whose offset from their centre has a length in ``low..high``."""
    count, dim = centres.shape
    noise = rng.standard_normal((count, dim), dtype=np.float32)
    lengths = rng.uniform(low, high, size=(count, 1)).astype(np.float32)
    return _unit(centres + noise * (lengths / np.float32(np.sqrt(dim))))


def _unit(vectors: FloatArray) -> FloatArray:
    scaled: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def _label(at: NDArray[np.float64]) -> NDArray[np.str_]:
    labels = np.full(len(at), "other")
    low = 0.0
    for name, share in SHARES.items():
        labels[(at >= low) & (at < low + share)] = name
        low += share
    return labels


def exact(corpus: Corpus, admitted: NDArray[np.bool_] | None = None, k: int = NEAREST) -> list[list[int]]:
    """Return the places of the ``k`` nearest rows of each query, best first, of those that are admitted."""
    places = np.arange(len(corpus)) if admitted is None else np.flatnonzero(admitted)
    found: list[list[int]] = []
    for query in corpus.queries:
        scores = (corpus.vectors if admitted is None else corpus.vectors[places]) @ query
        wanted = min(k, len(scores))
        best = np.argpartition(scores, len(scores) - wanted)[len(scores) - wanted :]
        found.append([int(places[place]) for place in best[np.argsort(-scores[best])]])
    return found


def recall(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[int]]) -> float:
    """Return the share of the wanted rows that were found, by id, over all queries together."""
    total = sum(len(places) for places in wanted)
    hits = sum(
        len({identity(place) for place in places} & set(ids))
        for ids, places in zip(found, wanted, strict=True)
    )
    return hits / total if total else 1.0


def no_embedder(dim: int = DIM) -> AbsentEmbedder:
    """Return what stands for an embedder here, where every chunk and query brings its vector."""
    return AbsentEmbedder(Origin("benchmark-vectors", "the vectors of the benchmark", dim))
