"""Checksums of rows: a bit that flipped on the disk is an error that names the row, and no wrong answer."""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray

# The golden ratio of 2**32, odd: the products of two places with it differ (Knuth: The Art of Computer Programming,
# volume 3, section 6.4).
_SPREAD: Final = 2654435769
_SALT: Final = np.uint32(0x9E3779B9)


def text_sum(id: str, content: str, embed_text: str | None, metadata: str) -> int:
    """Return 63 bits: a CRC of the metadata in the lower 32, of the rest in the others."""
    # Joined first: a search computes some, and each call would cost more than the sum.
    rest = zlib.crc32(
        f"{id}\0{content}".encode() if embed_text is None else f"{id}\1{embed_text}{content}".encode()
    )
    return (rest & 0x7FFFFFFF) << 32 | metadata_sum(metadata)


def metadata_sum(metadata: str) -> int:
    """Return the lower 32 bits of :func:`text_sum`."""
    return zlib.crc32(metadata.encode())


def vector_sums(vectors: FloatArray) -> NDArray[np.int64]:
    """Return a checksum of each row: its words, weighted by their place, modulo 2**32.

    A change of a single word always shows, other damage but once in 2**32. A tenth of the time of a CRC-32.
    """
    words = np.ascontiguousarray(vectors, dtype="<f4").view("<u4")
    weights = _weights(words.shape[1])
    # The same sums; for a single row most of einsum's time would be spent before it begins.
    totals = words.dot(weights) if len(words) == 1 else np.einsum("ij,j->i", words, weights)
    sums: NDArray[np.int64] = (totals ^ _SALT).astype(np.int64)
    return sums


@cache
def _weights(count: int) -> NDArray[np.uint32]:
    weights: NDArray[np.uint32] = (np.arange(1, count + 1, dtype=np.uint32) * np.uint32(_SPREAD)) | np.uint32(
        1
    )
    return weights
