"""SQLite as these stores use it: connections, this package's errors, and writes that share a commit."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

from vectorstores._combine import Combiner, Failure
from vectorstores.base import (
    EmbedderMismatchError,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
    VectorStoreError,
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


class translated:  # noqa: N801 - used like a function
    """Turns SQLite's errors into those of this package, naming the file."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing to do yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            _translate(error, self._path)


def _translate(error: BaseException, path: Path) -> None:
    """Raise this package's error for one of SQLite's; return for all others."""
    if isinstance(error, StoreCorruptError):
        if str(path) not in str(error):
            raise StoreCorruptError(f"{path}: {error}") from error
    elif isinstance(error, sqlite3.Error):
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


class transaction:  # noqa: N801 - used like a function
    """Holds one state of the database, and with ``write`` changes it whole or not at all."""

    __slots__ = ("_begin", "_connection")

    def __init__(self, connection: sqlite3.Connection, *, write: bool) -> None:
        self._connection = connection
        self._begin = "BEGIN IMMEDIATE" if write else "BEGIN"

    def __enter__(self) -> None:
        self._connection.execute(self._begin)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            # The work or the commit failed; after some errors, such as a full disk, SQLite has rolled back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked at every call
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Database:
    """An open database file: one connection that writes, others that read.

    Writes that wait for each other share a transaction, hence a commit and a flush to disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store: str | None = None
        """The id that the store must have in every transaction; None while it is not known."""
        self._locks = {"read": threading.Lock(), "index": threading.Lock(), "write": threading.Lock()}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._versions: dict[str, int] = {}
        self._hasty: set[str] = set()
        self._files: list[tuple[int, int] | None] = []
        """Which files the database and its log are, once they were read: what lies under their names may change."""
        self._combined: Combiner[Sequence[Work[Any]], Sequence[Any]] = Combiner(self._commit)
        self._scrubbed: Combiner[None, bool] = Combiner(self._checkpoint)
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
        (outcome,) = self.write_all([work])
        if isinstance(outcome, Failure):
            raise outcome.error
        result: T = outcome
        return result

    def write_all(self, works: Sequence[Work[Any]]) -> Sequence[Any]:
        """Run each work as :meth:`write` does, and return what each returned, or its :class:`Failure`."""
        return self._combined(works)

    def _commit(self, calls: Sequence[Sequence[Work[Any]]]) -> list[Sequence[Any]]:
        outcomes = iter(self._commit_each([work for works in calls for work in works]))
        return [[next(outcomes) for _ in works] for works in calls]

    def _commit_each(self, batch: Sequence[Work[Any]]) -> list[Any]:
        try:
            return self._together(batch)
        except VectorStoreError as error:
            if len(batch) == 1 or concerns_all(error):
                return [Failure(error)] * len(batch)
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
            self._follow(connection, "write")
            return [work(connection) for work in batch]

    def alone(self, work: Work[T]) -> T:
        """Run ``work`` on the connection that writes, in no transaction: a statement of it is one by itself."""
        with self._using("write") as connection:
            return work(connection)

    def read(self, work: Work[T], role: str = "read") -> T:
        """Run ``work`` on one state of the database."""
        with self._using(role) as connection, transaction(connection, write=False):
            self._follow(connection, role)
            return work(connection)

    def read_at_once(self, work: Work[T | None], role: str) -> T | None:
        """Run ``work`` if nothing has to be waited for; None otherwise, or what it returns.

        For the event loop: ``work`` must be short. It is in no transaction: a statement sees one state of the
        database, of which it has to ask all that it relies on.
        """
        lock = self._locks[role]
        if not lock.acquire(blocking=False):
            return None
        try:
            connection = self._connections.get(role)
            if connection is None:
                return None
            with translated(self.path):
                self._check_files()
                self._bear(connection, role, patient=False)
                try:
                    return work(connection)
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF in _TAKEN:
                        return None
                    raise
        finally:
            lock.release()

    def _bear(self, connection: sqlite3.Connection, role: str, *, patient: bool) -> None:
        """Have the connection of a role wait for other processes, or not; under its lock."""
        if patient == (role in self._hasty):
            connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT * 1000 if patient else 0:.0f}")
            (self._hasty.discard if patient else self._hasty.add)(role)

    def is_newer(self, role: str, version: int) -> bool:
        """Whether others have written since the transaction of this role that had this :meth:`version`.

        Takes a fraction of the time of another transaction.
        """
        with self._using(role) as connection:
            (found,) = connection.execute("PRAGMA data_version").fetchone()
        return bool(found != version)

    def version(self, role: str) -> int:
        """Return a number that is another one in a transaction of this role when others have written meanwhile."""
        return self._versions.get(role, -1)

    def _follow(self, connection: sqlite3.Connection, role: str) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == self._versions.get(role):
            return
        if self.store is not None:
            found = connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()
            if found != (self.store,):
                raise EmbedderMismatchError(
                    f"the store {self.path.parent} was re-embedded by another process since it was opened here;"
                    " open it again, with the embedder that it has now"
                )
        self._versions[role] = version

    def scrub(self) -> bool:
        """Take what was deleted out of the write-ahead log too; False if a reader needs it still."""
        return self._scrubbed(None)

    def _checkpoint(self, calls: Sequence[None]) -> list[bool]:
        with self._using("write") as connection:
            self._bear(connection, "write", patient=False)
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return [not busy for _ in calls]

    @contextmanager
    def _using(self, role: str) -> Iterator[sqlite3.Connection]:
        with self._locks[role]:
            connection = self._connections.get(role)
            if connection is None:
                raise StoreClosedError(f"the store at {self.path.parent} was closed; open it again to use it")
            with translated(self.path):
                self._check_files()
                self._bear(connection, role, patient=True)
                yield connection
                if not self._files:  # SQLite has made its log by now
                    self._files = self._files_now()
                elif role == "write":
                    self._check_files()

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
