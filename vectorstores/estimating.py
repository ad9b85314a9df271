"""What a move to another embedder would take, found out without beginning one."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from vectorstores import _schema
from vectorstores._folder import DATABASE
from vectorstores._sqlite import Database
from vectorstores.base import StoreUnavailableError
from vectorstores.opening import folder_of
from vectorstores.origin import Origin
from vectorstores.postgres.address import is_postgres, require_psycopg

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from vectorstores.base import Embedder

_NUMBER: Final = 4  # bytes of a float32
_ROW: Final = 40  # bytes of a row beside its vector, generously
_PAGE: Final = 4096


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
        said = _schema.about(connection, path)
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
