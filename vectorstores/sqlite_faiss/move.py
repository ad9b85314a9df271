"""A move to another embedder, in the database of a store on disk.

``next_vectors`` fills up beside ``vectors``. ``next_pending`` names the rows that are missing there; triggers keep it
true, so that a process that knows nothing of the move takes part in it too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread

from vectorstores.base import StoreUnavailableError, new_id
from vectorstores.migration import Reembedding
from vectorstores.sqlite_faiss import schema
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.folder import DATABASE, INDEX
from vectorstores.sqlite_faiss.rows import vector_sums

if TYPE_CHECKING:
    from vectorstores._engine import Opened
    from vectorstores.base import FloatArray

T = TypeVar("T")

_TRIGGERS: Final = {
    "next_on_insert": """AFTER INSERT ON chunks BEGIN
        INSERT INTO next_pending VALUES (NEW.row); END""",
    "next_on_update": """AFTER UPDATE OF content, embed_text ON chunks
        WHEN coalesce(OLD.embed_text, OLD.content) IS NOT coalesce(NEW.embed_text, NEW.content) BEGIN
        DELETE FROM next_vectors WHERE row = NEW.row;
        DELETE FROM next_pending WHERE row = NEW.row;
        INSERT INTO next_pending VALUES (NEW.row); END""",
    "next_on_delete": """AFTER DELETE ON chunks BEGIN
        DELETE FROM next_vectors WHERE row = OLD.row;
        DELETE FROM next_pending WHERE row = OLD.row; END""",
}
_OURS: Final = ("next_embedder", "next_embedder_name", "next_dim")


class SqliteMove:
    """See :class:`vectorstores.migration.Move`."""

    # Set by begin(), which comes first.
    _database: Database
    _opened: Opened

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / DATABASE

    async def begin(self, opened: Opened) -> bool:
        """Make room for new vectors, or take up a move to the same embedder; False if there is nothing to do."""
        self._opened = opened
        return await anyio.to_thread.run_sync(self._begin)

    def _begin(self) -> bool:
        if not self._path.exists():
            raise StoreUnavailableError(f"there is no store at {self._folder}")
        self._database = Database(self._path)
        return self._database.write(self._prepare)

    def _prepare(self, connection: sqlite3.Connection) -> bool:
        said = schema.about(connection, self._path)
        opened = self._opened
        if said.get("next_embedder") == opened.embedder_id:
            return True
        _drop(connection)
        if said["embedder"] == opened.embedder_id:
            return False
        connection.execute(
            "CREATE TABLE next_vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL, sum INTEGER) STRICT"
        )
        connection.execute("CREATE TABLE next_pending (row INTEGER PRIMARY KEY) STRICT")
        connection.execute("INSERT INTO next_pending SELECT row FROM chunks")
        for name, body in _TRIGGERS.items():
            connection.execute(f"CREATE TRIGGER {name} {body}")
        values = (opened.embedder_id, repr(opened.embedder), str(opened.dim))
        connection.executemany("INSERT INTO meta VALUES (?, ?)", zip(_OURS, values, strict=True))
        return True

    async def progress(self) -> Reembedding:
        """Count."""
        return await self._read(_count)

    async def pending(self, limit: int) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""

        def work(connection: sqlite3.Connection) -> list[tuple[int, str]]:
            if self._done(connection):
                return []
            return connection.execute(
                "SELECT row, coalesce(embed_text, content) FROM next_pending JOIN chunks USING (row)"
                " ORDER BY row LIMIT ?",
                (limit,),
            ).fetchall()

        return await self._read(work)

    async def keep(self, rows: Sequence[tuple[int, str]], vectors: FloatArray) -> None:
        """Keep the new vectors of the rows whose text is still the same."""

        def work(connection: sqlite3.Connection) -> None:
            if self._done(connection):
                return
            sums = vector_sums(vectors).tolist()
            for (row, text), vector, known in zip(rows, vectors, sums, strict=True):
                kept = connection.execute(
                    "INSERT OR REPLACE INTO next_vectors (row, vector, sum) SELECT row, ?, ? FROM chunks"
                    " WHERE row = ? AND coalesce(embed_text, content) = ?",
                    (vector.astype("<f4").tobytes(), known, row, text),
                )
                if kept.rowcount == 1:
                    connection.execute("DELETE FROM next_pending WHERE row = ?", (row,))

        await self._write(work)

    async def finish(self) -> bool:
        """Let the new vectors take the place of the old ones; False if some are missing after all."""
        return await anyio.to_thread.run_sync(self._finish)

    def _finish(self) -> bool:
        if not self._database.write(self._swap):
            return False
        # The old vectors lie in the log too.
        self._database.scrub()
        return True

    def _swap(self, connection: sqlite3.Connection) -> bool:
        if self._done(connection):
            return True
        if connection.execute("SELECT 1 FROM next_pending LIMIT 1").fetchone() is not None:
            return False
        # The old vectors lie in the snapshots too, which no other process puts in place meanwhile.
        for snapshot in (self._folder / INDEX).glob("*"):
            snapshot.unlink(missing_ok=True)
        opened = self._opened
        connection.execute("DROP TABLE vectors")
        connection.execute("ALTER TABLE next_vectors RENAME TO vectors")
        connection.execute("DELETE FROM embeddings")
        _drop(connection)
        about = {
            "embedder": opened.embedder_id,
            "embedder_name": repr(opened.embedder),
            "dim": str(opened.dim),
            # Whoever has the store open, and every snapshot, knows it by this id.
            "store": new_id(),
        }
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", about.items())
        return True

    def _done(self, connection: sqlite3.Connection) -> bool:
        """Whether another process, moving to the same embedder, has finished."""
        said = schema.about(connection, self._path)
        target = self._opened.embedder_id
        if said.get("next_embedder") == target:
            return False
        if said["embedder"] == target:
            return True
        raise StoreUnavailableError(
            f"the store {self._folder} is no longer being moved to {target}: another process began a move of its own;"
            " start again if this one is still wanted"
        )

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await anyio.to_thread.run_sync(partial(self._database.read, work))

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await anyio.to_thread.run_sync(self._database.write, work)

    async def close(self) -> None:
        """Let go of the store."""
        if hasattr(self, "_database"):
            await anyio.to_thread.run_sync(self._database.close)


def _drop(connection: sqlite3.Connection) -> None:
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    for table in ("next_vectors", "next_pending"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in _OURS])


def _count(connection: sqlite3.Connection) -> Reembedding:
    (total,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
    moving = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'next_pending'").fetchone()
    (missing,) = (
        (0,) if moving is None else connection.execute("SELECT count(*) FROM next_pending").fetchone()
    )
    return Reembedding(total - missing, total)
