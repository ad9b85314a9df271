"""The protocol of a backend, on which :class:`~vectorstores.store.Store` builds, and what all backends share."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from vectorstores._checks import unit_rows
from vectorstores.base import (
    ConflictError,
    EmbedderMismatchError,
    EmbeddingError,
    FormatVersionError,
    InvalidChunkError,
    StoreCorruptError,
    VectorStoreError,
)

if TYPE_CHECKING:
    from vectorstores._checks import RecordRow, Row
    from vectorstores.base import Chunk, Embedder, FloatArray, Page, Record, RecordPage, SearchHit
    from vectorstores.filters import Node


FORMAT: Final = 1
"""Version of the tables, in a folder and in PostgreSQL."""
# More vectors than this are normalised in a thread: they would block the event loop.
_INLINE: Final = 256
# Seconds between two looks for new writes, in a store that is not notified of them.
_LOOK_EVERY: Final = 0.1


@dataclass(frozen=True, slots=True)
class Write:
    """What a call changes: ``rows`` to put and ``ids`` to delete, ``records`` to write and ``dropped`` ones to delete.

    ``dropped`` has their keys by collection. Of a ``counted`` write the caller is told how many records it wrote.
    """

    rows: Sequence[Row] = ()
    ids: Sequence[str] = ()
    records: Sequence[RecordRow] = ()
    dropped: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counted: bool = False

    @property
    def size(self) -> int:
        """The number of rows and records that it names."""
        return sum(map(len, (self.rows, self.ids, self.records, *self.dropped.values())))

    @property
    def is_repeatable(self) -> bool:
        """Whether a second one has the same effect and the same answer."""
        answers = self.ids or self.dropped or self.counted
        return not answers and all(record.expected is None for record in self.records)


@dataclass(frozen=True, slots=True)
class Query:
    """A checked search for the ``k`` rows nearest to a unit vector."""

    vector: FloatArray
    k: int
    where: Node | None
    min_score: float


@dataclass(frozen=True, slots=True)
class Opened:
    """The embedder of an open store, with the values read from it once."""

    embedder: Embedder
    embedder_id: str
    dim: int

    @classmethod
    def by(cls, embedder: Embedder) -> Opened:
        """Read the id and dimension of an embedder, which may read files."""
        return cls(embedder, embedder.id, embedder.dim)

    @property
    def about(self) -> dict[str, str]:
        """What a store writes down about its embedder."""
        return {
            "embedder": self.embedder_id,
            "embedder_name": repr(self.embedder),
            "dim": str(self.dim),
        }

    def check(self, said: Mapping[str, str], place: object) -> None:
        """Raise :class:`EmbedderMismatchError` unless the store was made with this embedder."""
        if (said["embedder"], said["dim"]) != (self.embedder_id, str(self.dim)):
            made, given = (
                f"{each['embedder_name']} ({each['embedder']}, dim {each['dim']})"
                for each in (said, self.about)
            )
            raise EmbedderMismatchError(
                f"the store {place} was made with {made} but is opened with {given}; their vectors can't be compared:"
                " open it with the embedder that it was made with, or move it to the new one by"
                " vectorstores.reembed()"
            )


def check_format(version: int | None, place: object) -> None:
    """Raise :class:`FormatVersionError` unless a store has the format of this version."""
    if version != FORMAT:
        newer = version is not None and version > FORMAT
        advice = "update this package" if newer else "open it once with the version that wrote it, and export"
        raise FormatVersionError(
            f"{place} has format {version}, this version reads format {FORMAT}; {advice}"
        )


def check_said(said: Mapping[str, str], place: object, *also: str) -> None:
    """Raise :class:`StoreCorruptError` unless a store states its id, its embedder and ``also``."""
    missing = {"store", "embedder", "embedder_name", "dim", *also} - said.keys()
    if missing or not said["dim"].isdecimal():
        raise StoreCorruptError(
            f"{place} does not say its {', '.join(sorted(missing)) or 'dim'}; restore it from a backup"
        )


class EmbeddingCache:
    """The embeddings of the last texts in this process, so that another attempt at a task does not embed it again."""

    def __init__(self, most: int = 1000) -> None:
        self._most = most
        self._embeddings: dict[bytes, FloatArray] = {}
        self._cache_lock = threading.Lock()  # event loops of several threads may share a store

    async def cached(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Return cached embeddings by their keys."""
        with self._cache_lock:
            return {key: self._embeddings[key] for key in keys if key in self._embeddings}

    async def remember(self, embeddings: Mapping[bytes, FloatArray]) -> None:
        """Cache embeddings, in the place of the oldest."""
        # Copies, so that a single vector does not keep the array of its whole batch alive.
        last = {key: vector.copy() for key, vector in islice(embeddings.items(), self._most)}
        with self._cache_lock:
            self._embeddings |= last
            while len(self._embeddings) > self._most:
                del self._embeddings[next(iter(self._embeddings))]


