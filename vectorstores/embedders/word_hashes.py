"""An embedder without a model: words and parts of words, hashed into a fixed number of dimensions.

The signed hashing trick of K. Weinberger et al.: Feature hashing for large scale multitask learning, ICML
2009. It finds texts that share words or stems; it knows nothing of synonyms.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import anyio.lowlevel
import anyio.to_thread
import numpy as np

from vectorstores.embedders import check_texts

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

# Part of the id: raise it whenever the vectors change.
_VERSION: Final = 1
_WORD: Final = re.compile(r"\w+")
_STOP_WORDS: Final = frozenset(
    _WORD.findall(
        """a about after all also an and any are as at be been before but by can could did do does for from
        had has have he her his how i if in into is it its just may me might more most must my no not of off
        on one only or other our out over own same she should so some such than that the their them then there
        these they this those to too up us very was we were what when where which while who whom why will with
        would you your"""
    )
)
_STOP_WEIGHT: Final = 0.1
_NUMBER_WEIGHT: Final = 0.3
_PAIR_WEIGHT: Final = 0.4
_GRAM_WEIGHT: Final = 0.8
# About a millisecond of work; more goes to a worker thread.
_INLINE_CHARACTERS: Final = 1000


class HashingEmbedder:
    """Deterministic unit vectors from the words, word pairs and character n-grams of a text.

    A text has the same vector in every process and on every machine. No model or download is needed, so it suits tests,
    examples and small machines. ``dim`` is the length of a vector.
    """

    def __init__(self, dim: int = 512) -> None:
        if dim < 8:
            raise ValueError(f"dim must be at least 8, got {dim}")
        self._dim = dim

    def __repr__(self) -> str:
        return f"HashingEmbedder(dim={self._dim})"

    @property
    def id(self) -> str:
        """Identifies the vectors: the version of the features, and the dimension."""
        return f"hashing-{_VERSION}-{self._dim}"

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._dim

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)`` with rows of unit length.

        Raises :class:`~vectorstores.EmbeddingError` for invalid Unicode.
        """
        await anyio.lowlevel.checkpoint()
        checked = check_texts(texts)
        if sum(map(len, checked)) <= _INLINE_CHARACTERS:
            return self._embed(checked)
        return await anyio.to_thread.run_sync(self._embed, checked)

    def _embed(self, texts: Sequence[str]) -> FloatArray:
        rows = np.zeros((len(texts), self._dim), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _weigh(text):
                place = _hash(feature)
                row[(place >> 1) % self._dim] += weight if place & 1 else -weight
            if not row.any():
                # There are no words, or the features cancel out: hash the text as a whole.
                row[_hash("whole\0" + text) % self._dim] = 1.0
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32)


def _weigh(text: str) -> Iterator[tuple[str, float]]:
    """Yield features with their weights; a word's weight grows with the root of how often it occurs."""
    words = [match.group().casefold() for match in _WORD.finditer(text)]
    counts = Counter(words)
    importance = {
        word: _STOP_WEIGHT if word in _STOP_WORDS else _NUMBER_WEIGHT if word.isdecimal() else 1.0
        for word in counts
    }
    for word, count in counts.items():
        weight = importance[word] * math.sqrt(count)
        yield "word\0" + word, weight
        grams = _grams(word)
        # All parts of a word together weigh less than the word, however long it is.
        share = _GRAM_WEIGHT * weight / math.sqrt(len(grams)) if grams else 0.0
        for gram in grams:
            yield "gram\0" + gram, share
    content_words = [word for word in words if importance[word] == 1.0]
    for pair, count in Counter(pairwise(content_words)).items():
        yield "pair\0" + "\0".join(pair), _PAIR_WEIGHT * math.sqrt(count)


@lru_cache(maxsize=20_000)
def _grams(word: str) -> tuple[str, ...]:
    padded = f"<{word}>"
    return tuple(padded[i : i + n] for n in (3, 4) for i in range(len(padded) - n + 1))


@lru_cache(maxsize=100_000)
def _hash(feature: str) -> int:
    return int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
