"""Where records with task notes lie: in memory, in the files of a folder, or in one SQLite file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio.lowlevel
import anyio.to_thread
import filelock

from jeeves_reflexion.files import not_written, read_regular, replace_file, sync_folder
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
"""A larger file holds no task notes."""


class BlockingRecords(ABC):
    """A :class:`~vectorstores.base.RecordStore` of four methods that block, each run in a worker thread.

    The thread is waited for also where the caller is cancelled: a write is made whole or not at all.
    """

    @abstractmethod
    def _read(self, collection: str, key: str) -> Record | None:
        """Return a record, or None."""

    @abstractmethod
    def _swap(self, record: Record) -> None:
        """Write a record; raise :class:`ConflictError` unless what is there is of the version before it."""

    @abstractmethod
    def _all(self, collection: str) -> list[Record]:
        """Return the records of a collection."""

    @abstractmethod
    def _remove(self, collection: str, keys: Sequence[str]) -> int:
        """Remove records and return how many there were."""

    async def append_once(self, collection: str, key: str, value: JSON) -> bool:
        """Write a record that is not there yet; return whether it was not."""
        try:
            await self.compare_and_swap(collection, key, value, version=None)
        except ConflictError:
            return False
        return True

    async def get(self, collection: str, key: str) -> Record | None:
        """Return a record, or None."""
        return await self._run(partial(self._read, collection, key))

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        """Write a record if it is at this version; None: if there is none."""
        record = Record(collection, key, value, (version or 0) + 1)
        await self._run(partial(self._swap, record))
        return record

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        """Return the records of a collection, a page at a time; ``after`` counts those before it."""
        records = await self._run(partial(self._all, collection))
        start = int(after or 0)
        end = start + limit
        return RecordPage(tuple(records[start:end]), str(end) if end < len(records) else None)

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        """Remove records by key and return how many there were."""
        return await self._run(partial(self._remove, collection, list(dict.fromkeys(keys))))

    async def _run(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work)


def check_version(record: Record, found: Record | None) -> None:
    """Raise :class:`ConflictError` unless what was found is of the version before a record's."""
    if (0 if found is None else found.version) != record.version - 1:
        raise ConflictError(f"record {record.collection}/{record.key} is not at version {record.version - 1}")


class MemoryRecords(BlockingRecords):
    """Records of this process; safe for tasks and threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kept: dict[tuple[str, str], Record] = {}

    def _read(self, collection: str, key: str) -> Record | None:
        return self.kept.get((collection, key))

    def _swap(self, record: Record) -> None:
        with self._lock:
            check_version(record, self.kept.get((record.collection, record.key)))
            self.kept[record.collection, record.key] = record

    def _all(self, collection: str) -> list[Record]:
        with self._lock:
            return [record for record in self.kept.values() if record.collection == collection]

    def _remove(self, collection: str, keys: Sequence[str]) -> int:
        with self._lock:
            return sum(self.kept.pop((collection, key), None) is not None for key in keys)

    async def _run(self, work: Callable[[], T]) -> T:
        await anyio.lowlevel.checkpoint()
        return work()


class FileRecords(BlockingRecords):
    """Records as files of a folder, one JSON file each, replaced whole under a lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _read(self, collection: str, key: str) -> Record | None:
        return _read(self._path(collection, key))

    def _swap(self, record: Record) -> None:
        path = self._path(record.collection, record.key)
        document = {
            "collection": record.collection,
            "key": record.key,
            "version": record.version,
            "value": record.value,
        }
        with _locked(path):
            check_version(record, _read(path))
            replace_file(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")

    def _all(self, collection: str) -> list[Record]:
        try:
            paths = sorted(self._folder.glob(f"{collection}-*.json"))
        except OSError as error:
            raise StoreUnavailableError(f"the folder {self._folder} can't be read: {error}") from error
        return [record for path in paths if (record := _read(path)) is not None]

    def _remove(self, collection: str, keys: Sequence[str]) -> int:
        paths = [path for key in keys if (path := self._path(collection, key)).exists()]
        for path in paths:
            with _locked(path):
                path.unlink(missing_ok=True)
                sync_folder(path.parent)
        return len(paths)

    def _path(self, collection: str, key: str) -> Path:
        """A readable name that no key can leave the folder by, or share with another."""
        name = key
        if not re.fullmatch(r"[0-9a-f]{1,64}", key):
            name = f"x-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
        return self._folder / f"{collection}-{name}.json"


def _read(path: Path) -> Record | None:
    try:
        kept = json.loads(read_regular(path, MOST_BYTES).decode("utf-8"))
        return Record(str(kept["collection"]), str(kept["key"]), kept["value"], int(kept["version"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(f"{path} can't be read: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorruptError(f"{path} holds no task notes: {error}; restore it from a backup") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is to be written or removed; what fails then is an error of the store."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with filelock.FileLock(path.with_suffix(".lock"), timeout=LOCK_SECONDS):
            yield
    except (OSError, filelock.Timeout) as error:
        raise StoreUnavailableError(not_written(path, error)) from error


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
    """Records in one SQLite file. Each call has its own connection: threads, forks and cancelled calls share none."""

    def __init__(self, path: Path, namespace: str, *, create: bool) -> None:
        if not isinstance(namespace, str) or not namespace.strip():
            raise ValueError(f"namespace must be a text that is not blank, not {namespace!r}")
        self._path = path
        self._namespace = namespace
        self._create = create

    def _read(self, collection: str, key: str) -> Record | None:
        if self._is_empty():
            return None
        with self._transaction("BEGIN") as connection:
            return self._found(connection, collection, key)

    def _swap(self, record: Record) -> None:
        self._is_empty()
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
        if self._is_empty():
            return []
        with self._transaction("BEGIN") as connection:
            rows = connection.execute(
                "SELECT key, value, version FROM records WHERE namespace = ? AND collection = ? ORDER BY place",
                (self._namespace, collection),
            ).fetchall()
            return [Record(collection, key, json.loads(text), version) for key, text, version in rows]

    def _remove(self, collection: str, keys: Sequence[str]) -> int:
        if self._is_empty():
            return 0
        with self._transaction() as connection:
            scopes = [(self._namespace, collection, key) for key in keys]
            return connection.executemany(f"DELETE FROM records WHERE {_ONE}", scopes).rowcount  # noqa: S608

    def _is_empty(self) -> bool:
        """Whether nothing was ever written; an error where no file is to be made."""
        if self._path.exists():
            return self._path.stat().st_size == 0
        if not self._create:
            raise StoreUnavailableError(f"there is no file {self._path}")
        return True

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction; turn SQLite's errors into those of the stores, naming the file."""
        try:
            with contextlib.closing(self._connect()) as connection:
                connection.execute(begin)
                self._check(connection)
                yield connection
                connection.execute("COMMIT")
        except (sqlite3.Error, json.JSONDecodeError, OSError) as error:
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
        for pragma in ("synchronous=EXTRA", "secure_delete=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Make the table in a file that has none, and refuse the files of others."""
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
                f"{self._path} is of format {version}, and this version reads {_FORMAT}: update jeeves-reflexion"
            )