class Engine(Protocol):
    """Stores the rows of all namespaces. Arguments have been checked; a call takes effect whole or not at all."""

    async def open(self) -> Opened:
        """Open the store unless it is open already."""

    async def close(self) -> None: ...

    async def cached(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Return cached embeddings by their keys."""

    async def remember(self, embeddings: Mapping[bytes, FloatArray]) -> None:
        """Cache embeddings."""

    async def write(self, namespace: str, write: Write) -> int:
        """Make all changes of a write; return how many of the rows and records that it deletes existed.

        Of a ``counted`` write, return how many records it wrote. Raises :class:`ConflictError` for a record that does
        not have its expected version.
        """

    async def search(self, namespace: str, query: Query) -> list[SearchHit]:
        """Return the rows nearest to the query."""

    async def get(self, namespace: str, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        """Return chunks in the order of the ids, with their vectors if asked."""

    async def count(self, namespace: str, where: Node | None) -> int: ...

    async def scan(self, namespace: str, where: Node | None, after: int, limit: int) -> Page:
        """Return the chunks that follow row ``after``."""

    async def get_record(self, namespace: str, collection: str, key: str) -> Record | None: ...

    async def scan_records(self, namespace: str, collection: str, after: int, limit: int) -> RecordPage:
        """Return the records that follow row ``after``."""

    def changes(self, namespace: str) -> AsyncGenerator[None, None]:
        """Yield once listening has begun, and then after each write, perhaps also those to other namespaces."""


async def polled(mark: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    """Yield at once, and then whenever ``mark`` returns another value than before."""
    seen = await mark()
    yield
    while True:
        await anyio.sleep(_LOOK_EVERY)
        now = await mark()
        if now != seen:
            seen = now
            yield


def conflict(record: RecordRow, found: int) -> ConflictError:
    """Return the error for a record of which another version was found than expected, 0 for none."""
    names = [f"version {version}" if version else "no record" for version in (record.expected, found)]
    place = f"record {record.collection}/{record.key}"
    return ConflictError(f"{place}: expected {names[0]}, found {names[1]}; read it and try again")


async def embed_checked(opened: Opened, texts: Sequence[str]) -> FloatArray:
    """Embed texts, and check that the result is an embedding of each text."""
    try:
        result = await opened.embedder.embed(texts)
    except VectorStoreError:
        raise
    except Exception as error:
        raise EmbeddingError(f"{opened.embedder!r} failed: {type(error).__name__}: {error}") from error
    if getattr(result, "shape", None) != (len(texts), opened.dim):
        found = getattr(result, "shape", type(result).__name__)
        raise EmbeddingError(
            f"{opened.embedder!r} returned {found}, expected shape ({len(texts)}, {opened.dim})"
        )
    try:
        work = partial(unit_rows, result, opened.dim, lambda index: f"embedding of text {index}")
        return await anyio.to_thread.run_sync(work) if len(texts) > _INLINE else work()
    except InvalidChunkError as error:
        raise EmbeddingError(f"{opened.embedder!r}: {error}") from error
