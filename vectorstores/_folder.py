"""The folder of a store: where it may lie, who may read it, how it comes to be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout, lock_descriptor, unlock_descriptor

from vectorstores._journal import check_journal
from vectorstores.base import StoreCorruptError, StoreUnavailableError

DATABASE: Final = "store.sqlite3"
SNAPSHOTS: Final = "index"
_CREATE_TIMEOUT: Final = 30.0
_POLL: Final = 0.005
_MOUNTS: Final = Path("/proc/self/mounts")
# Their locks and shared memory don't hold between machines, and SQLite's write-ahead log needs both.
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        *(
            "9p",
            "afs",
            "ceph",
            "cifs",
            "coda",
            "davfs",
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
            "nfs",
            "nfs4",
        ),
        *("smb2", "smb3", "smbfs", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs"),
        *("fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)


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
    return name.startswith(DATABASE) or name in ("create.lock", SNAPSHOTS)


def _refuse_rest(folder: Path) -> None:
    """Raise where a store was: a new one beside its other files would hide that its rows are lost."""
    rest = [SNAPSHOTS, *(f"{DATABASE}{ending}" for ending in ("-wal", "-shm", ".index.lock"))]
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
            sync_folder(folder)
    except Timeout as error:
        raise StoreUnavailableError(
            f"another process has been creating the store {folder} for {_CREATE_TIMEOUT:.0f} s"
        ) from error


@contextmanager
def held(lock: Path, patience: float) -> Iterator[None]:
    """Hold a lock file against other threads and processes; a TimeoutError after ``patience`` seconds.

    The same lock as a :class:`filelock.FileLock`, in a tenth of the system calls: every delete holds one for a moment.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = time.monotonic() + patience
        while not lock_descriptor(handle, blocking=False):
            if time.monotonic() > end:
                raise TimeoutError(f"{lock} has been held by another process for {patience:g} s")
            time.sleep(_POLL)
        try:
            yield
        finally:
            unlock_descriptor(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_network(place: Path) -> None:
    """Raise for a place on a network file system (known on Linux only)."""
    if not _MOUNTS.exists():
        return
    kind = file_system(place.resolve(), _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    if kind in _NETWORK_FILE_SYSTEMS:
        raise StoreUnavailableError(
            f"{place} is on a network file system ({kind}), whose locks can't keep a store whole;"
            " use a local folder, or PostgreSQL to share between machines"
        )


def file_system(place: Path, mounts: str) -> str | None:
    """Return the type of the file system that holds a path, by the text of ``/proc/self/mounts``."""
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescape(fields[1]))
        # Later mounts cover earlier ones at the same point.
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
