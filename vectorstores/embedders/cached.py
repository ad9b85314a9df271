"""An embedder that computes a text once and remembers its vector on disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

import anyio
import anyio.to_thread
import numpy as np

from vectorstores._checks import cache_key
from vectorstores._engine import Opened, embed_checked
from vectorstores.base import Embedder, StoreClosedError, StoreCorruptError, StoreUnavailableError
from vectorstores.embedders import check_texts
from vectorstores.file_systems import refuse_network
from vectorstores.sqlite_faiss import cache
from vectorstores.sqlite_faiss.database import connect, transaction, translated

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

T = TypeVar("T")

CAPACITY: int = 50_000
"""How many vectors a file keeps."""
_APPLICATION_ID: Final = 0x4A564543  # "JVEC"


class CachedEmbedder:
    """Asks ``inner`` only for texts that are not in the file at ``path``, which processes may share.

    The file holds vectors by a digest of embedder and text, not the texts; it keeps the most recently used.
    Stores on disk have such a cache of their own. Close it, or use ``async with``. Raises the errors of a
    store for its file: :class:`~vectorstores.StoreUnavailableError`,
    :class:`~vectorstores.StoreCorruptError`.
    """

    def __init__(self, inner: Embedder, path: str | os.PathLike[str]) -> None:
        self._inner = inner
        self._path = Path(path)
        self._lock = threading.Lock()
        self._opened: tuple[Opened, cache.EmbeddingCache, sqlite3.Connection] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def id(self) -> str:
        """The inner embedder's."""
        return self._inner.id

    @property
    def dim(self) -> int:
        """The inner embedder's."""
        return self._inner.dim

    async def __aenter__(self) -> Self:
        await self.embed([])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)``, rows of unit length in the texts' order."""
        texts = check_texts(texts)
        opened, keys, known = await anyio.to_thread.run_sync(self._read, texts)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            fresh = dict(zip(missing, await embed_checked(opened, list(missing.values())), strict=True))
            # What can't be remembered costs a repetition later; it is no reason to withhold the vectors now.
            with suppress(StoreUnavailableError):
                await anyio.to_thread.run_sync(
                    lambda: self._use(lambda _, kept, connection: kept.write(connection, fresh), write=True)
                )
            known |= fresh
        return np.stack([known[key] for key in keys]) if keys else np.empty((0, opened.dim), dtype=np.float32)

    def _read(self, texts: Sequence[str]) -> tuple[Opened, list[bytes], dict[bytes, FloatArray]]:
        """Return what is known of the inner embedder, the keys of the texts, and the vectors that are in the file."""

        def work(
            opened: Opened, kept: cache.EmbeddingCache, connection: sqlite3.Connection
        ) -> tuple[Opened, list[bytes], dict[bytes, FloatArray]]:
            keys = [cache_key(opened.embedder_id, text) for text in texts]
            return opened, keys, kept.read(connection, keys)

        return self._use(work, write=False)

    def _use(
        self, work: Callable[[Opened, cache.EmbeddingCache, sqlite3.Connection], T], *, write: bool
    ) -> T:
        """Run ``work`` in a transaction on the file, which is opened first if need be."""
        with self._lock:
            if self._closed:
                raise StoreClosedError(f"the embedding cache {self._path} was closed")
            try:
                with translated(self._path):
                    if self._opened is None:
                        inner = Opened(self._inner, self._inner.id, self._inner.dim)
                        kept = cache.EmbeddingCache(inner.dim, CAPACITY)
                        self._opened = inner, kept, self._connect()
                    with transaction(self._opened[2], write=write):
                        return work(*self._opened)
            except StoreCorruptError as error:
                raise StoreCorruptError(
                    f"{error} (an embedding cache that is damaged can be deleted)"
                ) from error

    def _connect(self) -> sqlite3.Connection:
        """Make the file and its table unless they are there; refuse a database of something else."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            refuse_network(self._path.parent)
            self._path.touch(mode=0o600)
        except OSError as error:
            raise StoreUnavailableError(f"the embedding cache {self._path} can't be used: {error}") from error
        connection = connect(self._path)
        try:
            _refuse_others(connection)
            connection.execute("PRAGMA journal_mode=WAL")
            with transaction(connection, write=True):
                connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
                connection.execute(cache.TABLE)
                connection.execute(cache.INDEX)
        except BaseException:
            connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Close the file; the inner embedder stays usable. Closing twice is fine."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened[2].close()
                self._opened = None


def _refuse_others(connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != _APPLICATION_ID and (application or tables):
        raise StoreCorruptError("it is a database of something else; name another file")
