"""Vectors and filtered metadata of one namespace in memory, kept in step with the database by its log of changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores._codes import faiss_product
from vectorstores._columns import Column, evaluate, pick
from vectorstores._reading import SOME, check_metadata, damaged, decode, metadata_after, pause
from vectorstores._rows import DELETED, PLAIN_KEY, PUT, json_of, overtaken
from vectorstores._sums import vector_sums
from vectorstores._table import VectorTable
from vectorstores.base import StoreCorruptError
from vectorstores.filters import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._mapped import Layout, Mapped
    from vectorstores._sidecar import Sidecar
    from vectorstores.base import JSON, FloatArray
    from vectorstores.filters import Missing, Node

# Rows whose vectors are taken in at a time: 1.5 MB of them.
_BATCH: Final = 1024
_VECTORS: Final = "SELECT row, vector, sum FROM vectors WHERE row"
# From this share of the rows in its range on, a namespace is read with those of others in between.
_DENSE: Final = 0.5
CODES: Final = "$codes"
# Numbers in a product that takes less time than the way to a thread, and characters that are decoded as quickly.
_SMALL: Final = 384 * 1024
_SMALL_CODED: Final = 12_000 * 384
_LOOSE: Final = 256
_SHORT: Final = 8 * 1024
# Columns that are kept of keys that were not declared: those asked for last.
_UNDECLARED: Final = 32
# What an empty one takes, and what one whose vectors are mapped is counted with: of 1,024 open files, half a gigabyte
# of memory leaves more than 800 for others.
_OBJECTS: Final = 6 * 1024
_OPEN_FILE: Final = 4 * 2**20
_LENGTH: Final = "max(length(content) + ifnull(length(embed_text), 0) + length(metadata))"


class Space:
    """One namespace, as of change ``seq``."""

    def __init__(self, namespace: str, dim: int, seq: int, indexed: Sequence[str] = ()) -> None:
        self.namespace = namespace
        self.indexed = frozenset(key for key in indexed if PLAIN_KEY.fullmatch(key))
        self.table = VectorTable(dim, product=faiss_product)
        self.seq = seq
        self.layout: Layout | None = None
        """The file that the first vectors are mapped from, or were written to."""
        self.stale = 0
        """Rows that changed since that file was written."""
        self.moved: list[NDArray[np.int64]] | None = None
        """Positions that were replaced while codes are being made of them."""
        self.tainted = False
        """Whether the codes hold something of vectors that were deleted or replaced."""
        self.kept: frozenset[str] = frozenset()
        """What the small file beside it holds: :data:`CODES`, and keys of columns."""
        self.settled = -1
        """The change as of which nothing had to be done in the background."""
        self.uncodable = False
        """Whether making codes has failed."""
        self.columns: dict[str, Column] = {}
        self.longest = 0
        """No text or metadata is longer, in characters; known while the namespace is small."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes. Pages of a mapped file don't count: the system takes them back."""
        columns = sum(column.nbytes for column in self.columns.values())
        # It takes one of the files that a process may have open, which are few.
        mapped = _OPEN_FILE if self.table.vectors.is_mapped else 0
        return _OBJECTS + self.table.nbytes + columns + mapped

    def is_quick(self, *, filtered: bool) -> bool:
        """Whether a search of it may be made on an event loop."""
        size, codes = len(self.table.rows), self.table.codes
        if self.longest > _SHORT:
            return False
        if size * self.table.dim <= _SMALL:
            return True
        loose = size if codes is None else size - codes.count + len(self.table.outdated)
        return size * self.table.dim <= _SMALL_CODED and loose <= _LOOSE and not filtered

    def take(self, mapped: Mapped, connection: sqlite3.Connection) -> None:
        """Begin with the vectors of a file, as of its change."""
        table = VectorTable(self.table.dim, mapped.vectors, faiss_product)
        table.name_first(mapped.rows, mapped.alive)
        self.table, self.layout, self.seq = table, mapped.layout, mapped.layout.moment.seq
        if len(table.rows) * table.dim <= _SMALL_CODED:
            self._measure(connection, "namespace = ?", (self.namespace,))
        if mapped.damaged:
            # Worth a new file, so that not every opening has to.
            self.stale = len(mapped.rows)
        for part in mapped.damaged:
            self._reread(connection, mapped.rows[part], part.start)

    def take_sidecar(self, sidecar: Sidecar, connection: sqlite3.Connection) -> None:
        """Begin with these codes and columns; before the changes are followed, which repeats some of them."""
        self.table.codes = sidecar.codes
        self.columns = {key: each for key, each in sidecar.columns.items() if key in self.indexed}
        self.kept = frozenset({CODES} if sidecar.codes is not None else ()) | self.columns.keys()
        self.tainted = bool(overtaken(connection, self.namespace, sidecar.moment.seq))

    def holds(self) -> frozenset[str]:
        """Return what a small file could be written of."""
        return frozenset({CODES} if self.table.codes is not None else ()) | (
            self.columns.keys() & self.indexed
        )

    def _reread(self, connection: sqlite3.Connection, rows: NDArray[np.int64], start: int) -> None:
        self.table.vectors.put(np.arange(start, start + len(rows)), 0.0)
        found = connection.execute(
            f"{_VECTORS} BETWEEN ? AND ? ORDER BY row",
            (int(rows[0]), int(rows[-1])),
        )
        while batch := found.fetchmany(_BATCH):
            numbers = np.array([row for row, *_ in batch], dtype=np.int64)
            ours = np.isin(numbers, rows)
            if ours.any():
                vectors = vectors_of(batch, self.table.dim)
                self.table.vectors.put(start + np.searchsorted(rows, numbers[ours]), vectors[ours])

    def follow(self, connection: sqlite3.Connection, seq: int, *, repeated: bool = False) -> None:
        """Take in the changes up to ``seq``; ``repeated`` if the codes are known to hold nothing that is gone."""
        since = (self.seq, self.namespace)
        touched = self._put(
            connection.execute(
                f"{_VECTORS} IN (SELECT row FROM changes"  # noqa: S608 - constants
                " WHERE seq > ? AND namespace = ? AND kind = ?) ORDER BY row",
                (*since, PUT),
            )
        )
        gone = connection.execute(
            "SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind = ?", (*since, DELETED)
        ).fetchall()
        if gone:
            touched.append(self.table.remove(np.array(gone, dtype=np.int64)[:, 0]))
        places = np.concatenate(touched) if touched else np.empty(0, dtype=np.int64)
        if self.columns:
            self._follow_metadata(connection, places)
        if len(self.table.rows) * self.table.dim <= _SMALL_CODED:
            self._measure(
                connection,
                "row IN (SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind != ?)",
                (*since, DELETED),
            )
        self.seq = seq
        self.stale += len(gone)
        codes = self.table.codes
        if len(places):
            self.tainted |= not repeated and codes is not None and bool((places < codes.count).any())
            moved = self.moved  # which another thread may set to None
            if moved is not None:
                moved.append(places)

    def _put(self, found: sqlite3.Cursor, only: NDArray[np.int64] | None = None) -> list[NDArray[np.int64]]:
        """Put in (row, vector, sum), of rows among ``only``, which ascend; return the positions of replaced ones."""
        replaced = []
        while batch := found.fetchmany(_BATCH):
            rows = np.array([row for row, *_ in batch], dtype=np.int64)
            vectors = vectors_of(batch, self.table.dim)
            if only is not None:
                ours = only[np.minimum(np.searchsorted(only, rows), len(only) - 1)] == rows
                if not ours.all():
                    rows, vectors = rows[ours], vectors[ours]
            places = self.table.put(rows, vectors)
            if len(places):
                replaced.append(places)
            self.stale += len(rows)
            if len(batch) == _BATCH:
                pause()
        return replaced

    def load(self, connection: sqlite3.Connection) -> None:
        """Read all rows."""
        found = connection.execute(
            "SELECT row FROM chunks WHERE namespace = ? ORDER BY row", (self.namespace,)
        ).fetchall()
        if not found:
            return
        ours = np.array(found, dtype=np.int64)[:, 0]
        self.table.vectors.reserve(len(ours))
        low, high = int(ours[0]), int(ours[-1])
        if len(ours) > _DENSE * (high - low + 1):
            # In the order of the table, and the few of other namespaces passed over.
            self._put(connection.execute(f"{_VECTORS} BETWEEN ? AND ? ORDER BY row", (low, high)), ours)
        else:
            which = "IN (SELECT row FROM chunks WHERE namespace = ?) ORDER BY row"
            self._put(connection.execute(f"{_VECTORS} {which}", (self.namespace,)))
        if len(ours) * self.table.dim <= _SMALL_CODED:
            self._measure(connection, "namespace = ?", (self.namespace,))

    def _measure(self, connection: sqlite3.Connection, which: str, parameters: tuple[str | int, ...]) -> None:
        (longest,) = connection.execute(
            f"SELECT {_LENGTH} FROM chunks WHERE {which}",  # noqa: S608 - constants
            parameters,
        ).fetchone()
        self.longest = max(self.longest, longest or 0)

    def _follow_metadata(self, connection: sqlite3.Connection, gone: NDArray[np.int64]) -> None:
        for column in self.columns.values():
            column.clear(gone)
        found = connection.execute(
            "SELECT row, metadata, sum FROM chunks WHERE row IN"
            " (SELECT row FROM changes WHERE seq > ? AND namespace = ? AND kind != ?)",
            (self.seq, self.namespace, DELETED),
        )
        while batch := found.fetchmany(SOME):
            check_metadata(batch)
            objects = [decode(metadata, row) for row, metadata, _ in batch]
            places = np.searchsorted(self.table.rows, np.array([row for row, *_ in batch], dtype=np.int64))
            for key, column in self.columns.items():
                column.put(places, pick(objects, key), len(self.table.rows))
            if len(batch) == SOME:
                pause()

    def mask(self, connection: sqlite3.Connection, where: Node) -> NDArray[np.bool_]:
        """Return which positions of the table a filter admits."""

        def column(key: str) -> Column:
            if key in self.indexed:
                if key not in self.columns:
                    self._read_columns(connection, sorted(self.indexed))
            elif key in self.columns:
                self.columns[key] = self.columns.pop(key)
            else:
                for old in [each for each in self.columns if each not in self.indexed][: 1 - _UNDECLARED]:
                    del self.columns[old]
                self._read_columns(connection, [key])
            return self.columns[key]

        return evaluate(where, column, len(self.table.rows))

    def _read_columns(self, connection: sqlite3.Connection, keys: Sequence[str]) -> None:
        """Read columns that are not there yet."""
        wanted = [key for key in keys if key not in self.columns]
        columns = {key: Column() for key in wanted}
        for column in columns.values():
            column.grow(len(self.table.rows))
        if all(PLAIN_KEY.fullmatch(key) for key in wanted):
            try:
                self._extract(connection, columns)
            except sqlite3.OperationalError:
                # Metadata that is no JSON: the other way says which row's.
                self._decode(connection, columns)
        else:
            self._decode(connection, columns)
        self.columns |= columns

    def _extract(self, connection: sqlite3.Connection, columns: dict[str, Column]) -> None:
        # SQLite is quicker at finding a key in a text than Python at reading all of it.
        values = ", ".join(map(json_of, columns))
        found = connection.execute(
            f"SELECT row, metadata, sum, {values} FROM chunks WHERE namespace = ? ORDER BY row",  # noqa: S608 - plain keys
            (self.namespace,),
        )
        known: dict[str | None, JSON | Missing] = {None: MISSING}
        while batch := found.fetchmany(SOME):
            rows, whole, sums, *texts = zip(*batch, strict=True)
            check_metadata(zip(rows, whole, sums, strict=True))
            places = np.searchsorted(self.table.rows, np.array(rows, dtype=np.int64))
            for column, part in zip(columns.values(), texts, strict=True):
                for text in set(part) - known.keys():
                    known[text] = json.loads(text)
                column.put_texts(places, part, known, len(self.table.rows))
            pause()

    def _decode(self, connection: sqlite3.Connection, columns: dict[str, Column]) -> None:
        found = metadata_after(connection, self.namespace)
        while batch := list(islice(found, SOME)):
            places = np.searchsorted(self.table.rows, np.array([row for row, _ in batch], dtype=np.int64))
            for key, column in columns.items():
                column.put(places, pick((metadata for _, metadata in batch), key), len(self.table.rows))


def vectors_of(batch: Sequence[tuple[int, bytes, int | None]], dim: int) -> FloatArray:
    """Return the vectors of (row, blob, sum) as one array, or raise :class:`StoreCorruptError` naming the row."""
    for row, blob, _ in batch:
        if len(blob) != 4 * dim:
            raise StoreCorruptError(
                f"the vector of row {row} has {len(blob)} bytes, not {4 * dim}; restore a backup"
            )
    joined = b"".join([blob for _, blob, _ in batch])
    vectors = np.frombuffer(joined, dtype="<f4").reshape(-1, dim).astype(np.float32, copy=False)
    found = vector_sums(vectors).tolist()
    for (row, _, known), each in zip(batch, found, strict=True):
        if known is not None and known != each:
            raise damaged(row)
    return vectors
