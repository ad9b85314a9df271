"""The public store: checks arguments, embeds texts that have no vector, and calls a backend."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

import anyio.to_thread

from vectorstores._checks import (
    NO_VECTOR,
    cache_key,
    check_chunks,
    check_ids,
    check_namespace,
    check_records,
    check_whole,
    record_row,
    unit_vector,
)
from vectorstores._engine import Engine, Opened, Query, Write, embed_checked
from vectorstores._json import is_heavy
from vectorstores.base import (
    JSON,
    Chunk,
    Filter,
    Page,
    Record,
    RecordPage,
    RecordWrite,
    SearchHit,
    StoreClosedError,
    StoreUnavailableError,
)
from vectorstores.filters import parse

if TYPE_CHECKING:
    from vectorstores.base import FloatArray
    from vectorstores.filters import Node

R = TypeVar("R")

# Checking a chunk takes about 10 microseconds, and 1 ms for 100 kB: more than this would block the event loop.
_INLINE: Final = 32
_LIGHT: Final = 64 * 1024
# Ids and the values of a filter take some microseconds each.
_LIGHT_LIST: Final = 8 * 1024
# More rows than any store holds; every backend accepts this number.
_MANY: Final = 2**31 - 1


class Store:
    """A :class:`~vectorstores.VectorStore` and :class:`~vectorstores.RecordStore` over one backend.

    Don't create it directly: use :class:`~vectorstores.InMemoryVectorStore`, :class:`~vectorstores.FaissVectorStore`
    or :func:`~vectorstores.open_store`. It opens at the first call, or by ``async with``, which also closes
    it. Every method may raise :class:`~vectorstores.StoreClosedError`,
    :class:`~vectorstores.StoreUnavailableError`, :class:`~vectorstores.StoreCorruptError` and, when it opens,
    :class:`~vectorstores.EmbedderMismatchError` or :class:`~vectorstores.FormatVersionError`.
    """

    def __init__(self, engine: Engine, namespace: str, *, owner: bool = True) -> None:
        self._engine = engine
        self._namespace = check_namespace(namespace)
        self._owner = owner
        self._closed = False

    @property
    def namespace(self) -> str:
        """The namespace in which every call of this object works."""
        return self._namespace

    def scoped(self, namespace: str) -> Store:
        """Return a view of the same store in another namespace; closing the view leaves the store open."""
        return Store(self._engine, namespace, owner=False)

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def add(self, chunks: Sequence[Chunk], *, records: Sequence[RecordWrite] = ()) -> list[str]:
        """Store chunks, replacing those with the same ids, and ``records`` in the same transaction. Returns the ids.

        Chunks without a vector are embedded. A record whose key exists is left as it is. Raises
        :class:`~vectorstores.InvalidChunkError`, which names the first chunk or record that can't be stored, and
        :class:`~vectorstores.EmbeddingError`; the call stores nothing then.
        """
        chunks, records = list(chunks), list(records)
        opened = await self._open()
        rows = await _checked(partial(check_chunks, chunks, opened.dim), *chunks)
        record_rows = await _checked(partial(check_records, records), *records)
        lacking = [row for row in rows if row.vector is NO_VECTOR]
        vectors = await self._embed(opened, [row.searched_text for row in lacking])
        for row, vector in zip(lacking, vectors, strict=True):
            row.vector = vector
        if rows or record_rows:
            await self._engine.write(self._namespace, Write(rows=rows, records=record_rows))
        return [row.id for row in rows]

    async def delete(self, ids: Sequence[str], *, records: Sequence[RecordWrite] = ()) -> int:
        """Delete chunks by id and return how many existed. Unknown ids are ignored."""
        records = list(records)
        await self._open()
        wanted = await _checked(partial(check_ids, ids), ids, light=_LIGHT_LIST)
        record_rows = await _checked(partial(check_records, records), *records)
        write = Write(ids=wanted, records=record_rows)
        return await self._engine.write(self._namespace, write) if write.size else 0

    async def search(
        self,
        query: str | FloatArray,
        *,
        k: int = 5,
        filter: Filter | None = None,
        min_score: float = -1.0,
    ) -> list[SearchHit]:
        """Return the ``k`` chunks that are nearest to a text, or to an embedding of shape ``(dim,)``, best first.

        ``filter`` narrows the search to the chunks that it admits, ``min_score`` to those of at least that cosine
        similarity. Raises :class:`~vectorstores.InvalidFilterError`, :class:`~vectorstores.EmbeddingError`, and
        :class:`~vectorstores.InvalidChunkError` for a vector of another shape or without a direction.
        """
        where = await _parsed(filter)
        k = min(check_whole("k", k), _MANY)
        if not -1.0 <= min_score <= 1.0:
            raise ValueError(f"min_score must be between -1.0 and 1.0, got {min_score!r}")
        opened = await self._open()
        if isinstance(query, str):
            (vector,) = await self._embed(opened, [query])
        else:
            vector = unit_vector(query, opened.dim, "query vector")
        return await self._engine.search(self._namespace, Query(vector, k, where, min_score))

    async def get_by_ids(self, ids: Sequence[str], *, vectors: bool = False) -> list[Chunk]:
        """Return the chunks with these ids, in the order of the ids. Unknown ids are left out.

        ``vectors`` asks for their unit vectors too.
        """
        wanted = await _checked(partial(check_ids, ids), ids, light=_LIGHT_LIST)
        await self._open()
        return await self._engine.get(self._namespace, wanted, vectors=vectors)

    async def count(self, *, filter: Filter | None = None) -> int:
        """Count the chunks that the filter admits."""
        where = await _parsed(filter)
        await self._open()
        return await self._engine.count(self._namespace, where)

    async def scan(self, *, filter: Filter | None = None, after: str | None = None, limit: int = 100) -> Page:
        """Return a page of chunks in the order of their first insertion.

        A page may be empty and still have a ``next``, when the filter admits none of many chunks.
        """
        where = await _parsed(filter)
        cursor, limit = _cursor(after), min(check_whole("limit", limit), _MANY)
        await self._open()
        return await self._engine.scan(self._namespace, where, cursor, limit)

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        """Write a record unless the key exists. Returns whether it was written."""
        row = await _checked(partial(record_row, collection, key, value, None), value)
        await self._open()
        # No conflict, for which the writes of other tasks would have to be made again, one by one.
        return await self._engine.write(self._namespace, Write(records=[row], counted=True)) == 1

    async def get(self, collection: str, key: str) -> Record | None:
        """Return a record, or None if it does not exist."""
        check_ids([collection, key], "collection and key")
        await self._open()
        return await self._engine.get_record(self._namespace, collection, key)

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        """Write a record if it is still at ``version`` (None: if it does not exist yet).

        Raises :class:`~vectorstores.ConflictError` otherwise; nothing is written then.
        """
        expected = 0 if version is None else check_whole("version", version)
        row = await _checked(partial(record_row, collection, key, value, expected), value)
        await self._open()
        await self._engine.write(self._namespace, Write(records=[row]))
        return Record(collection, key, json.loads(row.value), expected + 1)

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        """Return a page of the records of a collection, in the order of their first write."""
        check_ids([collection], "collection")
        cursor, limit = _cursor(after), min(check_whole("limit", limit), _MANY)
        await self._open()
        return await self._engine.scan_records(self._namespace, collection, cursor, limit)

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        """Delete records by key and return how many existed."""
        check_ids([collection], "collection")
        wanted = await _checked(partial(check_ids, keys, "keys"), keys, light=_LIGHT_LIST)
        await self._open()
        write = Write(dropped={collection: wanted})
        return await self._engine.write(self._namespace, write) if wanted else 0

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield at once, and then after each write to the store by any process, so that you can read it again.

        Writes close together count as one. In a folder and in memory, writes to other namespaces count too, and in a
        folder embeddings that a search has cached. PostgreSQL uses a connection for each call and notifies within the
        network's delay; the others check ten times a second. Close the generator if you leave it early
        (``contextlib.aclosing``). It ends with :class:`~vectorstores.StoreClosedError`, or when PostgreSQL stays
        unreachable; after a short interruption it yields.
        """
        await self._open()
        async with aclosing(self._engine.changes(self._namespace)) as changes:
            async for _ in changes:
                yield

    async def close(self) -> None:
        """Release files, connections and memory. Closing twice is fine."""
        self._closed = True
        if self._owner:
            with anyio.CancelScope(shield=True):
                await self._engine.close()

    async def _open(self) -> Opened:
        if self._closed:
            raise StoreClosedError(
                f"the store (namespace {self._namespace!r}) was closed; open it again to use it"
            )
        return await self._engine.open()

    async def _embed(self, opened: Opened, texts: Sequence[str]) -> list[FloatArray]:
        """Return the embeddings of the texts, and cache those that were not cached."""
        if not texts:
            return []
        keys = await _checked(lambda: [cache_key(opened.embedder_id, text) for text in texts], *texts)
        known = await self._engine.cached(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            fresh = dict(zip(missing, await embed_checked(opened, list(missing.values())), strict=True))
            # The cache is only for speed: a failure to write it must not fail the call.
            with suppress(StoreUnavailableError):
                await self._engine.remember(fresh)
            known |= fresh
        return [known[key] for key in keys]


async def _checked(work: Callable[[], R], *items: object, light: int = _LIGHT) -> R:
    """Do work on these items: here if they are few and short, else in a thread, so as not to block the event loop."""
    if len(items) > _INLINE or is_heavy(items, light):
        return await anyio.to_thread.run_sync(work)
    return work()


async def _parsed(filter: Filter | None) -> Node | None:
    """Parse a filter, which may have thousands of values."""
    return None if filter is None else await _checked(partial(parse, filter), filter, light=_LIGHT_LIST)


def _cursor(after: str | None) -> int:
    if after is None:
        return 0
    if not (isinstance(after, str) and after.isascii() and after.isdigit() and len(after) < 19):
        raise ValueError(f"after must be the `next` of an earlier page, got {after!r}")
    return int(after)
