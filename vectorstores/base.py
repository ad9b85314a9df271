"""Protocols, value types and errors shared by every store and embedder of this package.

``vectorstores`` knows nothing of agents or lessons: it stores texts with metadata and searches them by meaning.
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
"""Metadata keys by which stores filter quickly, unless others are declared."""

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Filter: TypeAlias = Mapping[str, JSON]


class VectorStoreError(Exception):
    """Base of all errors raised by this package."""


class StoreClosedError(VectorStoreError):
    """The store was used after it had been closed."""


class StoreUnavailableError(VectorStoreError):
    """The store can't be opened, read or written; what was stored before is untouched."""


class StoreCorruptError(VectorStoreError):
    """The file, folder or database is not a store, or its rows are damaged."""


class EmbedderMismatchError(VectorStoreError):
    """The store was made with another embedder; the message names both."""


class FormatVersionError(VectorStoreError):
    """The store has a format that this version can't read."""


class InvalidChunkError(VectorStoreError):
    """A chunk, vector, record or metadata can't be stored. The call stored nothing."""


class InvalidFilterError(VectorStoreError):
    """A metadata filter is invalid; the message says where."""


class ConflictError(VectorStoreError):
    """Another writer was faster: the record is at another version than the caller expected."""


class MissingDependencyError(VectorStoreError):
    """An optional package is not installed; the message names the extra that brings it."""


class EmbeddingError(VectorStoreError):
    """The embedder failed, or returned something that is not an embedding."""


def new_id() -> str:
    """Return a random id of 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text with metadata, as it is stored.

    ``content`` is what a reader gets back. ``embed_text`` is embedded and searched; ``None`` means the content itself.
    ``vector`` may hold an embedding that the caller already has, of shape ``(dim,)``; stores normalise it and return it
    only when asked. ``metadata`` is a JSON object.
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
    """Part of a scan. Pass ``next`` to the next call as ``after``; it is ``None`` on the last page."""

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
    """Part of a scan over records, ordered by first write. Pass ``next`` to the next call as ``after``."""

    records: tuple[Record, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """A record to append once, in the same transaction as the chunks of the call.

    A record whose key exists is left as it is. If it ``must_be_new``, the call raises :class:`ConflictError` instead
    and stores nothing, so that of several writers that number their changes one wins and the others read again.
    """

    collection: str
    key: str
    value: JSON
    must_be_new: bool = False


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors.

    ``id`` is a digest of what determines the vectors (weights, pooling, prompts), not of the runtime that computes
    them. Reading ``id`` or ``dim`` may read files but loads no model; stores do it off the event loop.
    """

    @property
    def id(self) -> str:
        """Identifies the vectors that this embedder makes."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)`` with rows of unit length, in the order of the texts."""


@runtime_checkable
class VectorStore(Protocol):
    """Stores chunks and searches them by meaning, within one namespace.

    A call takes effect as a whole or not at all, is durable when it returns, and may run beside others. Records have a
    protocol of their own, :class:`RecordStore`.
    """

    @property
    def namespace(self) -> str:
        """The namespace in which every call of this object works."""

    def scoped(self, namespace: str) -> VectorStore:
        """Return a view of the same store in another namespace; closing the view leaves the store open."""

    async def add(self, chunks: Sequence[Chunk], *, records: Sequence[RecordWrite] = ()) -> list[str]:
        """Store chunks, replacing those with the same ids, and ``records`` with them. Returns the chunks' ids."""

    async def delete(self, ids: Sequence[str], *, records: Sequence[RecordWrite] = ()) -> int:
        """Delete chunks by id and return how many existed. Unknown ids are ignored."""

    async def search(
        self,
        query: str | FloatArray,
        *,
        k: int = 5,
        filter: Filter | None = None,
        min_score: float = -1.0,
    ) -> list[SearchHit]:
        """Return the ``k`` chunks that are nearest to a text, or to an embedding of shape ``(dim,)``, best first.

        ``filter`` narrows the search to the chunks that it admits.
        """

    async def get_by_ids(self, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        """Return the chunks with these ids, in the order of the ids. Unknown ids are left out.

        ``vectors`` asks for their unit vectors too.
        """

    async def count(self, *, filter: Filter | None = None) -> int:
        """Count the chunks that the filter admits."""

    async def scan(self, *, filter: Filter | None = None, after: str | None = None, limit: int = 100) -> Page:
        """Return a page of chunks in the order of their first insertion."""

    async def close(self) -> None:
        """Release files, connections and memory. Closing twice is fine."""


@runtime_checkable
class RecordStore(Protocol):
    """Stores versioned JSON records by collection and key, within one namespace: ledgers, notes, histories."""

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        """Write a record unless the key exists. Returns whether it was written."""

    async def get(self, collection: str, key: str) -> Record | None:
        """Return a record, or None if it does not exist."""

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        """Write a record if it is still at ``version`` (None: if it does not exist yet).

        Raises :class:`ConflictError` otherwise; nothing is written then.
        """

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        """Return a page of the records of a collection, in the order of their first write."""

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        """Delete records by key and return how many existed."""


@runtime_checkable
class ChangeFeed(Protocol):
    """A store that announces writes by any process."""

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield once listening has begun, and then after each write; writes close together count as one."""
