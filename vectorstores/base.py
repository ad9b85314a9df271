"""The protocols and value types that every store and embedder of this package shares, and its errors.

``vectorstores`` knows nothing of agents or lessons: it keeps texts with metadata and finds them again by
meaning.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float32]

DEFAULT_INDEXED: Final = ("kind", "tool", "agent", "state")
"""Metadata keys that stores are quick at filtering by, unless others are declared."""

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Filter: TypeAlias = Mapping[str, JSON]


class VectorStoreError(Exception):
    """Base of all errors raised by this package."""


class StoreClosedError(VectorStoreError):
    """The store was used after it had been closed."""


class StoreUnavailableError(VectorStoreError):
    """The place of the store can't be opened, read or written; what was stored before is untouched."""


class StoreCorruptError(VectorStoreError):
    """What lies at the place of the store is not a store, or its rows are damaged."""


class EmbedderMismatchError(VectorStoreError):
    """The store was made with another embedder; the message names both."""


class FormatVersionError(VectorStoreError):
    """The store was written by a version of the format that this version can't read."""


class InvalidChunkError(VectorStoreError):
    """A chunk, vector or metadata that can't be stored. Nothing of the call was stored."""


class InvalidFilterError(VectorStoreError):
    """A metadata filter that can't be read; the message says where."""


class ConflictError(VectorStoreError):
    """Another writer was faster: the record is at another version than the caller expected."""


class MissingDependencyError(VectorStoreError):
    """An optional package is not installed; the message names the extra that brings it."""


class EmbeddingError(VectorStoreError):
    """The embedder failed, or returned something that is no embedding."""


def new_id() -> str:
    """Return a fresh random id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text with metadata, as it is stored.

    ``content`` is what a reader gets back. ``embed_text`` is what is embedded and searched by; ``None`` means
    the content itself. ``vector`` may carry an embedding that the caller already has, of shape ``(dim,)``;
    stores normalise it and don't return it unless asked. ``metadata`` is a JSON object.
    """

    content: str
    id: str = field(default_factory=new_id)
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    embed_text: str | None = None
    vector: FloatArray | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A chunk that was found, with its cosine similarity to the query in [-1, 1]."""

    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a scan. ``next`` is handed to the next call as ``after``; ``None`` means there is no more."""

    chunks: tuple[Chunk, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """A versioned JSON value under a key of a collection. Versions start at 1 and grow by one."""

    collection: str
    key: str
    value: JSON
    version: int


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Part of a scan over records, ordered by first write. ``next`` goes to the next call as ``after``."""

    records: tuple[Record, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """A record to append once, in the same transaction as the vectors that it goes with.

    One that ``must_be_new`` and whose key exists is a :class:`ConflictError`; nothing of the call is stored then. So
    of several writers that number their changes, one is first, and the others read again.
    """

    collection: str
    key: str
    value: JSON
    must_be_new: bool = False


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors.

    ``id`` is a digest of what decides the vectors (weights, pooling, prompts), not of the runtime that
    computes them. Reading ``id`` or ``dim`` may read files; stores do it off the event loop and never load a
    model for it.
    """

    @property
    def id(self) -> str:
        """Identity of the vectors that this embedder makes."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)``, rows of unit length in the texts' order."""


@runtime_checkable
class VectorStore(Protocol):
    """Keeps chunks and finds them by meaning, within one namespace.

    A call works whole or not at all, is durable when it returns, and may be made from many tasks at once. Records are
    apart, in :class:`RecordStore`.
    """

    @property
    def namespace(self) -> str:
        """The scope that every call of this object is held to."""

    def scoped(self, namespace: str) -> VectorStore:
        """Return a view of the same store in another namespace; closing the view leaves the store open."""

    async def add(self, chunks: Sequence[Chunk], *, records: Sequence[RecordWrite] = ()) -> list[str]:
        """Store chunks, replacing those of the same id, and ``records`` with them; return the ids."""

    async def delete(self, ids: Sequence[str], *, records: Sequence[RecordWrite] = ()) -> int:
        """Delete chunks by id and return how many there were; unknown ids are passed over."""

    async def search(
        self,
        query: str | FloatArray,
        *,
        k: int = 5,
        filter: Filter | None = None,
        min_score: float = -1.0,
    ) -> list[SearchHit]:
        """Return the ``k`` chunks nearest to a text, or to an embedding of shape ``(dim,)``, best first, among those
        that the filter admits.
        """

    async def get_by_ids(self, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        """Return the chunks with these ids, in the order of the ids; those that don't exist are left out.

        With their ``vectors``, if asked: those of one embedder are compared by their inner product.
        """

    async def count(self, *, filter: Filter | None = None) -> int:
        """Count the chunks that the filter admits."""

    async def scan(self, *, filter: Filter | None = None, after: str | None = None, limit: int = 100) -> Page:
        """Return chunks in the order of their first insertion, a page at a time."""

    async def close(self) -> None:
        """Release files, connections and memory. Closing twice is fine."""


@runtime_checkable
class RecordStore(Protocol):
    """Versioned JSON records by collection and key, within one namespace: ledgers, notes, histories."""

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        """Write a record unless the key exists; return whether it was written. Never replaces."""

    async def get(self, collection: str, key: str) -> Record | None:
        """Return a record, or None."""

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        """Write a record if it is still at ``version`` (None: if it does not exist yet).

        Raises :class:`ConflictError` otherwise; nothing is written then.
        """

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        """Return the records of a collection in the order of their first write, a page at a time."""

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        """Delete records by key and return how many there were."""


@runtime_checkable
class ChangeFeed(Protocol):
    """A store that tells of writes, whichever process made them."""

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield as soon as writes are told, and then after each, several that come close together once."""
