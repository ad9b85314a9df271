"""SQLite for the folder store: connections, transactions, and SQLite's errors as this package's errors."""

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

# Seconds that a write waits for another process before it gives up.
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
        # The lower byte is the primary code; the rest gives details.
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in _CORRUPT:
            raise StoreCorruptError(
                f"{path} is damaged, or not a database: {error}; restore it from a backup"
            ) from error
        if code in _UNAVAILABLE:
            raise StoreUnavailableError(
                f"{path}: {_UNAVAILABLE[code].format(seconds=BUSY_TIMEOUT)} ({error}); nothing of the call was stored"
            ) from error
        # For a text that is not UTF-8, Python's error has no code and says only that it can't be decoded.
        if code == sqlite3.SQLITE_ERROR or "decode" in str(error):
            raise StoreCorruptError(f"{path} does not hold the tables of a store: {error}") from error
        raise


def concerns_all(error: BaseException) -> bool:
    """Whether an error is not due to one of the writes: another process held the lock all the time."""
    code = getattr(error.__cause__, "sqlite_errorcode", None) or 0
    return code & 0xFF in _TAKEN


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing database with durable commits and erasing deletes. Threads must share it under a lock."""
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
    """Run the block on one state of the database; with ``write``, its changes take effect whole or not at all."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # The block or the commit failed; after some errors, such as a full disk, SQLite has already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Database:
    """One database file, with a connection for each role; each is used by one thread at a time."""

    def __init__(self, path: Path, roles: Sequence[str] = ("read", "write")) -> None:
        self.path = path
        self.store: str | None = None
        """The id that the store must have in every transaction; None until it is known."""
        self._locks = {role: threading.Lock() for role in roles}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._files: list[tuple[int, int] | None] = []
        """The device and inode of the database and its logs when first used: later their names may mean other files."""
        try:
            with translated(path):
                for role in self._locks:
                    self._connections[role] = connect(path)
        except BaseException:
            self.close()
            raise

    def read(self, work: Work[T], role: str = "read") -> T:
        """Run ``work`` on one state of the database."""
        with self._using(role) as connection, transaction(connection, write=False):
            self._check_store(connection)
            return work(connection)

    def write(self, work: Work[T]) -> T:
        """Run ``work`` in a write transaction, durable when this returns."""
        with self._using("write") as connection:
            with transaction(connection, write=True):
                self._check_store(connection)
                result = work(connection)
            # If the files are gone by now, the write is lost.
            self._check_files()
            return result

    def scrub(self) -> bool:
        """Erase deleted bytes from the write-ahead log too. Returns False if a reader still needs it."""
        with self._using("write") as connection:
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
        """Yield the connection of a role, to one thread at a time."""
        with self._locks[role], translated(self.path):
            connection = self._connections.get(role)
            if connection is None:
                raise StoreClosedError(f"the store at {self.path.parent} was closed; open it again to use it")
            self._check_files()
            yield connection
            if not self._files:  # SQLite has created its log by now
                self._files = self._files_now()

    def _check_files(self) -> None:
        if self._files and self._files_now() != self._files:
            raise StoreUnavailableError(
                f"{self.path} or its log was deleted, moved or replaced since it was opened here; what is written now "
                "would be lost. Put the folder back, or open the store again"
            )

    def _files_now(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for ending in ("", "-wal", "-shm"):
            try:
                status = os.stat(f"{self.path}{ending}")  # noqa: PTH116 - quicker, and called in every transaction
            except OSError:
                found.append(None)
            else:
                found.append((status.st_dev, status.st_ino))
        return found

    def close(self) -> None:
        """Close the connections when running calls have finished."""
        for role, lock in self._locks.items():
            with lock:
                connection = self._connections.pop(role, None)
                if connection is not None:
                    connection.close()
