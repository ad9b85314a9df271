"""A record store in one SQLite file, for task notes."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from anyio.to_thread import run_sync

from jeeves_reflexion.files import read_regular
from jeeves_reflexion.types import JSON
from vectorstores.base import (
    ConflictError,
    FormatVersionError,
    Record,
    RecordPage,
    StoreCorruptError,
    StoreUnavailableError,
)

T = TypeVar("T")

LOCK_SECONDS: Final = 30.0
MOST_BYTES: Final = 10_000_000
"""A larger JSON file is not read."""

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
# An update keeps the row's place, because notes are listed in the order of their first write.
_NEW: Final = """
INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, collection, key) DO NOTHING"""
_WRITE: Final = _NEW.replace("NOTHING", "UPDATE SET value = excluded.value, version = excluded.version")
_TAKEN_OVER: Final = ("taken_over", "json")
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteRecords:
    """A :class:`~vectorstores.base.RecordStore` in one SQLite file.

    Each call has its own connection, so that threads and forks share none, in a worker thread that finishes even if the
    caller is cancelled. A write is made as a whole or not at all. Version 0.1 kept notes as JSON files in the same
    folder, without namespaces; they are copied into each namespace when it is first used.
    """

    def __init__(self, path: Path, namespace: str, *, create: bool) -> None:
        if not isinstance(namespace, str) or not namespace.strip():
            raise ValueError(f"namespace must be a text that is not blank, not {namespace!r}")
        self._path = path
        self._namespace = namespace
        self._create = create

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        """Write a record if it does not exist; return whether it was written."""
        try:
            await self.compare_and_swap(collection, key, value, version=None)
        except ConflictError:
            return False
        return True

    async def get(self, collection: str, key: str) -> Record | None:
        """Return a record, or None."""
        return await run_sync(
            partial(self._transact, lambda opened: self._found(opened, collection, key), reads=True)
        )

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        """Write a record if it has this version; None: if it does not exist."""
        text = json.dumps(value, allow_nan=False)
        record = Record(collection, key, value, (version or 0) + 1)

        def write(connection: sqlite3.Connection) -> Record:
            found = self._found(connection, collection, key)
            if (None if found is None else found.version) != version:
                raise ConflictError(f"record {collection}/{key} is not at version {version}")
            connection.execute(_WRITE, (self._namespace, collection, key, text, record.version))
            return record

        return await run_sync(self._transact, write)

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        """Return the records of a collection, a page at a time."""

        def read(connection: sqlite3.Connection) -> RecordPage:
            rows = connection.execute(
                "SELECT place, key, value, version FROM records "
                "WHERE namespace = ? AND collection = ? AND place > ? ORDER BY place LIMIT ?",
                (self._namespace, collection, int(after or 0), limit),
            ).fetchall()
            records = tuple(
                Record(collection, key, json.loads(text), version) for _, key, text, version in rows
            )
            return RecordPage(records, str(rows[-1][0]) if len(rows) == limit else None)

        return await run_sync(partial(self._transact, read, reads=True))

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        """Remove records by key; return how many existed."""

        def remove(connection: sqlite3.Connection) -> int:
            for path in self._json_files():
                if _json_row(path)[1] in keys:
                    path.unlink()
            scopes = [(self._namespace, collection, key) for key in dict.fromkeys(keys)]
            return connection.executemany(f"DELETE FROM records WHERE {_ONE}", scopes).rowcount  # noqa: S608

        return await run_sync(partial(self._transact, remove, reads=True))

    def _found(self, connection: sqlite3.Connection, collection: str, key: str) -> Record | None:
        row = connection.execute(
            f"SELECT value, version FROM records WHERE {_ONE}",  # noqa: S608
            (self._namespace, collection, key),
        ).fetchone()
        return None if row is None else Record(collection, key, json.loads(row[0]), row[1])

    def _transact(self, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        """Do ``work`` in one transaction; ``reads`` makes no file if nothing was ever written. Blocks."""
        try:
            exists = self._path.exists()
            empty = not (exists and self._path.stat().st_size) and not self._json_files()
            if empty and not exists and not self._create:
                raise StoreUnavailableError(f"there is no file {self._path}")
            address = ":memory:" if empty and reads else f"{self._path.resolve().as_uri()}?mode=rw"
            if not exists and address != ":memory:":
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(address, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
            with contextlib.closing(connection):
                for pragma in ("synchronous=EXTRA", "secure_delete=ON", "trusted_schema=OFF"):
                    connection.execute(f"PRAGMA {pragma}")
                with connection:  # commits, or rolls back
                    connection.execute("BEGIN IMMEDIATE")
                    self._check(connection)
                    return work(connection)
        except (sqlite3.Error, json.JSONDecodeError, OSError) as error:
            code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            if code in _CORRUPT or isinstance(error, json.JSONDecodeError):
                raise StoreCorruptError(
                    f"{self._path} is damaged or not a database: {error}; restore it from a backup"
                ) from error
            raise StoreUnavailableError(f"{self._path}: {error}; nothing of the call was stored") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        """Create the table in a new file, and refuse the files of other programs."""
        magic, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if magic != _MAGIC:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if magic or tables:
                raise StoreCorruptError(f"{self._path} is a database of another program: name another file")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id={_MAGIC}")
            connection.execute(f"PRAGMA user_version={_FORMAT}")
        elif version != _FORMAT:
            raise FormatVersionError(
                f"{self._path} has format {version}, and this version reads {_FORMAT}: update jeeves-reflexion"
            )
        if self._found(connection, *_TAKEN_OVER) is None and (files := self._json_files()):
            rows = [(*_TAKEN_OVER, "true", 1), *map(_json_row, files)]
            connection.executemany(_NEW, [(self._namespace, *row) for row in rows])

    def _json_files(self) -> list[Path]:
        return sorted(self._path.parent.glob("task_notes-*.json"))


def _json_row(path: Path) -> tuple[str, str, str, int]:
    try:
        kept = json.loads(read_regular(path, MOST_BYTES))
        return str(kept["collection"]), str(kept["key"]), json.dumps(kept["value"]), int(kept["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreCorruptError(
            f"{path} holds no task notes: {error}; restore it from a backup, or move it away"
        ) from error
