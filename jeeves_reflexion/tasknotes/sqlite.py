"""Task notes in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from anyio.to_thread import run_sync

from jeeves_reflexion.files import read_regular
from jeeves_reflexion.tasknotes.evolution import NoteHistory, document_of, history_of
from jeeves_reflexion.tasknotes.store import COLLECTION, Change, VersionedReflectionStore
from vectorstores.base import FormatVersionError, StoreCorruptError, StoreUnavailableError

T = TypeVar("T")

LOCK_SECONDS: Final = 30.0
MOST_BYTES: Final = 10_000_000
"""A larger JSON file is not read."""

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
# An update keeps the row's place, because notes are listed in the order of their first write.
_NEW: Final = """
INSERT INTO records (namespace, collection, key, value, version) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, collection, key) DO NOTHING"""
_WRITE: Final = _NEW.replace("NOTHING", "UPDATE SET value = excluded.value, version = version + 1")
_TAKEN_OVER: Final = ("taken_over", "json")
_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteReflectionStore(VersionedReflectionStore):
    """Task notes in the file ``path``, durable when a call returns, for any number of processes at once.

    The first write creates the file, for this user alone; with ``create=False`` a missing file is an error. Namespaces
    of one file never see each other's notes. Like SQLite's log, this is not for network file systems.

    Each call is one transaction with its own connection, so that threads and forks share none, in a worker thread that
    finishes even if the caller is cancelled. Version 0.1 kept notes as JSON files in the same folder, without
    namespaces; they are copied into each namespace when it is first used.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, namespace: str = "default", create: bool = True
    ) -> None:
        if not isinstance(namespace, str) or not namespace.strip():
            raise ValueError(f"namespace must be a text that is not blank, not {namespace!r}")
        self.path = Path(path)
        self._namespace = namespace
        self._create = create

    async def close(self) -> None:
        """Do nothing: no call leaves a connection open."""

    async def _read(self, identity: str) -> NoteHistory | None:
        def read(connection: sqlite3.Connection) -> NoteHistory | None:
            text = self._found(connection, COLLECTION, identity)
            return None if text is None else history_of(identity, json.loads(text))

        return await run_sync(partial(self._transact, read, reads=True))

    async def _remove(self, identity: str) -> bool:
        def remove(connection: sqlite3.Connection) -> bool:
            for path in self._json_files():
                if _json_row(path)[1] == identity:
                    path.unlink()
            scope = (self._namespace, COLLECTION, identity)
            return connection.execute(f"DELETE FROM records WHERE {_ONE}", scope).rowcount > 0  # noqa: S608

        return await run_sync(partial(self._transact, remove, reads=True))

    async def _all(self) -> tuple[NoteHistory, ...]:
        def read(connection: sqlite3.Connection) -> tuple[NoteHistory, ...]:
            rows = connection.execute(
                "SELECT key, value FROM records WHERE namespace = ? AND collection = ? ORDER BY place",
                (self._namespace, COLLECTION),
            ).fetchall()  # an error below would keep an unfinished query, and with it the file's lock
            return tuple(history_of(key, json.loads(text)) for key, text in rows)

        return await run_sync(partial(self._transact, read, reads=True))

    async def _change(self, identity: str, change: Change) -> NoteHistory:
        def write(connection: sqlite3.Connection) -> NoteHistory:
            text = self._found(connection, COLLECTION, identity)
            old = NoteHistory(identity) if text is None else history_of(identity, json.loads(text))
            new = change(old)
            if new != old:
                text = json.dumps(document_of(new), allow_nan=False)
                connection.execute(_WRITE, (self._namespace, COLLECTION, identity, text, 1))
            return new

        nothing = NoteHistory(identity)
        if await self._read(identity) is None and change(nothing) == nothing:
            return nothing  # without making a file
        return await run_sync(self._transact, write)

    def _found(self, connection: sqlite3.Connection, collection: str, key: str) -> str | None:
        """Return the JSON of a record, or None."""
        scope = (self._namespace, collection, key)
        row = connection.execute(f"SELECT value FROM records WHERE {_ONE}", scope).fetchone()  # noqa: S608
        return None if row is None else str(row[0])

    def _transact(self, work: Callable[[sqlite3.Connection], T], *, reads: bool = False) -> T:
        """Do ``work`` in one transaction; ``reads`` makes no file if nothing was ever written. Blocks."""
        try:
            exists = self.path.exists()
            empty = not (exists and self.path.stat().st_size) and not self._json_files()
            if empty and not exists and not self._create:
                raise StoreUnavailableError(f"there is no file {self.path}")
            address = ":memory:" if empty and reads else f"{self.path.resolve().as_uri()}?mode=rw"
            if not exists and address != ":memory:":
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = sqlite3.connect(address, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
            with contextlib.closing(connection):
                for pragma in ("synchronous=EXTRA", "secure_delete=ON", "trusted_schema=OFF"):
                    connection.execute(f"PRAGMA {pragma}")
                with connection:  # commits, or rolls back
                    connection.execute("BEGIN IMMEDIATE")
                    self._check(connection)
                    return work(connection)
        except (sqlite3.Error, json.JSONDecodeError, OSError) as error:
            code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            if code in _CORRUPT or isinstance(error, json.JSONDecodeError):
                raise StoreCorruptError(
                    f"{self.path} is damaged or not a database: {error}; restore it from a backup"
                ) from error
            raise StoreUnavailableError(f"{self.path}: {error}; nothing of the call was stored") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        """Create the table in a new file, and refuse the files of other programs."""
        magic, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if magic != _MAGIC:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if magic or tables:
                raise StoreCorruptError(f"{self.path} is a database of another program: name another file")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id={_MAGIC}")
            connection.execute(f"PRAGMA user_version={_FORMAT}")
        elif version != _FORMAT:
            raise FormatVersionError(
                f"{self.path} has format {version}, and this version reads {_FORMAT}: update jeeves-reflexion"
            )
        if self._found(connection, *_TAKEN_OVER) is None and (files := self._json_files()):
            rows = [(*_TAKEN_OVER, "true", 1), *map(_json_row, files)]
            connection.executemany(_NEW, [(self._namespace, *row) for row in rows])

    def _json_files(self) -> list[Path]:
        return sorted(self.path.parent.glob("task_notes-*.json"))


def _json_row(path: Path) -> tuple[str, str, str, int]:
    try:
        kept = json.loads(read_regular(path, MOST_BYTES))
        return str(kept["collection"]), str(kept["key"]), json.dumps(kept["value"]), int(kept["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreCorruptError(
            f"{path} holds no task notes: {error}; restore it from a backup, or move it away"
        ) from error
