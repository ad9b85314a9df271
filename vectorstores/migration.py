"""Moves a store to another embedder while it is in use: old vectors serve until all the new ones are there.

The new vectors are kept beside the old ones, so a move that was stopped goes on where it was. What others add,
change or delete meanwhile is noted by the database itself, whoever writes. At the end both change places in one
transaction; stores that are open then say so at their next call and have to be opened anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from vectorstores._engine import Opened, embed_checked
from vectorstores.address import folder_of
from vectorstores.base import Embedder, StoreUnavailableError
from vectorstores.origin import Origin
from vectorstores.postgres.address import is_postgres, require_psycopg
from vectorstores.reembedding import Move, Reembedding
from vectorstores.sqlite_faiss import schema
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.folder import DATABASE
from vectorstores.sqlite_faiss.move import SqliteMove

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from pathlib import Path

_NUMBER: Final = 4  # bytes of a float32
_ROW: Final = 40  # bytes of a row beside its vector, generously
_PAGE: Final = 4096


async def reembed(
    url: str | os.PathLike[str],
    *,
    embedder: Embedder,
    batch: int = 256,
    on_progress: Callable[[Reembedding], None] | None = None,
) -> Reembedding:
    """Embed everything in the store at ``url`` with another embedder, and make it the store's own.

    Searches and writes of others go on with the old one meanwhile. A move that was stopped, however, is taken
    up where it was; one to another embedder is given up for this one. ``batch`` texts are embedded at a time;
    ``on_progress`` is called after each. What is embedded is each chunk's ``embed_text``, else its content, also
    where the old vector had been supplied by a caller.

    Raises :class:`~vectorstores.StoreUnavailableError` where there is no store, or when another process moves it
    to a third embedder at the same time, :class:`~vectorstores.EmbeddingError`, and what opening a store raises.
    """
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch must be a whole number, got {batch!r}")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    move = _move(url)
    try:
        opened = await anyio.to_thread.run_sync(lambda: Opened(embedder, embedder.id, embedder.dim))
        if await move.begin(opened):
            await _fill(move, opened, batch, on_progress)
        return await move.progress()
    finally:
        with anyio.CancelScope(shield=True):
            await move.close()


async def _fill(
    move: Move, opened: Opened, batch: int, on_progress: Callable[[Reembedding], None] | None
) -> None:
    while True:
        rows = await move.pending(batch)
        if rows:
            await move.keep(rows, await embed_checked(opened, [text for _, text in rows]))
        elif await move.finish():
            return
        if on_progress is not None:
            on_progress(await move.progress())


def _move(url: str | os.PathLike[str]) -> Move:
    address = os.fspath(url)
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.move import PostgresMove  # noqa: PLC0415 - optional dependency

        return PostgresMove(address)
    folder = folder_of(url)
    if folder is None:
        raise StoreUnavailableError(
            f"{address} is no store that can be re-embedded; name a folder or a PostgreSQL database"
        )
    return SqliteMove(folder)


@dataclass(frozen=True, slots=True)
class ReembeddingEstimate:
    """What :func:`~vectorstores.reembed` would do: embed ``texts`` of ``total`` chunks, in all namespaces.

    ``begun`` says that a move to this embedder was begun and would go on. ``bytes_needed`` is about what is written
    beside what is there, at most at one time; ``bytes_free`` is what the disk has, None where it is another machine's.
    """

    before: Origin
    after: Origin
    texts: int
    total: int
    begun: bool
    bytes_needed: int
    bytes_free: int | None


async def estimate_reembedding(url: str | os.PathLike[str], *, embedder: Embedder) -> ReembeddingEstimate:
    """Say what moving the store at ``url`` to an embedder would take. Changes nothing and embeds nothing.

    Raises :class:`~vectorstores.StoreUnavailableError` where there is no store, and what reading it raises.
    """
    return await anyio.to_thread.run_sync(_estimate, os.fspath(url), embedder)


def _estimate(address: str, embedder: Embedder) -> ReembeddingEstimate:
    after = Origin(embedder.id, repr(embedder), embedder.dim)
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.about import read_sizes  # noqa: PLC0415 - optional dependency

        sizes = read_sizes(address)
        if sizes is None:
            raise StoreUnavailableError("there is no store at this PostgreSQL database and schema")
        about, total, left, size = sizes
        # Each row is written anew beside the old one, with its new vector, and the index is about as long again.
        return _made(about, after, total, left, size + 2 * total * _bytes(after.dim), None)
    folder = folder_of(address)
    if folder is None or not (folder / DATABASE).exists():
        raise StoreUnavailableError(f"there is no store at {address}")
    said, total, left = _counts(folder)
    # The new vectors in the database and in the index's file, and the log of the old ones' going; a tenth for the rest.
    needed = total * (_in_pages(after.dim) + _bytes(after.dim) + _in_pages(int(said["dim"]))) * 11 // 10
    return _made(said, after, total, left, needed, shutil.disk_usage(folder).free)


def _bytes(dim: int) -> int:
    return _NUMBER * dim + _ROW


def _in_pages(dim: int) -> int:
    """Bytes that a vector takes in SQLite's pages: as many to a page as fit, or several pages."""
    row = _bytes(dim)
    return _PAGE // (_PAGE // row) if row <= _PAGE else -(-row // _PAGE) * _PAGE


def _counts(folder: Path) -> tuple[Mapping[str, str], int, int]:
    path = folder / DATABASE

    def read(connection: sqlite3.Connection) -> tuple[Mapping[str, str], int, int]:
        said = schema.about(connection, path)
        (total,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
        left = total
        if "next_embedder" in said:
            (left,) = connection.execute("SELECT count(*) FROM next_pending").fetchone()
        return said, total, left

    with closing(Database(path)) as database:
        return database.read(read)


def _made(
    said: Mapping[str, str], after: Origin, total: int, left: int, needed: int, free: int | None
) -> ReembeddingEstimate:
    before = Origin(said["embedder"], said["embedder_name"], int(said["dim"]))
    begun = said.get("next_embedder") == after.embedder_id
    texts = left if begun else 0 if before.embedder_id == after.embedder_id else total
    return ReembeddingEstimate(before, after, texts, total, begun, needed if texts else 0, free)
