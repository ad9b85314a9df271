"""SQLite as these stores use it: connections, this package's errors, transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from vectorstores.base import (
    EmbedderMismatchError,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
)

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]

# How long a write waits for the one of another process before it gives up.
BUSY_TIMEOUT: float = 30.0
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_TAKEN: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: "another process has been writing for {seconds:g} s",
    sqlite3.SQLITE_LOCKED: "it is locked",
    sqlite3.SQLITE_PROTOCOL: "other processes did not let go of its log",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "reading or writing failed",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_TOOBIG: "an item is larger than SQLite's limit",
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into those of this package, naming the file."""
    try:
        yield
    except StoreCorruptError as error:
        if str(path) in str(error):
            raise
        raise StoreCorruptError(f"{path}: {error}") from error
    except sqlite3.Error as error:
        # The lower byte is the primary code; the rest says more of the same.
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in _CORRUPT:
            raise StoreCorruptError(
                f"{path} is damaged, or no database: {error}; restore it from a backup"
            ) from error
        if code in _UNAVAILABLE:
            raise StoreUnavailableError(
                f"{path}: {_UNAVAILABLE[code].format(seconds=BUSY_TIMEOUT)} ({error}); nothing of the call was stored"
            ) from error
        # Python says of a text that is no UTF-8 only that it could not decode it.
        if code == sqlite3.SQLITE_ERROR or "decode" in str(error):
            raise StoreCorruptError(f"{path} does not hold the tables of a store: {error}") from error
        raise


def concerns_all(error: BaseException) -> bool:
    """Whether an error is none of what was being written: another process held the lock all the time."""
    code = getattr(error.__cause__, "sqlite_errorcode", None) or 0
    return code & 0xFF in _TAKEN


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing database, durable and scrubbing what it deletes; for any thread that holds a lock."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA temp_store=MEMORY")
        connection.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """Hold one state of the database, and with ``write`` change it whole or not at all."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # The work or the commit failed; after some errors, such as a full disk, SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Database:
    """One database file, with a connection for each role; each is used by one thread at a time."""

    def __init__(self, path: Path, roles: Sequence[str] = ("read", "write")) -> None:
        self.path = path
        self.store: str | None = None
        """The id that the store must have in every transaction; None while it is not known."""
        self._locks = {role: threading.Lock() for role in roles}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._files: list[tuple[int, int] | None] = []
        """Which files the database and its log are, once they were read: what lies under their names may change."""
        try:
            with translated(path):
                for role in self._locks:
                    self._connections[role] = connect(path)
        except BaseException:
            self.close()
            raise

    def read(self, work: Work[T], role: str = "read") -> T:
        """Run ``work`` on one state of the database."""
        with self._locks[role], self._using(role) as connection, transaction(connection, write=False):
            self._check_store(connection)
            return work(connection)

    def write(self, work: Work[T]) -> T:
        """Run ``work`` in a write transaction, durable when this returns."""
        with self._locks["write"], self._using("write") as connection:
            with transaction(connection, write=True):
                self._check_store(connection)
                result = work(connection)
            # Into files that are gone by now, nothing was written.
            self._check_files()
            return result

    def scrub(self) -> bool:
        """Take what was deleted out of the write-ahead log too; False if a reader needs it still."""
        with self._locks["write"], self._using("write") as connection:
            connection.execute("PRAGMA busy_timeout=0")
            try:
                (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT * 1000:.0f}")
            return not busy

    def _check_store(self, connection: sqlite3.Connection) -> None:
        if self.store is None:
            return
        if connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone() != (self.store,):
            raise EmbedderMismatchError(
                f"the store {self.path.parent} was re-embedded by another process since it was opened here;"
                " open it again, with the embedder that it has now"
            )

    @contextmanager
    def _using(self, role: str) -> Iterator[sqlite3.Connection]:
        """Give the connection of a role, under its lock."""
        connection = self._connections.get(role)
        if connection is None:
            raise StoreClosedError(f"the store at {self.path.parent} was closed; open it again to use it")
        with translated(self.path):
            self._check_files()
            yield connection
            if not self._files:  # SQLite has made its log by now
                self._files = self._files_now()

    def _check_files(self) -> None:
        if self._files and self._files_now() != self._files:
            raise StoreUnavailableError(
                f"{self.path} or its log was deleted, moved or replaced since it was opened here; what is written now "
                "would be lost. Put the folder back, or open the store again"
            )

    def _files_now(self) -> list[tuple[int, int] | None]:
        return [_file_at(f"{self.path}{ending}") for ending in ("", "-wal", "-shm")]

    def close(self) -> None:
        """Close the connections, after the calls that are using them."""
        for role, lock in self._locks.items():
            with lock:
                connection = self._connections.pop(role, None)
                if connection is not None:
                    connection.close()


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked at every call
    except OSError:
        return None
    return found.st_dev, found.st_ino
