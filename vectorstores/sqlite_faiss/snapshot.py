"""The index file of a large namespace: vectors, codes and columns derived from its rows, for mapping into memory.

A file is written under another name, renamed, and never changed in place, so whoever maps it keeps a stable view. The
transaction that deletes or replaces one of its rows removes it; it is written again later. A file that is damaged, or
belongs to another store or history, counts as missing: the rows contain the same.

A header of 4,096 bytes (magic, length and CRC-32; the file's store, namespace and parts as JSON) is followed by the
parts, each starting on a new page and with a CRC-32.
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
    """The path of the file of a namespace, and what its header must contain."""

    folder: Path
    store: str
    namespace: str
    dim: int

    @property
    def path(self) -> Path:
        """The path; the file's name does not reveal the namespace."""
        return self.folder / f"{self.digest[:32]}{_ENDING}"

    @property
    def digest(self) -> str:
        """Digest of the namespace."""
        return hashlib.sha256(self.namespace.encode()).hexdigest()


class Snapshot:
    """An open, mapped file. ``vectors`` may be written to; changes stay in memory."""

    def __init__(self, file: BinaryIO, header: Mapping[str, Any]) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._parts: dict[str, list[int]] = header["parts"]
        # The newest change that it includes, by number and random token: a database restored from a backup may reach
        # the same number again, but not the same token.
        self.moment: tuple[int, int] = tuple(header["moment"])
        self.rows: NDArray[np.int64] = np.frombuffer(self.part("rows"), dtype="<i8")
        self.vectors: FloatArray = np.frombuffer(self.part("vectors"), dtype="<f4").reshape(
            len(self.rows), header["dim"]
        )

    @property
    def is_in_place(self) -> bool:
        """Whether it was neither removed nor replaced."""
        return os.fstat(self._file.fileno()).st_nlink > 0

    def part(self, name: str) -> memoryview:
        """Return the bytes of a part, or none if it does not exist."""
        start, length, _ = self._parts.get(name, (0, 0, 0))
        return memoryview(self._map)[start : start + length]


def opened(place: Place) -> Snapshot | None:
    """Return the file at a place, or None if it is missing or unusable."""
    try:
        file = place.path.open("rb")
    except OSError:
        return None
    try:
        magic, length, known = _HEADER.unpack(file.read(_HEADER.size))
        data = file.read(length)
        if magic == _MAGIC and zlib.crc32(data) == known:
            header = json.loads(data)
            if header["of"] == [place.store, place.digest] and header["dim"] == place.dim:
                snapshot = Snapshot(file, header)
                sums = {name: known for name, (_, _, known) in header["parts"].items()}
                if all(zlib.crc32(snapshot.part(name)) == known for name, known in sums.items()):
                    return snapshot
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        pass  # unreadable, or written by something else: counts as missing
    file.close()
    return None


@contextmanager
def draft(
    place: Place, moment: tuple[int, int], parts: Iterable[tuple[str, Iterable[bytes | memoryview]]]
) -> Iterator[tuple[Path, Snapshot]]:
    """Write a file beside its place; yield its path and its contents. It is removed afterwards unless it was renamed.

    ``moment`` is the newest change that it includes, with its token.
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
            header = {"of": [place.store, place.digest], "dim": place.dim, "moment": moment, "parts": written}
            data = json.dumps(header).encode()
            file.seek(0)
            file.write(_HEADER.pack(_MAGIC, len(data), zlib.crc32(data)) + data)
        yield path, Snapshot(path.open("rb"), header)
    finally:
        path.unlink(missing_ok=True)


def clean(folder: Path) -> None:
    """Remove the drafts of killed processes and the files of earlier formats, which may contain what was deleted since.

    This also removes a draft that another process is writing, which then tries again later.
    """
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.suffix != _ENDING:
            with suppress(OSError):
                file.unlink(missing_ok=True)
