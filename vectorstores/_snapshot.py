"""The index of a large namespace on disk, so that opening a store does not read all its rows.

A file holds a FAISS index as FAISS writes it, the row numbers, and a trailer with the change up to which it
holds and a checksum. It is written beside and renamed; one that is damaged, or of another store, counts as
missing.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores._flat import FaissBlock, load_faiss
from vectorstores._folder import sync_folder
from vectorstores.base import StoreUnavailableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._table import VectorTable

# Magic, store, namespace, newest change, number of rows, dimension, length of the index, CRC-32 of the rest.
_TRAILER: Final = struct.Struct("<8s32s32sqqqqI")
_MAGIC: Final = b"JVSNAP01"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot holds, and the newest change that is in it."""

    seq: int
    rows: NDArray[np.int64]
    block: FaissBlock


def path_of(folder: Path, namespace: str) -> Path:
    """Return where the snapshot of a namespace lies; its name does not show the namespace."""
    return folder / f"{_digest(namespace).hex()[:32]}.faiss"


def _digest(namespace: str) -> bytes:
    return hashlib.sha256(namespace.encode()).digest()


def write(folder: Path, store: str, namespace: str, seq: int, table: VectorTable) -> None:
    """Write a snapshot of a packed table in place of the old one, which an OSError leaves whole."""
    folder.mkdir(mode=0o700, exist_ok=True)
    target = path_of(folder, namespace)
    draft = target.with_suffix(f".{os.getpid()}.new")
    try:
        draft.touch(mode=0o600, exist_ok=False)
        _write_index(table, draft)
        with draft.open("ab") as file:
            length = file.tell()
            file.write(table.rows.astype("<i8").tobytes())
            file.flush()
            head = _TRAILER.pack(
                _MAGIC, store.encode(), _digest(namespace), seq, len(table.rows), table.dim, length, 0
            )[:-4]
            file.write(head)
            file.flush()
            file.write(struct.pack("<I", _checksum(draft)))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        sync_folder(folder)
    finally:
        draft.unlink(missing_ok=True)


def _write_index(table: VectorTable, path: Path) -> None:
    faiss = load_faiss()
    index = table.block.index if isinstance(table.block, FaissBlock) else faiss.IndexFlatIP(table.dim)
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(f"writing {path} failed: {error}") from error


def forget(folder: Path, namespace: str) -> None:
    """Remove the snapshot of a namespace, if there is one."""
    path = path_of(folder, namespace)
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # no folder, no snapshot
    except OSError as error:
        raise StoreUnavailableError(
            f"the change was stored, but {path} still holds the old vectors and can't be removed: {error}"
        ) from error


def _checksum(path: Path) -> int:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return zlib.crc32(data)


def read(folder: Path, store: str, namespace: str, dim: int) -> Snapshot | None:
    """Return the snapshot of a namespace, or None if there is none that can be relied on."""
    try:
        with path_of(folder, namespace).open("rb") as file:
            if os.fstat(file.fileno()).st_size <= _TRAILER.size:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(data, store, namespace, dim)
    except OSError:
        # Missing, or unreadable: the rows say the same, and the next snapshot takes its place.
        return None


def _parse(data: mmap.mmap, store: str, namespace: str, dim: int) -> Snapshot | None:
    start = len(data) - _TRAILER.size
    magic, owner, space, seq, count, width, length, checksum = _TRAILER.unpack_from(data, start)
    if (magic, owner, space, width) != (_MAGIC, store.encode(), _digest(namespace), dim):
        return None
    with memoryview(data) as view:
        if length + 8 * count != start or zlib.crc32(view[:-4]) != checksum:
            return None
    data.seek(0)
    index = _read_index(data)
    rows = np.frombuffer(data[length:start], dtype="<i8").astype(np.int64)
    return Snapshot(seq, rows, FaissBlock(dim, index)) if index.ntotal == count else None


def _read_index(data: mmap.mmap) -> Any:  # noqa: ANN401 - FAISS has no types
    faiss = load_faiss()

    return faiss.read_index(faiss.PyCallbackIOReader(data.read))
