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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

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


class Snapshot:
    """A file that is open and mapped. ``vectors`` may be written to: changes stay in memory."""

    def __init__(self, file: BinaryIO, said: Mapping[str, Any]) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._parts: dict[str, list[int]] = said["parts"]
        # The newest change that it knows of, by its number and its random token: a database that was put back from a
        # backup may come to the same number; not to the same token.
        self.moment: tuple[int, int] = tuple(said["moment"])
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


@contextmanager
def draft(
    place: Place, moment: tuple[int, int], parts: Iterable[tuple[str, Iterable[bytes | memoryview]]]
) -> Iterator[tuple[Path, Snapshot]]:
    """Write a file beside its place; give its path and what is in it. It is gone afterwards, unless it was renamed.

    ``moment`` is the newest change that it knows of, with its token.
    """
    place.folder.mkdir(mode=0o700, exist_ok=True)
    path = place.path.with_suffix(f".{secrets.token_hex(4)}.new")
    written: dict[str, list[int]] = {}
    try:
        with path.open("xb") as file:
            path.chmod(0o600)
            file.write(bytes(_PAGE))
            for name, pieces in parts:
                file.write(bytes(-file.tell() % _PAGE))
                start, known = file.tell(), 0
                for piece in pieces:
                    file.write(piece)
                    known = zlib.crc32(piece, known)
                written[name] = [start, file.tell() - start, known]
            said = {"of": [place.store, place.digest], "dim": place.dim, "moment": moment, "parts": written}
            data = json.dumps(said).encode()
            file.seek(0)
            file.write(_HEADER.pack(_MAGIC, len(data), zlib.crc32(data)) + data)
        yield path, Snapshot(path.open("rb"), said)
    finally:
        path.unlink(missing_ok=True)


def clean(folder: Path) -> None:
    """Remove what processes that were killed had begun to write, and the files of earlier formats: they may hold what
    was deleted since. A file that another process is just writing goes too; it is written again.
    """
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.suffix != _ENDING:
            with suppress(OSError):
                file.unlink(missing_ok=True)
