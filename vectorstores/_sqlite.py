"""SQLite as these stores use it: connections, this package's errors, and writes that share a commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from vectorstores._combine import Combiner, Failure
from vectorstores.base import StoreClosedError, StoreCorruptError, StoreUnavailableError, VectorStoreError

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]

# How long a write waits for the one of another process before it gives up.
BUSY_TIMEOUT: Final = 30.0
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: f"another process has been writing for {BUSY_TIMEOUT:.0f} s",
    sqlite3.SQLITE_LOCKED: "it is locked",
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
    except sqlite3.Error as error:
        # The lower byte is the primary code; the rest says more of the same.
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in _CORRUPT:
            raise StoreCorruptError(
                f"{path} is damaged, or no database: {error}; restore it from a backup"
            ) from error
        if code in _UNAVAILABLE:
            raise StoreUnavailableError(
                f"{path}: {_UNAVAILABLE[code]} ({error}); nothing of the call was stored"
            ) from error
        if code == sqlite3.SQLITE_ERROR:
            raise StoreCorruptError(f"{path} does not hold the tables of a store: {error}") from error
        raise


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
    except BaseException:
        # SQLite has rolled back by itself after some errors, such as a full disk.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class Database:
    """An open database file: one connection that writes, others that read.

    Writes that wait for each other share a transaction, hence a commit and a flush to disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks = {"read": threading.Lock(), "index": threading.Lock(), "write": threading.Lock()}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._combined: Combiner[Work[Any], Any] = Combiner(self._commit)
        self._scrubbed: Combiner[None, None] = Combiner(self._checkpoint)
        try:
            with translated(path):
                for role in self._locks:
                    self._connections[role] = connect(path)
        except BaseException:
            self.close()
            raise

    def write(self, work: Work[T]) -> T:
        """Run ``work`` in a write transaction, durable when this returns.

        It may be run twice, so it must do nothing but SQL.
        """
        result: T = self._combined(work)
        return result

    def _commit(self, batch: Sequence[Work[Any]]) -> list[Any]:
        try:
            return self._together(batch)
        except VectorStoreError as error:
            if len(batch) == 1:
                return [Failure(error)]
        outcomes: list[Any] = []
        for work in batch:
            # One of them spoils the transaction of all: alone, only that one fails.
            try:
                outcomes += self._together([work])
            except VectorStoreError as error:
                outcomes.append(Failure(error))
        return outcomes

    def _together(self, batch: Sequence[Work[Any]]) -> list[Any]:
        with self._using("write") as connection, transaction(connection, write=True):
            return [work(connection) for work in batch]

    def read(self, work: Work[T], role: str = "read") -> T:
        """Run ``work`` on one state of the database."""
        with self._using(role) as connection, transaction(connection, write=False):
            return work(connection)

    def scrub(self) -> None:
        """Take what was deleted out of the write-ahead log too, unless a reader needs it still."""
        self._scrubbed(None)

    def _checkpoint(self, calls: Sequence[None]) -> list[None]:
        with self._using("write") as connection:
            connection.execute("PRAGMA busy_timeout=0")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT * 1000)}")
        return list(calls)

    @contextmanager
    def _using(self, role: str) -> Iterator[sqlite3.Connection]:
        with self._locks[role]:
            connection = self._connections.get(role)
            if connection is None:
                raise StoreClosedError(f"the store at {self.path.parent} was closed; open it again to use it")
            with translated(self.path):
                yield connection

    def close(self) -> None:
        """Close the connections, after the calls that are using them."""
        for role, lock in self._locks.items():
            with lock:
                connection = self._connections.pop(role, None)
                if connection is not None:
                    connection.close()
