"""Checks of what a caller passes in, before anything is written."""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores._json import check_json, check_text
from vectorstores.base import Chunk, EmbeddingError, InvalidChunkError, RecordWrite

if TYPE_CHECKING:
    from vectorstores.base import JSON, FloatArray

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
NO_VECTOR: Final[FloatArray] = np.empty(0, dtype=np.float32)
# How far the squared length of a float32 unit vector may be from 1.
_UNIT: Final = 2.0**-22


@dataclass(slots=True)
class Row:
    """A checked chunk: its metadata as JSON text, its unit vector, or ``NO_VECTOR`` until it is embedded."""

    id: str
    content: str
    embed_text: str | None
    metadata: str
    vector: FloatArray

    @property
    def searched_text(self) -> str:
        """The text that is embedded."""
        return self.content if self.embed_text is None else self.embed_text


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A checked record, its value as JSON text.

    ``expected`` is the version that the record must have, 0 if it must not exist. With None, one that exists stays as
    it is.
    """

    collection: str
    key: str
    value: str
    expected: int | None = None


def check_whole(name: str, value: int, least: int = 1) -> int:
    """Return a whole number of any type as an ``int``; raise for anything else, and for less than ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}")
    return number


def check_namespace(namespace: object) -> str:
    """Return the namespace, or raise: without one, a store would show everything to everyone."""
    if not isinstance(namespace, str):
        kind = type(namespace).__name__
        raise TypeError(f"namespace must be a string, got {kind}; there is no default scope")
    if not namespace.strip():
        raise ValueError("namespace must not be empty; there is no default scope")
    check_text(namespace, "namespace", ValueError)
    return namespace


def check_indexed(indexed: Sequence[str]) -> tuple[str, ...]:
    """Return the metadata keys to index, without duplicates."""
    if isinstance(indexed, str):
        raise TypeError("indexed must be a sequence of metadata keys, not one string")
    for index, key in enumerate(indexed):
        if not isinstance(key, str):
            raise TypeError(f"indexed[{index}]: a metadata key is a string, got {key!r:.100}")
    return tuple(dict.fromkeys(indexed))


def check_chunks(chunks: Sequence[Chunk], dim: int) -> list[Row]:
    """Check chunks for a store of this dimension; an error names the index and id of the chunk."""
    seen: dict[str, int] = {}
    rows: list[Row] = []
    for index, chunk in enumerate(chunks):
        if not isinstance(chunk, Chunk):
            raise InvalidChunkError(f"chunks[{index}]: expected a Chunk, got {type(chunk).__name__}")
        place = f"chunks[{index}] (id {chunk.id!r})"
        check_text(chunk.id, f"{place}: id", InvalidChunkError)
        if not chunk.id:
            raise InvalidChunkError(f"{place}: id must not be empty")
        if chunk.id in seen:
            raise InvalidChunkError(f"{place}: chunks[{seen[chunk.id]}] of the same call has the same id")
        seen[chunk.id] = index
        check_text(chunk.content, f"{place}: content", InvalidChunkError)
        if chunk.embed_text is not None:
            check_text(chunk.embed_text, f"{place}: embed_text", InvalidChunkError)
        if not isinstance(chunk.metadata, Mapping):
            raise InvalidChunkError(
                f"{place}: metadata: expected a mapping, got {type(chunk.metadata).__name__}"
            )
        metadata = _ENCODE(check_json(chunk.metadata, f"{place}: metadata", InvalidChunkError))
        vector = NO_VECTOR if chunk.vector is None else unit_vector(chunk.vector, dim, f"{place}: vector")
        rows.append(Row(chunk.id, chunk.content, chunk.embed_text, metadata, vector))
    return rows


def check_ids(ids: Sequence[str], name: str = "ids") -> list[str]:
    """Return the ids without duplicates, in their order."""
    if isinstance(ids, str):
        raise TypeError(f"{name} must be a sequence of strings, not one string")
    ids = list(ids)
    for index, value in enumerate(ids):
        check_text(value, f"{name}[{index}]", ValueError)
    return list(dict.fromkeys(ids))


def check_records(records: Iterable[RecordWrite]) -> list[RecordRow]:
    """Check the records of a write."""
    rows: list[RecordRow] = []
    for index, given in enumerate(records):
        place = f"records[{index}]"
        if not isinstance(given, RecordWrite):
            raise InvalidChunkError(f"{place}: expected a RecordWrite, got {type(given).__name__}")
        expected = 0 if given.must_be_new else None
        rows.append(record_row(given.collection, given.key, given.value, expected, place))
    return rows


def record_row(
    collection: str, key: str, value: JSON, expected: int | None, place: str = "record"
) -> RecordRow:
    """Check one record."""
    for name, text in (("collection", collection), ("key", key)):
        check_text(text, f"{place}: {name}", InvalidChunkError)
        if not text:
            raise InvalidChunkError(f"{place}: {name} must not be empty")
    text = _ENCODE(check_json(value, f"{place} {collection}/{key}: value", InvalidChunkError))
    return RecordRow(collection, key, text, expected)


def unit_vector(vector: object, dim: int, place: str) -> FloatArray:
    """Return a vector of shape ``(dim,)`` scaled to unit length as float32."""
    try:
        array = np.asarray(vector)
    except ValueError as error:
        raise InvalidChunkError(f"{place}: expected a row of numbers: {error}") from error
    if array.dtype == np.float32 and array.shape == (dim,):
        # The steps of unit_rows for a single vector, at a fiftieth of the cost: most calls bring one.
        wide = array.astype(np.float64)
        square = float(wide.dot(wide))
        if 0.0 < square < math.inf:
            is_unit = abs(square - 1.0) < _UNIT
            return array.copy() if is_unit else (wide / math.sqrt(square)).astype(np.float32)
    row: FloatArray = unit_rows(array[np.newaxis], dim, lambda _: place)[0]
    return row


def unit_rows(vectors: object, dim: int, place: Callable[[int], str]) -> FloatArray:
    """Return the rows of an array of shape ``(n, dim)`` scaled to unit length as float32.

    ``place`` names a row in an error.
    """
    array = np.asarray(vectors)
    if array.dtype.kind not in "fiu":
        raise InvalidChunkError(f"{place(0)}: expected numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] != dim:
        raise InvalidChunkError(f"{place(0)}: expected shape ({dim},), got {array.shape[1:]}")
    # In C order, so that each row is contiguous: rows are written as bytes.
    wide = array.astype(np.float64, order="C")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", wide, wide)
    for index in np.flatnonzero(~(np.isfinite(squares) & (squares > 0.0)))[:1]:
        found = "all zeros" if squares[index] == 0.0 else "NaN, infinity or a number beyond 1e150 in it"
        raise InvalidChunkError(f"{place(int(index))}: a vector must have a direction, this one has {found}")
    # A vector that has unit length already stays the same to the bit.
    squares[np.abs(squares - 1.0) < _UNIT] = 1.0
    wide /= np.sqrt(squares)[:, np.newaxis]
    return wide.astype(np.float32)


def cache_key(embedder_id: str, text: str) -> bytes:
    """Return the key of a cached embedding: a digest, so that the cache contains no text.

    Raises :class:`EmbeddingError` for invalid Unicode, which no embedder takes.
    """
    check_text(text, "text to embed", EmbeddingError)
    return hashlib.sha256(f"{len(embedder_id)}:{embedder_id}{text}".encode()).digest()
