"""The folder of a store: where it may lie, who may read it, how it comes to be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from vectorstores.base import StoreCorruptError, StoreUnavailableError
from vectorstores.file_systems import refuse_network
from vectorstores.sqlite_faiss.journal import check_journal

DATABASE: Final = "store.sqlite3"
INDEX: Final = "index"
_CREATE_TIMEOUT: Final = 30.0


def prepare(folder: Path, *, create: bool, build: Callable[[Path], None]) -> Path:
    """Return the path of the database in a store's folder; with ``create``, make both when they are missing.

    ``build`` writes a new database to a path. The folder is made for the user alone (0700), its files too
    (0600). Raises :class:`StoreUnavailableError` for a place that can't be used, :class:`StoreCorruptError`
    for an empty file where the database should be.
    """
    try:
        return _prepare(folder, create=create, build=build)
    except OSError as error:
        raise StoreUnavailableError(f"the store folder {folder} can't be used: {error}") from error


def _prepare(folder: Path, *, create: bool, build: Callable[[Path], None]) -> Path:
    database = folder / DATABASE
    if folder.exists() and not folder.is_dir():
        raise StoreUnavailableError(f"{folder} is a file, not the folder of a store")
    existing = folder
    while not existing.exists():
        existing = existing.parent
    refuse_network(existing)
    if not database.exists():
        if not create:
            raise StoreUnavailableError(f"there is no store at {folder} (create=True makes one)")
        strangers = (
            [entry.name for entry in folder.iterdir() if not _ours(entry.name)] if folder.exists() else []
        )
        if strangers:
            raise StoreUnavailableError(
                f"{folder} is not a store: it holds other files, such as {min(strangers)!r};"
                " name an empty or a new folder"
            )
        _refuse_rest(folder)
        _create(folder, database, build)
    check_journal(database)
    if database.stat().st_size == 0:
        raise StoreCorruptError(f"{database} is empty: the rows are lost; restore the folder from a backup")
    if not (os.access(folder, os.W_OK | os.X_OK) and os.access(database, os.R_OK | os.W_OK)):
        raise StoreUnavailableError(f"the store folder {folder} is read-only for this user")
    return database


def _ours(name: str) -> bool:
    return name.startswith(DATABASE) or name in ("create.lock", INDEX)


def _refuse_rest(folder: Path) -> None:
    """Raise where a store was: a new one beside its other files would hide that its rows are lost."""
    rest = [INDEX, *(f"{DATABASE}{ending}" for ending in ("-wal", "-shm", ".index.lock"))]
    left = [name for name in rest if (folder / name).exists()]
    if left and not (folder / DATABASE).exists():  # asked last: another process may have made it meanwhile
        raise StoreCorruptError(
            f"{folder / DATABASE} is missing, beside {left[0]} of the same store: restore the folder from a backup, or "
            "remove all of it to begin anew"
        )


def _create(folder: Path, database: Path, build: Callable[[Path], None]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        with FileLock(folder / "create.lock", timeout=_CREATE_TIMEOUT, mode=0o600):
            if database.exists():
                return
            # Built aside and renamed: whoever sees the database sees a whole one, even after a kill in the
            # middle.
            draft = folder / f"{DATABASE}.new"
            for leftover in folder.glob(f"{DATABASE}.new*"):
                leftover.unlink()
            draft.touch(mode=0o600)
            build(draft)
            draft.replace(database)
            _sync_folder(folder)
    except Timeout as error:
        raise StoreUnavailableError(
            f"another process has been creating the store {folder} for {_CREATE_TIMEOUT:.0f} s"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
