"""Where records with task notes lie: in memory, in the files of a folder, or wherever four blocking methods reach."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
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
