"""The searchable side of a store on disk: derived from its rows, and kept in step by their log of changes."""

from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores import _snapshot
from vectorstores._columns import Column, evaluate, pick
from vectorstores._flat import FaissBlock
from vectorstores._rows import (
    DELETED,
    PATCHED,
    PUT,
    chunks_by_row,
    decode,
    last_change,
    metadata_after,
    oldest_change,
)
from vectorstores._table import NumpyBlock, VectorTable
from vectorstores.base import SearchHit, StoreCorruptError, VectorStoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vectorstores._engine import Query
    from vectorstores._sqlite import Database
    from vectorstores.base import FloatArray
    from vectorstores.filters import Node

_log: Final = logging.getLogger(__name__)

# A product in numpy is quicker than FAISS up to some 10,000 vectors on an idle machine, but from some 4,000 on it
# runs in several threads, which wait for each other on a busy one.
FAISS_FROM: Final = 5_000
_BATCH: Final = 4096
# A snapshot is worth writing again when so many rows changed, or this share of them.
_STALE_ROWS: Final = 2000
_STALE_SHARE: Final = 0.1


class NamespaceIndex:
    """Vectors and filtered metadata of one namespace, as of change ``seq``."""

    def __init__(self, namespace: str, table: VectorTable, seq: int) -> None:
        self.namespace = namespace
        self.table = table
        self.seq = seq
        self.stale = 0
        self._columns: dict[str, Column] = {}

    def follow(self, connection: sqlite3.Connection, seq: int) -> None:
        """Take in the changes up to ``seq``."""
        since = (self.seq, self.namespace)
        self._put(
            connection.execute(
                "SELECT row, vector FROM vectors WHERE row IN"
                " (SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind = ?) ORDER BY row",
                (*since, PUT),
            )
        )
        gone = connection.execute(
            "SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind = ?", (*since, DELETED)
        ).fetchall()
        if gone:
            self.stale += self.table.remove(np.array(gone, dtype=np.int64)[:, 0])
        if self._columns:
            self._follow_metadata(connection)
        self.seq = seq
        self._tidy()

    def _put(self, found: sqlite3.Cursor) -> None:
        while batch := found.fetchmany(_BATCH):
            rows = np.array([row for row, _ in batch], dtype=np.int64)
            self.table.put(rows, _vectors(batch, self.table.dim))
            self.stale += len(rows)

    def load(self, connection: sqlite3.Connection) -> None:
        """Read all rows."""
        self._put(
            connection.execute(
                "SELECT row, vector FROM chunks JOIN vectors USING (row) WHERE namespace = ? ORDER BY row",
                (self.namespace,),
            )
        )
        self._tidy()

    def _follow_metadata(self, connection: sqlite3.Connection) -> None:
        found = connection.execute(
            "SELECT row, metadata FROM chunks WHERE row IN"
            " (SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind != ?)",
            (self.seq, self.namespace, DELETED),
        )
        rows, objects = [], []
        for row, metadata in found:
            rows.append(row)
            objects.append(decode(metadata, row))
        places = np.searchsorted(self.table.rows, np.array(rows, dtype=np.int64))
        for key, column in self._columns.items():
            column.put(places, pick(objects, key), len(self.table.rows))

    def _tidy(self) -> None:
        """Move to the block that suits the size; give up the places of removed rows when they are many."""
        size, dead = len(self.table), self.table.dead
        large = size >= FAISS_FROM
        if dead > max(1000, size // 4) or (large and isinstance(self.table.block, NumpyBlock)):
            self.table = self.table.packed(FaissBlock(self.table.dim) if large else None)
            if dead:
                self._columns.clear()

    def mask(self, connection: sqlite3.Connection, where: Node) -> NDArray[np.bool_]:
        """Return which positions of the table a filter admits."""

        def column(key: str) -> Column:
            known = self._columns.get(key)
            if known is None:
                known = self._columns[key] = self._read_column(connection, key)
            return known

        return evaluate(where, column, len(self.table.rows))

    def _read_column(self, connection: sqlite3.Connection, key: str) -> Column:
        rows, objects = [], []
        for row, metadata in metadata_after(connection, self.namespace):
            rows.append(row)
            objects.append({key: metadata[key]} if key in metadata else {})
        column = Column()
        places = np.searchsorted(self.table.rows, np.array(rows, dtype=np.int64))
        column.put(places, pick(objects, key), len(self.table.rows))
        return column

    def worth_a_snapshot(self) -> bool:
        """Whether so much has changed since the last snapshot that a new one pays."""
        enough = max(_STALE_ROWS, int(_STALE_SHARE * len(self.table)))
        return isinstance(self.table.block, FaissBlock) and self.stale >= enough


def _vectors(batch: Iterable[tuple[int, bytes]], dim: int) -> FloatArray:
    for row, blob in batch:
        if len(blob) != 4 * dim:
            raise StoreCorruptError(
                f"the vector of row {row} has {len(blob)} bytes, not {4 * dim}; restore a backup"
            )
    joined = b"".join(blob for _, blob in batch)
    return np.frombuffer(joined, dtype="<f4").reshape(-1, dim).astype(np.float32, copy=False)


class Indexes:
    """The indexes of the namespaces that were searched, under the lock of the database's role ``index``."""

    def __init__(self, database: Database, store: str, dim: int, folder: Path) -> None:
        self._database = database
        self._store = store
        self._dim = dim
        self._folder = folder
        self._spaces: dict[str, NamespaceIndex] = {}
        self._writing = threading.Lock()
        self._writer: threading.Thread | None = None

    def search(self, namespace: str, query: Query) -> list[SearchHit]:
        """Find in the newest state of the rows, whichever process wrote it."""

        def work(connection: sqlite3.Connection) -> tuple[list[SearchHit], bool]:
            index = self._current(connection, namespace)
            mask = None if query.where is None else index.mask(connection, query.where)
            found = index.table.search(query, mask)
            chunks = chunks_by_row(connection, [row for row, _ in found])
            if len(chunks) < len(found):
                raise StoreCorruptError(
                    f"{self._database.path}: vectors without their texts; restore a backup"
                )
            return [SearchHit(chunks[row], score) for row, score in found], index.worth_a_snapshot()

        hits, stale = self._database.read(work, "index")
        if stale:
            self._snapshot_later(namespace)
        return hits

    def _current(self, connection: sqlite3.Connection, namespace: str) -> NamespaceIndex:
        newest = last_change(connection)
        index = self._spaces.get(namespace)
        if index is not None and index.seq == newest:
            return index
        reachable = range(oldest_change(connection) - 1, newest + 1)
        if index is None or index.seq not in reachable:
            index = self._load(connection, namespace, newest, reachable)
        try:
            index.follow(connection, newest)
        except BaseException:
            # Half of the changes may be in: read it anew next time.
            self._spaces.pop(namespace, None)
            raise
        self._spaces[namespace] = index
        return index

    def _load(
        self, connection: sqlite3.Connection, namespace: str, newest: int, reachable: range
    ) -> NamespaceIndex:
        (count,) = connection.execute(
            "SELECT count(*) FROM chunks WHERE namespace = ?", (namespace,)
        ).fetchone()
        if count >= FAISS_FROM:
            snapshot = _snapshot.read(self._folder, self._store, namespace, self._dim)
            if snapshot is not None and snapshot.seq in reachable:
                table = VectorTable(self._dim, snapshot.block, snapshot.rows)
                index = NamespaceIndex(namespace, table, snapshot.seq)
                index.follow(connection, newest)
                # Another count means another history, such as a database restored without its snapshots.
                if len(index.table) == count:
                    return index
        block = FaissBlock(self._dim) if count >= FAISS_FROM else None
        index = NamespaceIndex(namespace, VectorTable(self._dim, block), newest)
        index.load(connection)
        return index

    def forget(self, namespace: str) -> None:
        """Remove the snapshot that holds vectors which have been deleted or replaced."""
        _snapshot.forget(self._folder, namespace)

    def _snapshot_later(self, namespace: str) -> None:
        with self._writing:
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(
                    target=self._write_snapshot, args=(namespace,), name="vectorstores-snapshot"
                )
                self._writer.start()

    def _write_snapshot(self, namespace: str) -> None:
        try:
            copied = self._database.read(lambda _: self._copy(namespace), "index")
            if copied is not None:
                seq, table = copied
                _snapshot.write(self._folder, self._store, namespace, seq, table)
                self._database.read(lambda connection: self._forget_if_outdated(connection, namespace, seq))
        except (OSError, VectorStoreError) as error:
            # Nobody waits for this thread. Nothing is lost: the next process reads the rows instead.
            _log.warning("no snapshot of %r was written, opening it will take longer: %s", namespace, error)

    def _copy(self, namespace: str) -> tuple[int, VectorTable] | None:
        index = self._spaces.get(namespace)
        if index is None:
            return None
        index.stale = 0
        return index.seq, index.table.packed(FaissBlock(self._dim))

    def _forget_if_outdated(self, connection: sqlite3.Connection, namespace: str, seq: int) -> None:
        # Who deletes removes the snapshot after the commit; one that was written meanwhile is removed here.
        gone = connection.execute(
            "SELECT 1 FROM changes WHERE seq > ? AND row <= ? AND namespace = ? AND kind != ? LIMIT 1",
            (seq, seq, namespace, PATCHED),
        ).fetchone()
        if gone is not None:
            self.forget(namespace)

    def close(self) -> None:
        """Write the snapshots that are missing, and let go of the memory."""
        with self._writing:
            if self._writer is not None:
                self._writer.join()
        for namespace, index in self._spaces.items():
            large = isinstance(index.table.block, FaissBlock)
            if large and not _snapshot.path_of(self._folder, namespace).exists():
                self._write_snapshot(namespace)
        self._spaces.clear()
