"""The folder of a store: which folders are allowed, how one is created, and whether SQLite's log in it is whole."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from vectorstores.base import StoreCorruptError, StoreUnavailableError
from vectorstores.file_systems import check_place, refuse_strangers
from vectorstores.sqlite_faiss.schema import build

DATABASE: Final = "store.sqlite3"
INDEX: Final = "index"
_CREATE_TIMEOUT: Final = 30.0
# In SQLite's log: the size of its header; the header of a frame, with the number of pages (not 0 in a commit) and the
# salts of this use of the log. https://www.sqlite.org/fileformat2.html#walformat
_LOG_HEADER: Final = 32
_FRAME: Final = struct.Struct(">4xI8s8x")
# In the index of the log, in this machine's byte order: the number of valid frames, and their salts.
# https://www.sqlite.org/walformat.html#the_wal_index_file_format
_LOG_INDEX: Final = struct.Struct("=16xI12x8s")


def prepare(folder: Path, about: Mapping[str, str], *, create: bool) -> Path:
    """Return the path of the database in a store's folder; with ``create``, make both when they are missing.

    ``about`` describes the embedder of a new store. Only this user may read the folder (0700) and its files (0600).
    Raises :class:`StoreUnavailableError` for a folder that can't be used, :class:`StoreCorruptError` for an empty file
    where the database should be.
    """
    database = folder / DATABASE
    try:
        check_place(folder, "a store")
        if not database.exists():
            if not create:
                raise StoreUnavailableError(f"there is no store at {folder} (create=True makes one)")
            refuse_strangers(
                folder, "a store", lambda name: name.startswith(DATABASE) or name in ("create.lock", INDEX)
            )
            # Files of an earlier store may be left: a new database beside them would hide that its rows are lost.
            rest = [INDEX, *(f"{DATABASE}{ending}" for ending in ("-wal", "-shm", ".index.lock"))]
            left = [name for name in rest if (folder / name).exists()]
            if left and not database.exists():  # asked last: another process may have made it meanwhile
                raise StoreCorruptError(
                    f"{database} is missing, beside {left[0]} of the same store: restore the folder from a backup, or "
                    "remove all of it to begin anew"
                )
            _create(folder, database, about)
        check_log(database)
        if database.stat().st_size == 0:
            raise StoreCorruptError(
                f"{database} is empty: the rows are lost; restore the folder from a backup"
            )
        if not (os.access(folder, os.W_OK | os.X_OK) and os.access(database, os.R_OK | os.W_OK)):
            raise StoreUnavailableError(f"the store folder {folder} is read-only for this user")
    except OSError as error:
        raise StoreUnavailableError(f"the store folder {folder} can't be used: {error}") from error
    return database


def _create(folder: Path, database: Path, about: Mapping[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        with FileLock(folder / "create.lock", timeout=_CREATE_TIMEOUT, mode=0o600):
            if database.exists():
                return
            # Built under another name and renamed, so that the database is complete even after a kill.
            draft = folder / f"{DATABASE}.new"
            for leftover in folder.glob(f"{DATABASE}.new*"):
                leftover.unlink()
            draft.touch(mode=0o600)
            build(draft, about)
            draft.replace(database)
            if os.name != "nt":  # makes the new name durable, where the system can
                handle = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
    except Timeout as error:
        raise StoreUnavailableError(
            f"another process has been creating the store {folder} for {_CREATE_TIMEOUT:.0f} s"
        ) from error


def check_log(database: Path) -> None:
    """Raise :class:`StoreCorruptError` if SQLite's write-ahead log has lost changes that were stored.

    SQLite reads the valid frames and silently ignores the rest. Two or more ignored commits mean that changes are lost:
    each commit is on disk before the next begins, so a power cut can damage only the last. A log that was cut off can't
    be distinguished from one that ended there.
    """
    log = Path(f"{database}-wal")
    if not log.exists():
        return
    try:
        # Read-only, for otherwise closing it would remove the log.
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            frames: list[tuple[int, bytes]] = []  # the number of pages and the salts of each
            with log.open("rb", buffering=0) as file:
                head = file.read(_LOG_HEADER)
                place = _LOG_HEADER
                while len(data := file.read(_FRAME.size)) == _FRAME.size:
                    frames.append(_FRAME.unpack(data))
                    place = file.seek(place + _FRAME.size + size)
            # Read after the frames, so that it counts what others commit meanwhile, or has other salts.
            taken, salts = _LOG_INDEX.unpack(Path(f"{database}-shm").read_bytes()[: _LOG_INDEX.size])
    except (sqlite3.Error, OSError, struct.error):
        return  # opening the database reports it
    ours = head[16:24]
    if not _is_whole(head):
        ours = Counter(salt for _, salt in frames).most_common(1)[0][0] if frames else b""
    elif salts != ours:
        return  # the log was restarted and nothing is written yet
    if sum(1 for pages, salt in frames[taken:] if pages and salt == ours) > 1:
        raise StoreCorruptError(
            f"{log} is damaged, and contained changes that are nowhere else: restore the folder from a backup, or give"
            f' these changes up with: sqlite3 {database} "PRAGMA wal_checkpoint(TRUNCATE)"'
        )


def _is_whole(head: bytes) -> bool:
    """Whether the header of a log matches its checksum."""
    if len(head) < _LOG_HEADER:
        return False
    one = two = 0
    for first, second in struct.iter_unpack(">2I" if head[3] & 1 else "<2I", head[:24]):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return head[24:] == struct.pack(">2I", one, two)
