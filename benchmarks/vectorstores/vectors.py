"""Vectors distributed like those of texts, with metadata, and the exact answers for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores import AbsentEmbedder, Chunk, Store, open_store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import JSON, FloatArray

NAMESPACE: Final = "benchmark"
DIM: Final = 384
MEMBERS: Final = 50
"""Vectors to a cluster, on average."""
NEAREST: Final = 5
KEY: Final = "kind"
"""A key of metadata that is declared to the store, as for lessons."""
SHARES: Final = {"rare": 0.01, "some": 0.1}
"""The share of rows with each value of the key; the other rows have the value ``other``."""
_BATCH: Final = 50_000
_TEXT: Final = "When the drawer is shut, open it before you look for the {0}; it was in there in run {1} too."


@dataclass(frozen=True, slots=True)
class Corpus:
    """Unit vectors of shape ``(n, dim)``, queries near some of them, and the value of the key for each vector."""

    vectors: FloatArray
    queries: FloatArray
    labels: NDArray[np.str_]

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    @property
    def dim(self) -> int:
        """Their dimension."""
        return int(self.vectors.shape[1])

    def chunk(self, number: int) -> Chunk:
        """Return a row as a chunk with its vector and the metadata of a lesson; from ``n`` on, vectors are repeated."""
        place = number % len(self)
        metadata: dict[str, JSON] = {
            KEY: str(self.labels[place]),
            "run": f"run-{number % 97}",
            "score": (number % 11) / 10,
            "trial": number % 4,
        }
        return Chunk(
            _TEXT.format(number * 7919, number), identity(number), metadata, vector=self.vectors[place]
        )


def identity(place: int) -> str:
    """Return the id of a row: 32 characters, like other ids."""
    return f"{place:032x}"


def clustered(n: int, queries: int, *, dim: int = DIM, seed: int = 0) -> Corpus:
    """Return ``n`` vectors at various distances around ``n / 50`` centres, and perturbed members as queries.

    Two members of a cluster have a cosine similarity of 0.5 to 0.9, a query and its member about 0.95, and members of
    different clusters about 0, like the embeddings of texts on many subjects.
    """
    rng = np.random.default_rng(seed)
    centres = _unit(rng.standard_normal((max(1, n // MEMBERS), dim), dtype=np.float32))
    vectors = np.empty((n, dim), dtype=np.float32)
    for start in range(0, n, _BATCH):
        stop = min(start + _BATCH, n)
        chosen = centres[rng.integers(len(centres), size=stop - start)]
        vectors[start:stop] = _around(rng, chosen, low=0.35, high=1.0)
    members = vectors[rng.integers(n, size=queries)]
    shares = [*SHARES.values(), 1 - sum(SHARES.values())]
    labels = rng.choice([*SHARES, "other"], size=n, p=shares)
    return Corpus(vectors, _around(rng, members, low=0.3, high=0.3), labels)


def _around(rng: np.random.Generator, centres: FloatArray, *, low: float, high: float) -> FloatArray:
    """Return unit vectors whose offsets from their centres have lengths in ``low..high``."""
    count, dim = centres.shape
    noise = rng.standard_normal((count, dim), dtype=np.float32)
    lengths = rng.uniform(low, high, size=(count, 1)).astype(np.float32)
    return _unit(centres + noise * (lengths / np.float32(np.sqrt(dim))))


def _unit(vectors: FloatArray) -> FloatArray:
    scaled: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def exact(corpus: Corpus, admitted: NDArray[np.bool_] | None = None, k: int = NEAREST) -> list[list[int]]:
    """Return the places of the ``k`` nearest admitted rows for each query, best first."""
    places = np.arange(len(corpus)) if admitted is None else np.flatnonzero(admitted)
    found: list[list[int]] = []
    for query in corpus.queries:
        scores = (corpus.vectors if admitted is None else corpus.vectors[places]) @ query
        wanted = min(k, len(scores))
        best = np.argpartition(scores, len(scores) - wanted)[len(scores) - wanted :]
        found.append([int(places[place]) for place in best[np.argsort(-scores[best])]])
    return found


def recall(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[int]]) -> float:
    """Return the share of the wanted rows that were found, over all queries."""
    total = sum(len(places) for places in wanted)
    hits = sum(
        len({identity(place) for place in places} & set(ids))
        for ids, places in zip(found, wanted, strict=True)
    )
    return hits / total if total else 1.0


def open_at(address: str, dim: int) -> Store:
    """Return the store at an address; callers supply the vectors."""
    embedder = AbsentEmbedder("benchmark-vectors", "the vectors of the benchmark", dim)
    return open_store(address, embedder=embedder, namespace=NAMESPACE)
