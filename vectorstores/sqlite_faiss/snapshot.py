"""What is derived from the rows of a large namespace, in a file that is mapped: vectors, codes and columns.

A file is written beside and renamed, and never changed in place, so whoever maps it keeps what it was. It is removed
by the transaction that deletes or replaces one of its rows, and written again later. One that is damaged, or of another
store or history, counts as missing: the rows say the same.

A header of 4,096 bytes (magic, length and CRC-32; what the file is of and where its parts lie, as JSON) is followed by
the parts, each at a page of its own and with a CRC-32.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import secrets
import struct
import weakref
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray

_HEADER: Final = struct.Struct("<8sII")
_MAGIC: Final = b"JVSNAP01"
_ENDING: Final = ".snapshot"
_PAGE: Final = 4096


class Place(NamedTuple):
    """Where the file of a namespace lies, and what it must say about itself."""

    folder: Path
    store: str
    namespace: str
    dim: int

    @property
    def path(self) -> Path:
        """The file, whose name doesn't show the namespace."""
        return self.folder / f"{self.digest[:32]}{_ENDING}"

    @property
    def digest(self) -> str:
        """Digest of the namespace."""
        return hashlib.sha256(self.namespace.encode()).hexdigest()


class Moment(NamedTuple):
    """The newest change that a file knows of, by its number and its random token.

    A database that was put back from a backup may come to the same number; not to the same token.
    """

    seq: int
    token: int


class Snapshot:
    """A file that is open and mapped. ``vectors`` may be written to: changes stay in memory."""

    def __init__(self, file: BinaryIO, said: Mapping[str, Any]) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._parts: dict[str, list[int]] = said["parts"]
        self.moment = Moment(*said["moment"])
        self.rows: NDArray[np.int64] = np.frombuffer(self.part("rows"), dtype="<i8")
        self.vectors: FloatArray = np.frombuffer(self.part("vectors"), dtype="<f4").reshape(
            len(self.rows), said["dim"]
        )

    @property
    def is_in_place(self) -> bool:
        """Whether it was neither removed nor replaced by another."""
        return os.fstat(self._file.fileno()).st_nlink > 0

    def part(self, name: str) -> memoryview:
        """Return the bytes of a part; none if it is not there."""
        start, length, _ = self._parts.get(name, (0, 0, 0))
        return memoryview(self._map)[start : start + length]

    def is_whole(self) -> bool:
        """Whether its parts have their checksums."""
        return all(zlib.crc32(self.part(name)) == known for name, (_, _, known) in self._parts.items())


def opened(place: Place) -> Snapshot | None:
    """Return the file at a place, or None if there is none that can be relied on."""
    try:
        file = place.path.open("rb")
    except OSError:
        return None
    try:
        magic, length, known = _HEADER.unpack(file.read(_HEADER.size))
        data = file.read(length)
        if magic == _MAGIC and zlib.crc32(data) == known:
            said = json.loads(data)
            if said["of"] == [place.store, place.digest] and said["dim"] == place.dim:
                snapshot = Snapshot(file, said)
                if snapshot.is_whole():
                    return snapshot
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        pass  # unreadable, or written by something else: as good as missing
    file.close()
    return None


class Draft:
    """A file that is being written; it goes when it is not put in its place.

    Use it as a context manager: :meth:`add` the parts, :meth:`finish`, then :meth:`put_in_place`.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        place.folder.mkdir(mode=0o700, exist_ok=True)
        self._path = place.path.with_suffix(f".{secrets.token_hex(4)}.new")
        self._file = self._path.open("x+b")
        self._parts: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        self._path.chmod(0o600)
        self._file.write(bytes(_PAGE))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def add(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a part."""
        self._file.write(bytes(-self._file.tell() % _PAGE))
        start, known = self._file.tell(), 0
        for piece in pieces:
            self._file.write(piece)
            known = zlib.crc32(piece, known)
        self._parts[name] = [start, self._file.tell() - start, known]

    def vectors(self) -> FloatArray:
        """Return the vectors that were added, mapped."""
        self._file.flush()
        start, length, _ = self._parts["vectors"]
        dim = self._place.dim
        found: FloatArray = np.memmap(self._file, "<f4", "r", start, (length // 4 // dim, dim))
        return found.view(np.ndarray)

    def finish(self, moment: Moment) -> Snapshot:
        """Say what the file is of, and return it mapped."""
        said = {
            "of": [self._place.store, self._place.digest],
            "dim": self._place.dim,
            "moment": moment,
            "parts": self._parts,
        }
        data = json.dumps(said).encode()
        self._file.seek(0)
        self._file.write(_HEADER.pack(_MAGIC, len(data), zlib.crc32(data)) + data)
        self._file.flush()
        return Snapshot(self._path.open("rb"), said)

    def put_in_place(self) -> None:
        """Let the file take the place of an older one; an OSError leaves that whole."""
        self._path.replace(self._place.path)


def clean(folder: Path) -> None:
    """Remove what processes that were killed had begun to write, and the files of earlier formats: they may hold what
    was deleted since. A file that another process is just writing goes too; it is written again.
    """
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.suffix != _ENDING:
            with suppress(OSError):
                file.unlink(missing_ok=True)
