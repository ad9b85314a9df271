"""Records with task notes in one SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import filelock

from jeeves_reflexion.tasknotes.records import LOCK_SECONDS, BlockingRecords, check_version
from vectorstores.base import (
    FormatVersionError,
    Record,
    StoreCorruptError,
    StoreUnavailableError,
)

_MAGIC: Final = 0x4A524E53
_FORMAT: Final = 1
_TABLE: Final = """
CREATE TABLE records (
    place INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    UNIQUE (namespace, collection, key)
)"""
_ONE: Final = "namespace = ? AND collection = ? AND key = ?"
# The row keeps its place, for notes are listed in the order of their first write.
_WRITE: Final = """
INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, collection, key) DO UPDATE SET value = excluded.value, version = excluded.version"""
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteRecords(BlockingRecords):
    """Each call has a connection of its own, so that threads, forks and cancelled calls share none."""

    def __init__(self, path: Path, namespace: str, *, create: bool) -> None:
        if not isinstance(namespace, str) or not namespace.strip():
            raise ValueError(f"namespace must be a text that is not blank, not {namespace!r}")
        self._path = path
        self._namespace = namespace
        self._create = create

    def _read(self, collection: str, key: str) -> Record | None:
        if self._is_missing():
            return None
        with self._transaction("BEGIN") as connection:
            return self._found(connection, collection, key)

    def _swap(self, record: Record) -> None:
        self._is_missing()
        text = json.dumps(record.value, allow_nan=False)
        with self._transaction() as connection:
            check_version(record, self._found(connection, record.collection, record.key))
            connection.execute(_WRITE, (self._namespace, record.collection, record.key, text, record.version))

    def _found(self, connection: sqlite3.Connection, collection: str, key: str) -> Record | None:
        row = connection.execute(
            f"SELECT value, version FROM records WHERE {_ONE}",  # noqa: S608
            (self._namespace, collection, key),
        ).fetchone()
        return None if row is None else Record(collection, key, json.loads(row[0]), row[1])

    def _all(self, collection: str) -> list[Record]:
        if self._is_missing():
            return []
        with self._transaction("BEGIN") as connection:
            rows = connection.execute(
                "SELECT key, value, version FROM records WHERE namespace = ? AND collection = ? ORDER BY place",
                (self._namespace, collection),
            ).fetchall()
            return [Record(collection, key, json.loads(text), version) for key, text, version in rows]

    def _remove(self, collection: str, keys: Sequence[str]) -> int:
        if self._is_missing():
            return 0
        with self._transaction() as connection:
            scopes = [(self._namespace, collection, key) for key in keys]
            return connection.executemany(f"DELETE FROM records WHERE {_ONE}", scopes).rowcount  # noqa: S608

    def _is_missing(self) -> bool:
        """Whether there is no file yet; an error where none is to be made."""
        if self._path.exists():
            return False
        if not self._create:
            raise StoreUnavailableError(f"there is no file {self._path}")
        return True

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction; turn SQLite's errors into those of the stores, naming the file."""
        try:
            with contextlib.closing(self._connect()) as connection, connection:
                connection.execute(begin)
                yield connection
        except (sqlite3.Error, OSError, filelock.Timeout, json.JSONDecodeError) as error:
            code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            if code in _CORRUPT or isinstance(error, json.JSONDecodeError):
                raise StoreCorruptError(
                    f"{self._path} is damaged, or no database: {error}; restore it from a backup"
                ) from error
            raise StoreUnavailableError(f"{self._path}: {error}; nothing of the call was stored") from error

    def _connect(self) -> sqlite3.Connection:
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        uri = f"{self._path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
        try:
            for pragma in ("synchronous=FULL", "secure_delete=ON", "trusted_schema=OFF"):
                connection.execute(f"PRAGMA {pragma}")
            if _pragma(connection, "application_id") != _MAGIC:
                self._prepare(connection)
            self._check_format(_pragma(connection, "user_version"))
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_format(self, version: int) -> None:
        if version != _FORMAT:
            raise FormatVersionError(
                f"{self._path} is of format {version}, and this version reads {_FORMAT}: update jeeves-reflexion"
            )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait where two connections turn the log on at once.
        with filelock.FileLock(f"{self._path}.create", timeout=LOCK_SECONDS):
            connection.execute("PRAGMA journal_mode=WAL")
            magic = _pragma(connection, "application_id")
            if magic == _MAGIC:
                return
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if magic or tables:
                raise StoreCorruptError(f"{self._path} is a database of another program: name another file")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id={_MAGIC}")
            connection.execute(f"PRAGMA user_version={_FORMAT}")
            connection.execute("COMMIT")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
