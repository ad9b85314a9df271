"""The tables of a store's database, and the description of the store in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from vectorstores._engine import FORMAT, check_format, check_said
from vectorstores.base import StoreCorruptError, new_id
from vectorstores.sqlite_faiss.database import transaction, translated

APPLICATION_ID: Final = 0x4A565354  # "JVST"

# A chunk's row number is the number of the change that first inserted it, so it is never used twice and gives
# the order of insertion. Vectors have their own table, so that reading metadata does not read them too. A sum is a
# checksum of the module `rows`. A token is random: it tells apart changes with the same number in different histories.
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


def build(path: Path, about: Mapping[str, str]) -> None:
    """Write the database of a new store to an empty file; ``about`` describes its embedder."""
    with translated(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_mode=WAL")
        with transaction(connection, write=True):
            for statement in _STATEMENTS:
                connection.execute(statement)
            description = {"store": new_id(), **about}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", description.items())
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")


def about(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    """Return a store's description: ``store`` (its id), ``embedder``, ``embedder_name``, ``dim``.

    Raises :class:`StoreCorruptError` and :class:`FormatVersionError`.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreCorruptError(f"{path} is an SQLite database, but not one of a vector store")
    check_format(version, path)
    description: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
    check_said(description, path)
    return description
