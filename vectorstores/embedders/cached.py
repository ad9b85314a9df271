"""An embedder that computes a text once and remembers its vector on disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio.to_thread
import numpy as np

from vectorstores import _cache
from vectorstores._cache import EmbeddingCache
from vectorstores._checks import cache_key
from vectorstores._engine import Opened, embed_checked
from vectorstores._folder import refuse_network
from vectorstores._sqlite import Database, transaction, translated
from vectorstores.base import Embedder, StoreClosedError, StoreCorruptError, StoreUnavailableError
from vectorstores.embedders._texts import check_texts

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

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
        self._open: tuple[Opened, Database, EmbeddingCache] | None = None
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
        await anyio.to_thread.run_sync(self._ready)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array of shape ``(len(texts), dim)``, rows of unit length in the texts' order."""
        texts = check_texts(texts)
        opened, database, cache = await anyio.to_thread.run_sync(self._ready)
        keys = [cache_key(opened.embedder_id, text) for text in texts]
        known = await anyio.to_thread.run_sync(database.read, lambda connection: cache.read(connection, keys))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            rows = await embed_checked(opened, list(missing.values()))
            fresh = dict(zip(missing, rows, strict=True))
            # What can't be remembered costs a repetition later; it is no reason to withhold the vectors now.
            with suppress(StoreUnavailableError):
                await anyio.to_thread.run_sync(
                    database.write, lambda connection: cache.write(connection, fresh)
                )
            known |= fresh
        return np.stack([known[key] for key in keys]) if keys else np.empty((0, opened.dim), dtype=np.float32)

    def _ready(self) -> tuple[Opened, Database, EmbeddingCache]:
        with self._lock:
            if self._closed:
                raise StoreClosedError(f"the embedding cache {self._path} was closed")
            if self._open is None:
                opened = Opened(self._inner, self._inner.id, self._inner.dim)
                _create(self._path)
                self._open = opened, Database(self._path), EmbeddingCache(opened.dim)
            return self._open

    async def close(self) -> None:
        """Close the file; the inner embedder stays usable. Closing twice is fine."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            opened, self._open = self._open, None
        if opened is not None:
            opened[1].close()


def _create(path: Path) -> None:
    """Make the file and its table unless they are there; refuse a database of something else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_network(path.parent)
        path.touch(mode=0o600)
    except OSError as error:
        raise StoreUnavailableError(f"the embedding cache {path} can't be used: {error}") from error
    with translated(path), closing(sqlite3.connect(path, isolation_level=None, timeout=30.0)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        with transaction(connection, write=True):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if application not in {0, _APPLICATION_ID} or (application == 0 and tables):
                raise StoreCorruptError(f"{path} is a database of something else, not an embedding cache")
            connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            connection.execute(_cache.TABLE)
            connection.execute(_cache.INDEX)
