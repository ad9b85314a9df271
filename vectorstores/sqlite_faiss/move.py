"""Moves a store on disk to another embedder, in one transaction for which other writers wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from vectorstores._engine import embed_checked
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


async def move_folder(
    folder: Path, target: Opened, batch: int, report: Callable[[Reembedding], None]
) -> Reembedding:
    """Move a folder, as :func:`vectorstores.reembed` describes. Others read the old vectors until it is finished."""
    path = folder / DATABASE

    async def do(work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(translated(path)(work))

    if not path.exists():
        raise StoreUnavailableError(f"there is no store at {folder}")
    await do(partial(check_log, path))
    connection = await do(partial(connect, path))
    try:
        await do(partial(connection.execute, "BEGIN IMMEDIATE"))
        about = await do(partial(schema.about, connection, path))
        ((total,),) = await do(lambda: connection.execute("SELECT count(*) FROM chunks").fetchall())
        if about["embedder"] != target.embedder_id:
            done = 0
            sql = "SELECT row, coalesce(embed_text, content) FROM chunks ORDER BY row"
            # A cursor that is still open, as one that a traceback holds, would keep the closed connection's locks.
            with closing(await do(partial(connection.execute, sql))) as cursor:
                while rows := await do(partial(cursor.fetchmany, batch)):
                    vectors = await embed_checked(target, [text for _, text in rows])
                    await do(partial(_keep, connection, [row for row, _ in rows], vectors))
                    done += len(rows)
                    report(Reembedding(done, total))
            await do(partial(_finish, connection, folder, target))
        return Reembedding(total, total)
    finally:
        # Closing rolls an unfinished move back.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(connection.close)


def _keep(connection: sqlite3.Connection, rows: Sequence[int], vectors: FloatArray) -> None:
    """Write the new vectors of these rows."""
    blobs = [vector.astype("<f4").tobytes() for vector in vectors]
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (row, vector, sum) VALUES (?, ?, ?)",
        zip(rows, blobs, vector_sums(vectors).tolist(), strict=True),
    )


def _finish(connection: sqlite3.Connection, folder: Path, target: Opened) -> None:
    """Commit the new vectors."""
    # Snapshots contain the old vectors. No other process can put one in place during the transaction.
    for snapshot in (folder / INDEX).glob("*"):
        snapshot.unlink(missing_ok=True)
    connection.execute("DELETE FROM embeddings")
    # A new id makes open stores and snapshots of the old vectors invalid.
    about = target.about | {"store": new_id()}
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", about.items())
    connection.execute("COMMIT")
    # The log contains the old vectors too.
    with closing(Database(folder / DATABASE)) as database:
        Writer(database).scrub()
