"""Embeddings that were computed before, in a table of an SQLite database: by digest, without the texts."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

TABLE: Final = """
    CREATE TABLE IF NOT EXISTS embeddings (
        key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL) STRICT"""
INDEX: Final = "CREATE INDEX IF NOT EXISTS embeddings_by_use ON embeddings (used)"
CAPACITY: Final = 50_000
_TOUCHES: Final = 1000


class EmbeddingCache:
    """The table ``embeddings`` of a database, bounded by forgetting what was not used for the longest time.

    A read does not write: which keys were used is noted here, and stored with the next write.
    """

    def __init__(self, dim: int, capacity: int = CAPACITY) -> None:
        self._size = 4 * dim
        self._capacity = capacity
        self._touched: set[bytes] = set()
        self._lock = threading.Lock()

    def read(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Return the embeddings that are known."""
        found: dict[bytes, FloatArray] = {}
        for key in dict.fromkeys(keys):
            row = connection.execute("SELECT vector FROM embeddings WHERE key = ?", (key,)).fetchone()
            if row is not None and len(row[0]) == self._size:
                found[key] = np.frombuffer(row[0], dtype="<f4")
        with self._lock:
            if len(self._touched) < _TOUCHES:
                self._touched.update(found)
        return found

    def write(self, connection: sqlite3.Connection, embeddings: Mapping[bytes, FloatArray]) -> None:
        """Keep embeddings; the oldest make room for them."""
        if not embeddings:
            return
        (clock,) = connection.execute("SELECT coalesce(max(used), 0) + 1 FROM embeddings").fetchone()
        with self._lock:
            touched, self._touched = self._touched, set()
        connection.executemany(
            "UPDATE embeddings SET used = ? WHERE key = ?", [(clock, key) for key in touched]
        )
        connection.executemany(
            "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)",
            [(key, vector.astype("<f4").tobytes(), clock) for key, vector in embeddings.items()],
        )
        # Counting reads the whole index, so it is done for one write in some sixty, or for a large one.
        if clock % 64 == 0 or len(embeddings) > 64:
            (count,) = connection.execute("SELECT count(*) FROM embeddings").fetchone()
            if count > self._capacity:
                connection.execute(
                    "DELETE FROM embeddings WHERE key IN (SELECT key FROM embeddings ORDER BY used LIMIT ?)",
                    (count - self._capacity + self._capacity // 20,),
                )

    def purge(self, connection: sqlite3.Connection, keys: Iterable[bytes]) -> None:
        """Forget embeddings."""
        if listed := [(key,) for key in keys]:
            connection.executemany("DELETE FROM embeddings WHERE key = ?", listed)
