"""The tables of a store's database, and what it says about itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from vectorstores.base import EmbedderMismatchError, FormatVersionError, StoreCorruptError, new_id
from vectorstores.sqlite_faiss.database import transaction, translated

APPLICATION_ID: Final = 0x4A565354  # "JVST"
FORMAT: Final = 1

# A chunk's row number is the number of the change that first inserted it, so it is never used twice and gives
# the order of insertion. Vectors lie apart from the texts, so that reading metadata does not drag them along.
# A sum is that of the module `rows`. A token is random: it tells changes of the same number in different histories.
_STATEMENTS: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    """CREATE TABLE chunks (
        row INTEGER PRIMARY KEY, namespace TEXT NOT NULL, id TEXT NOT NULL,
        content TEXT NOT NULL, embed_text TEXT, metadata TEXT NOT NULL, sum INTEGER) STRICT""",
    "CREATE UNIQUE INDEX chunks_by_id ON chunks (namespace, id)",
    "CREATE INDEX chunks_by_row ON chunks (namespace)",
    "CREATE TABLE vectors (row INTEGER PRIMARY KEY, vector BLOB NOT NULL, sum INTEGER) STRICT",
    """CREATE TABLE changes (
        seq INTEGER PRIMARY KEY, namespace TEXT NOT NULL, row INTEGER NOT NULL, kind INTEGER NOT NULL,
        token INTEGER) STRICT""",
    """CREATE TABLE records (
        row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, collection TEXT NOT NULL,
        key TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL) STRICT""",
    "CREATE UNIQUE INDEX records_by_key ON records (namespace, collection, key)",
    "CREATE INDEX records_by_row ON records (namespace, collection)",
    "CREATE TABLE embeddings (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL) STRICT",
    "CREATE INDEX embeddings_by_use ON embeddings (used)",
)


def build(path: Path, embedder_id: str, embedder_name: str, dim: int) -> None:
    """Write a new, empty store's database to an empty file."""
    with translated(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_mode=WAL")
        with transaction(connection, write=True):
            for statement in _STATEMENTS:
                connection.execute(statement)
            about = {
                "store": new_id(),
                "embedder": embedder_id,
                "embedder_name": embedder_name,
                "dim": str(dim),
            }
            connection.executemany("INSERT INTO meta VALUES (?, ?)", about.items())
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")


def about(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    """Return what a store says about itself: ``store`` (its id), ``embedder``, ``embedder_name``, ``dim``.

    Raises :class:`StoreCorruptError` and :class:`FormatVersionError`.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreCorruptError(f"{path} is an SQLite database, but not one of a vector store")
    if version != FORMAT:
        advice = (
            "update this package"
            if version > FORMAT
            else "open it once with the version that wrote it, and export"
        )
        raise FormatVersionError(f"{path} has format {version}, this version reads format {FORMAT}; {advice}")
    said: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
    missing = {"store", "embedder", "embedder_name", "dim"} - said.keys()
    if not missing and not said["dim"].isdecimal():
        missing = {"dim"}
    if missing:
        raise StoreCorruptError(
            f"{path} does not say its {', '.join(sorted(missing))}; restore it from a backup"
        )
    return said


def check(connection: sqlite3.Connection, path: Path, embedder_id: str, embedder_name: str, dim: int) -> str:
    """Make sure that a database is a store of this format and embedder, and return the store's own id.

    Raises :class:`StoreCorruptError`, :class:`FormatVersionError`, :class:`EmbedderMismatchError`.
    """
    said = about(connection, path)
    if (said["embedder"], said["dim"]) != (embedder_id, str(dim)):
        made = f"{said['embedder_name']} ({said['embedder']}, dim {said['dim']})"
        given = f"{embedder_name} ({embedder_id}, dim {dim})"
        raise EmbedderMismatchError(
            f"the store {path.parent} was made with {made} but is opened with {given}; their vectors can't be"
            " compared: open it with the embedder that it was made with, or move it to the new one by reembed()"
        )
    return said["store"]
