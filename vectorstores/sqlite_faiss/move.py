"""A move to another embedder, in the database of a store on disk: one transaction, for which other writers wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from vectorstores.base import StoreUnavailableError, new_id
from vectorstores.migration import Reembedding
from vectorstores.sqlite_faiss import schema
from vectorstores.sqlite_faiss.database import Database, connect, translated
from vectorstores.sqlite_faiss.folder import DATABASE, INDEX, check_log
from vectorstores.sqlite_faiss.rows import vector_sums
from vectorstores.sqlite_faiss.writer import Writer

if TYPE_CHECKING:
    from vectorstores._engine import Opened
    from vectorstores.base import FloatArray

T = TypeVar("T")


class SqliteMove:
    """See :class:`vectorstores.migration.Move`. Others read the old vectors until all the new ones are there."""

    # Set by begin(), which comes first.
    _connection: sqlite3.Connection
    _opened: Opened

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / DATABASE
        self._done = 0
        """How many chunks have their new vector."""
        self._last = 0
        """The last row of these."""

    async def begin(self, opened: Opened) -> bool:
        """Wait for other writers and keep them out; False if there is nothing to do."""
        self._opened = opened
        return await self._do(self._begin)

    def _begin(self) -> bool:
        if not self._path.exists():
            raise StoreUnavailableError(f"there is no store at {self._folder}")
        check_log(self._path)
        self._connection = connect(self._path)
        self._connection.execute("BEGIN IMMEDIATE")
        if schema.about(self._connection, self._path)["embedder"] != self._opened.embedder_id:
            return True
        self._done = self._count()
        return False

    def _count(self) -> int:
        (count,) = self._connection.execute("SELECT count(*) FROM chunks").fetchone()
        return int(count)

    async def progress(self) -> Reembedding:
        """Count."""
        return Reembedding(self._done, await self._do(self._count))

    async def pending(self, limit: int) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""
        sql = "SELECT row, coalesce(embed_text, content) FROM chunks WHERE row > ? ORDER BY row LIMIT ?"
        return await self._do(lambda: self._connection.execute(sql, (self._last, limit)).fetchall())

    async def keep(self, rows: Sequence[tuple[int, str]], vectors: FloatArray) -> None:
        """Write the new vectors of these rows."""
        sums = vector_sums(vectors).tolist()
        items = [
            (vector.astype("<f4").tobytes(), known, row)
            for (row, _), vector, known in zip(rows, vectors, sums, strict=True)
        ]
        sql = "INSERT OR REPLACE INTO vectors (vector, sum, row) VALUES (?, ?, ?)"
        await self._do(lambda: self._connection.executemany(sql, items))
        self._done, self._last = self._done + len(rows), rows[-1][0]

    async def finish(self) -> bool:
        """Let the new vectors count from now on."""
        await self._do(self._finish)
        return True

    def _finish(self) -> None:
        # The old vectors lie in the snapshots too, which no other process puts in place meanwhile.
        for snapshot in (self._folder / INDEX).glob("*"):
            snapshot.unlink(missing_ok=True)
        self._connection.execute("DELETE FROM embeddings")
        about = {
            "embedder": self._opened.embedder_id,
            "embedder_name": repr(self._opened.embedder),
            "dim": str(self._opened.dim),
            # Whoever has the store open, and every snapshot, knows it by this id.
            "store": new_id(),
        }
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", about.items())
        self._connection.execute("COMMIT")
        # They lie in the log too.
        with closing(Database(self._path)) as database:
            Writer(database).scrub()

    async def _do(self, work: Callable[[], T]) -> T:
        def translate() -> T:
            with translated(self._path):
                return work()

        return await anyio.to_thread.run_sync(translate)

    async def close(self) -> None:
        """Let go of the store; what was not finished leaves it as it was."""
        if hasattr(self, "_connection"):
            await anyio.to_thread.run_sync(self._connection.close)
