"""An embedder that computes a text once and remembers its vector on disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.to_thread
import numpy as np

from vectorstores._checks import cache_key
from vectorstores._engine import Opened, embed_checked
from vectorstores.base import Embedder, StoreClosedError, StoreCorruptError, StoreUnavailableError
from vectorstores.embedders import check_texts
from vectorstores.file_systems import refuse_network

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

CAPACITY: int = 50_000
"""How many vectors a file keeps."""
_APPLICATION_ID: Final = 0x4A564543  # "JVEC"
_TIMEOUT: Final = 30.0
_TABLE: Final = f"""
    BEGIN IMMEDIATE;
    PRAGMA application_id={_APPLICATION_ID};
    CREATE TABLE IF NOT EXISTS embeddings (
        key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS embeddings_by_use ON embeddings (used);
    COMMIT;
"""


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
        self._opened: Opened | None = None
        self._connection: sqlite3.Connection | None = None
        # A read does not write: which vectors were used is noted with the next write.
        self._touched: set[bytes] = set()
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
        await anyio.to_thread.run_sync(self._read, [])
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
        fresh: dict[bytes, FloatArray] = {}
        if missing:
            rows = await embed_checked(opened, list(missing.values()))
            fresh = dict(zip(missing, rows, strict=True))
            # What can't be remembered costs a repetition later; it is no reason to withhold the vectors now.
            with suppress(StoreUnavailableError):
                await anyio.to_thread.run_sync(self._write, fresh)
        known |= fresh
        return np.stack([known[key] for key in keys]) if keys else np.empty((0, opened.dim), dtype=np.float32)

    def _read(self, texts: Sequence[str]) -> tuple[Opened, list[bytes], dict[bytes, FloatArray]]:
        """Return what is known of the inner embedder, the keys of the texts, and the vectors that are in the file."""
        if self._opened is None:
            self._opened = Opened(self._inner, self._inner.id, self._inner.dim)
        opened = self._opened
        keys = [cache_key(opened.embedder_id, text) for text in texts]
        known: dict[bytes, FloatArray] = {}
        with self._database() as database:
            for key in dict.fromkeys(keys):
                row = database.execute("SELECT vector FROM embeddings WHERE key = ?", (key,)).fetchone()
                if row is not None and len(row[0]) == 4 * opened.dim:
                    known[key] = np.frombuffer(row[0], dtype="<f4")
            self._touched.update(known)
        return opened, keys, known

    def _write(self, fresh: dict[bytes, FloatArray]) -> None:
        """Keep vectors; the least recently used make room for them."""
        with self._database() as database, database:
            (clock,) = database.execute("SELECT coalesce(max(used), 0) + 1 FROM embeddings").fetchone()
            touched, self._touched = self._touched, set()
            database.executemany(
                "UPDATE embeddings SET used = ? WHERE key = ?", [(clock, key) for key in touched]
            )
            database.executemany(
                "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)",
                [(key, vector.astype("<f4").tobytes(), clock) for key, vector in fresh.items()],
            )
            (count,) = database.execute("SELECT count(*) FROM embeddings").fetchone()
            if count > CAPACITY:
                database.execute(
                    "DELETE FROM embeddings WHERE key IN (SELECT key FROM embeddings ORDER BY used LIMIT ?)",
                    (count - CAPACITY + CAPACITY // 20,),
                )

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Lend the open file to one thread; open it first if need be."""
        with self._lock:
            if self._closed:
                raise StoreClosedError(f"the embedding cache {self._path} was closed")
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except (OSError, sqlite3.OperationalError) as error:
                raise StoreUnavailableError(
                    f"the embedding cache {self._path} can't be used: {error}"
                ) from error
            except sqlite3.DatabaseError as error:
                raise StoreCorruptError(
                    f"the embedding cache {self._path} is damaged, or none: {error}; delete it"
                ) from error

    def _connect(self) -> sqlite3.Connection:
        """Make the file and its table unless they are there; refuse a database of something else."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        refuse_network(self._path.parent)
        self._path.touch(mode=0o600)
        connection = sqlite3.connect(
            self._path, isolation_level="IMMEDIATE", timeout=_TIMEOUT, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            ours = application == _APPLICATION_ID or (application == 0 and not tables)
            if ours:
                connection.executescript(_TABLE)
        except BaseException:
            connection.close()
            raise
        if not ours:
            connection.close()
            raise StoreCorruptError(f"{self._path} is a database of something else, not an embedding cache")
        return connection

    async def close(self) -> None:
        """Close the file; the inner embedder stays usable. Closing twice is fine."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
