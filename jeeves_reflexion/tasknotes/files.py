"""Task notes as files of a folder: one JSON file for each task, to be read and kept under version control."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
import filelock

from jeeves_reflexion.files import not_written, read_regular, replace_file, sync_folder
from jeeves_reflexion.tasknotes.records import AppendsBySwapping, page_of
from jeeves_reflexion.tasknotes.versioned import VersionedReflectionStore
from jeeves_reflexion.types import JSON
from vectorstores.base import (
    ConflictError,
    Record,
    RecordPage,
    StoreCorruptError,
    StoreUnavailableError,
)

LOCK_SECONDS: Final = 30.0
MOST_BYTES: Final = 10_000_000
"""A larger file holds no task notes."""


class FileReflectionStore(VersionedReflectionStore):
    """Task notes in a folder, shared by the processes of one machine; durable when a call returns.

    The folder is made at the first write, for this user alone. A file is replaced whole under a lock, so that a
    reader never sees half of one.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        super().__init__(_FileRecords(self.folder))


class _FileRecords(AppendsBySwapping):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, collection: str, key: str) -> Record | None:
        return await anyio.to_thread.run_sync(_read, self._path(collection, key))

    async def compare_and_swap(
        self, collection: str, key: str, value: JSON, *, version: int | None
    ) -> Record:
        record = Record(collection, key, value, 1 if version is None else version + 1)
        return await anyio.to_thread.run_sync(
            partial(_swap, self._path(collection, key), record, version=version)
        )

    async def scan_records(
        self, collection: str, *, after: str | None = None, limit: int = 100
    ) -> RecordPage:
        records = await anyio.to_thread.run_sync(self._all, collection)
        return page_of(records, after, limit)

    async def delete_records(self, collection: str, keys: Sequence[str]) -> int:
        paths = [self._path(collection, key) for key in dict.fromkeys(keys)]
        return await anyio.to_thread.run_sync(lambda: sum(map(_remove, paths)))

    def _path(self, collection: str, key: str) -> Path:
        """A readable name that no key can leave the folder by, or share with another."""
        name = key if re.fullmatch(r"[0-9a-f]{1,64}", key) else f"x-{_digest(key)}"
        return self._folder / f"{collection}-{name}.json"

    def _all(self, collection: str) -> list[Record]:
        try:
            paths = sorted(self._folder.glob(f"{collection}-*.json"))
        except OSError as error:
            raise StoreUnavailableError(f"the folder {self._folder} can't be read: {error}") from error
        return [record for path in paths if (record := _read(path)) is not None]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> Record | None:
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise StoreCorruptError(f"{path} is no text: {error}; restore it from a backup") from error
    except OSError as error:
        raise StoreUnavailableError(f"{path} can't be read: {error}") from error
    try:
        kept = json.loads(text)
        return Record(str(kept["collection"]), str(kept["key"]), kept["value"], int(kept["version"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorruptError(f"{path} holds no task notes: {error}; restore it from a backup") from error


def _swap(path: Path, record: Record, *, version: int | None) -> Record:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path):
            found = _read(path)
            if (None if found is None else found.version) != version:
                raise ConflictError(f"{path} is not at version {version}")
            document = {
                "collection": record.collection,
                "key": record.key,
                "version": record.version,
                "value": record.value,
            }
            replace_file(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    except (OSError, filelock.Timeout) as error:
        raise StoreUnavailableError(not_written(path, error)) from error
    return record


def _remove(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with _locked(path):
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
    except (OSError, filelock.Timeout) as error:
        raise StoreUnavailableError(f"{path} can't be removed: {error}") from error
    return True


def _locked(path: Path) -> filelock.BaseFileLock:
    return filelock.FileLock(path.with_suffix(".lock"), timeout=LOCK_SECONDS)
