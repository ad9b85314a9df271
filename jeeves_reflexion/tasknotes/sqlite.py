"""Task notes in one SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import anyio.to_thread
import filelock

from jeeves_reflexion.tasknotes.records import AppendsBySwapping
from jeeves_reflexion.tasknotes.versioned import VersionedReflectionStore
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

BUSY_SECONDS: Final = 30.0
"""How long a write waits for the one of another process."""

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
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteReflectionStore(VersionedReflectionStore):
    """Task notes in the file ``path``, durable when a call returns, in any number of processes at once.

    The file is made at the first write, for this user alone; with ``create=False`` a file that is missing is an
    error. Namespaces of one file never see each other's notes. Not for network file systems, as SQLite's log isn't.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, namespace: str = "default", create: bool = True
    ) -> None:
        self.path = Path(path)
        super().__init__(_SqliteRecords(self.path, namespace, create=create))


class _SqliteRecords(AppendsBySwapping):
    """Each call has a connection of its own, so that threads, forks and cancelled calls share none."""

    def __init__(self, path: Path, namespace: str, *, create: bool) -> None:
        if not isinstance(namespace, str) or not namespace.strip():
            raise ValueError(f"namespace must be a text that is not blank, not {namespace!r}")
        self._path = path
        self._namespace = namespace
        self._create = create

    async def get(self, collection: str, key: str) -> Record | None:
        def read(connection: sqlite3.Connection) -> Record | None:
            row = connection.execute(
                "SELECT value, version FROM records WHERE namespace = ? AND collection = ? AND key = ?",
                (self._namespace, collection, key),
            ).fetchone()
            return None if row is None else Record(collection, key, json.loads(row[0]), row[1])

        return await self._run(read, missing=None)

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        text = json.dumps(value, allow_nan=False)
        scope = (self._namespace, collection, key)

        def swap(connection: sqlite3.Connection) -> Record:
            if version is None:
                changed = connection.execute(
                    "INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, 1)"
                    " ON CONFLICT DO NOTHING",
                    (*scope, text),
                )
            else:
                changed = connection.execute(
                    "UPDATE records SET value = ?, version = version + 1"
                    " WHERE namespace = ? AND collection = ? AND key = ? AND version = ?",
                    (text, *scope, version),
                )
            if changed.rowcount != 1:
                raise ConflictError(f"record {collection}/{key} is not at version {version}")
            return Record(collection, key, value, (version or 0) + 1)

        return await anyio.to_thread.run_sync(self._blocking, swap)

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        def read(connection: sqlite3.Connection) -> RecordPage:
            rows = connection.execute(
                "SELECT place, key, value, version FROM records WHERE namespace = ? AND collection = ? AND place > ?"
                " ORDER BY place LIMIT ?",
                (self._namespace, collection, int(after or 0), limit + 1),
            ).fetchall()
            records = tuple(Record(collection, key, json.loads(text), n) for _, key, text, n in rows[:limit])
            return RecordPage(records, str(rows[limit - 1][0]) if len(rows) > limit else None)

        return await self._run(read, missing=RecordPage((), None))

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        def delete(connection: sqlite3.Connection) -> int:
            return sum(
                connection.execute(
                    "DELETE FROM records WHERE namespace = ? AND collection = ? AND key = ?",
                    (self._namespace, collection, key),
                ).rowcount
                for key in dict.fromkeys(keys)
            )

        return await self._run(delete, write=True, missing=0)

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, missing: T, write: bool = False) -> T:
        """Do work on a file that is there; one that isn't says ``missing``."""

        def run() -> T:
            if self._create and not self._path.exists():
                return missing
            return self._blocking(work, write=write)

        return await anyio.to_thread.run_sync(run)

    def _blocking(self, work: Callable[[sqlite3.Connection], T], *, write: bool = True) -> T:
        if not self._create and not self._path.exists():
            raise StoreUnavailableError(f"there is no file {self._path}")
        with _translated(self._path), contextlib.closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                value = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return value

    def _connect(self) -> sqlite3.Connection:
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        uri = f"{self._path.resolve().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        (magic,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if magic != _MAGIC:
            self._prepare(connection)
        elif version != _FORMAT:
            raise FormatVersionError(
                f"{self._path} is of format {version}, and this version reads {_FORMAT}: update jeeves-reflexion"
            )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait where two connections turn the log on at once.
        with filelock.FileLock(f"{self._path}.create", timeout=BUSY_SECONDS):
            connection.execute("PRAGMA journal_mode=WAL")
            (magic,) = connection.execute("PRAGMA application_id").fetchone()
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


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into those of the stores, naming the file."""
    try:
        yield
    except (sqlite3.Error, OSError, filelock.Timeout, json.JSONDecodeError) as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in _CORRUPT or isinstance(error, json.JSONDecodeError):
            raise StoreCorruptError(
                f"{path} is damaged, or no database: {error}; restore it from a backup"
            ) from error
        raise StoreUnavailableError(f"{path}: {error}; nothing of the call was stored") from error
