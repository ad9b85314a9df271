"""Moves a store to another embedder: old vectors serve until all the new ones are there.

Then both change places in one transaction; stores that are open say so at their next call and have to be opened anew.
A folder is moved in one transaction, for which writers wait. In PostgreSQL the new vectors are kept beside the old
ones, so others write meanwhile, and a move that was stopped goes on where it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread

from vectorstores._engine import Opened, embed_checked
from vectorstores.address import folder_of
from vectorstores.base import Embedder, StoreUnavailableError
from vectorstores.origin import Origin
from vectorstores.postgres.address import is_postgres, require_psycopg
from vectorstores.sqlite_faiss import schema
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.folder import DATABASE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from pathlib import Path

    from vectorstores.base import FloatArray

# Bytes of a row beside its vector, generously.
_ROW: Final = 500


@dataclass(frozen=True, slots=True)
class Reembedding:
    """How far a move is: ``done`` of ``total`` chunks have their new vector, in all namespaces."""

    done: int
    total: int


class Move(Protocol):
    """A store whose vectors are being replaced."""

    async def begin(self, opened: Opened) -> bool:
        """Make room for new vectors, or take up a move to the same embedder; False if there is nothing to do."""
        ...

    async def progress(self) -> Reembedding:
        """Count."""
        ...

    async def pending(self, limit: int) -> list[tuple[int, str]]:
        """Return rows without a new vector, with the text to embed."""
        ...

    async def keep(self, rows: Sequence[tuple[int, str]], vectors: FloatArray) -> None:
        """Keep the new vectors of the rows whose text is still the same."""
        ...

    async def finish(self) -> bool:
        """Let the new vectors take the place of the old ones; False if some are missing after all."""
        ...

    async def close(self) -> None:
        """Let go of the store."""
        ...


async def reembed(
    url: str | os.PathLike[str],
    *,
    embedder: Embedder,
    batch: int = 256,
    on_progress: Callable[[Reembedding], None] | None = None,
) -> Reembedding:
    """Embed everything in the store at ``url`` with another embedder, and make it the store's own.

    Searches of others go on with the old one meanwhile. In a folder, writes of others wait up to 30 seconds and then
    raise :class:`~vectorstores.StoreUnavailableError`, and a move that was stopped leaves everything as it was. In
    PostgreSQL writes go on, a stopped move is taken up where it was, and one to another embedder is given up for this
    one. ``batch`` texts are embedded at a time;
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
    from vectorstores.sqlite_faiss.move import SqliteMove  # noqa: PLC0415 - it has its results from here

    return SqliteMove(folder)


@dataclass(frozen=True, slots=True)
class ReembeddingEstimate:
    """What :func:`~vectorstores.reembed` would do: embed ``texts`` of ``total`` chunks, in all namespaces.

    ``begun`` says that a move to this embedder was begun and would go on, in PostgreSQL. ``bytes_needed`` is about what
    is written beside what is there, at most at one time; ``bytes_free`` is what the disk has, None where it is another
    machine's.
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
    said: Mapping[str, str]
    free: int | None = None
    if is_postgres(address):
        require_psycopg()
        from vectorstores.postgres.about import read_counts  # noqa: PLC0415 - optional dependency

        counts = read_counts(address)
        if counts is None:
            raise StoreUnavailableError("there is no store at this PostgreSQL database and schema")
        said, total, left = counts
    else:
        folder = folder_of(address)
        if folder is None or not (folder / DATABASE).exists():
            raise StoreUnavailableError(f"there is no store at {address}")
        said, total = _counts(folder / DATABASE)
        left = total
        free = shutil.disk_usage(folder).free
    before = Origin(said["embedder"], said["embedder_name"], int(said["dim"]))
    begun = is_postgres(address) and said.get("next_embedder") == after.embedder_id
    texts = left if begun else 0 if before.embedder_id == after.embedder_id else total
    # The new vectors in rows and index, and the old ones once more: their rows are written anew, or leave by the log.
    needed = total * (4 * before.dim + 2 * 4 * after.dim + _ROW) if texts else 0
    return ReembeddingEstimate(before, after, texts, total, begun, needed, free)


def _counts(path: Path) -> tuple[Mapping[str, str], int]:
    def read(connection: sqlite3.Connection) -> tuple[Mapping[str, str], int]:
        said = schema.about(connection, path)
        (total,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
        return said, total

    with closing(Database(path)) as database:
        return database.read(read)
