"""What is derived from the rows of a large namespace, in a file that is mapped: vectors, codes and columns.

A file is written beside and renamed, and never changed in place, so whoever maps it keeps what it was. It is removed
when a row of it is deleted or replaced, and written again later. One that is damaged, or of another store or history,
counts as missing: the rows say the same.

It begins with a header (magic, place, length and CRC-32 of the contents), then come the parts, each with a CRC-32 for
every stretch of it, and at the end the contents: what the file is of and where its parts lie, as JSON.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores.base import FloatArray

_HEADER: Final = struct.Struct("<8sqqI")
_MAGIC: Final = b"JVSMAT01"
_ENDING: Final = ".matrix"
_ALIGNED: Final = 4096
_STRETCH: Final = 2**24
# Below this size, starting threads takes longer than the checksums.
_THREADS_FROM: Final = 4 * _STRETCH
# Names of the files that this process is writing: one that was killed may have had the same number, as in a container.
_under_way: Final[set[str]] = set()


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

    def __init__(self, file: BinaryIO, contents: Mapping[str, Any]) -> None:
        self._file = file
        weakref.finalize(self, file.close)
        self._is = _state_of(file)
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._parts: dict[str, list[Any]] = contents["parts"]
        self.moment = Moment(*contents["moment"])
        self.trained: int = contents["trained"]
        """How many vectors its codes were begun with."""
        self.rows: NDArray[np.int64] = np.frombuffer(self.part("rows"), dtype="<i8")
        self.vectors: FloatArray = np.frombuffer(self.part("vectors"), dtype="<f4").reshape(
            len(self.rows), contents["dim"]
        )

    @property
    def is_untouched(self) -> bool:
        """Whether nobody cut the file short or wrote to it since: one that is cut would end the process.

        Nothing here writes to a file that is in its place, so the time of its last change tells.
        """
        return _state_of(self._file) == self._is

    def part(self, name: str) -> memoryview:
        """Return the bytes of a part; none if it is not there."""
        start, length, *_ = self._parts.get(name, (0, 0))
        return memoryview(self._map)[start : start + length]

    def is_whole(self) -> bool:
        """Whether its parts have their checksums."""
        stretches = [
            (start + _STRETCH * number, min(start + _STRETCH * (number + 1), start + length), known)
            for start, length, sums in self._parts.values()
            for number, known in enumerate(sums)
        ]
        data = memoryview(self._map)

        def fits(stretch: tuple[int, int, int]) -> bool:
            start, end, known = stretch
            return zlib.crc32(data[start:end]) == known

        if len(data) < _THREADS_FROM:
            return all(map(fits, stretches))
        with ThreadPoolExecutor(2) as threads:
            return all(threads.map(fits, stretches))


def _state_of(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def opened(place: Place, *, check: bool = True) -> Snapshot | None:
    """Return the file at a place, or None if there is none that can be relied on; without ``check``, what it says of
    itself is relied on.
    """
    try:
        file = place.path.open("rb")
    except OSError:
        return None
    try:
        contents = _contents(file, place)
        snapshot = None if contents is None else Snapshot(file, contents)
    except (OSError, ValueError, KeyError, TypeError):  # unreadable, or written by something else
        snapshot = None
    if snapshot is None or (check and not snapshot.is_whole()):
        file.close()
        return None
    return snapshot


def moment_of(path: Path) -> Moment | None:
    """Return what a file says it knows of; None if it can't be read. Raises FileNotFoundError."""
    try:
        with path.open("rb") as file:
            contents = _contents(file, None)
        return None if contents is None else Moment(*contents["moment"])
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _contents(file: BinaryIO, place: Place | None) -> dict[str, Any] | None:
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return None
    magic, start, length, known = _HEADER.unpack(head)
    size = os.fstat(file.fileno()).st_size
    if magic != _MAGIC or not 0 < start < size or start + length != size:
        return None
    file.seek(start)
    data = file.read(length)
    if zlib.crc32(data) != known:
        return None
    contents: dict[str, Any] = json.loads(data)
    mine = place is None or (contents["of"] == [place.store, place.digest] and contents["dim"] == place.dim)
    return contents if mine else None


class Draft:
    """A file that is being written; it goes when it is not put in its place.

    Use it as a context manager: :meth:`add` the parts, then :meth:`put_in_place`.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        place.folder.mkdir(mode=0o700, exist_ok=True)
        # The name tells whose it is.
        self._path = place.path.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}.new")
        _under_way.add(self._path.name)
        self._file = self._path.open("x+b")
        self._parts: dict[str, list[Any]] = {}

    def __enter__(self) -> Self:
        self._path.chmod(0o600)
        self._file.write(bytes(_ALIGNED))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        _under_way.discard(self._path.name)
        self._path.unlink(missing_ok=True)

    def add(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a part, which begins at a page of its own."""
        self._file.write(bytes(-self._file.tell() % _ALIGNED))
        start, sums, running, room = self._file.tell(), [], 0, _STRETCH
        for piece in pieces:
            data = memoryview(piece).cast("B")
            self._file.write(data)
            while len(data) >= room:
                sums.append(zlib.crc32(data[:room], running))
                data, running, room = data[room:], 0, _STRETCH
            running, room = zlib.crc32(data, running), room - len(data)
        if room < _STRETCH:
            sums.append(running)
        self._parts[name] = [start, self._file.tell() - start, sums]

    def vectors(self) -> FloatArray:
        """Return the vectors that were added, mapped."""
        self._file.flush()
        start, length, _ = self._parts["vectors"]
        found: FloatArray = np.memmap(
            self._file,
            dtype="<f4",
            mode="r",
            offset=start,
            shape=(length // 4 // self._place.dim, self._place.dim),
        )
        return found.view(np.ndarray)

    def put_in_place(self, moment: Moment, trained: int) -> Snapshot:
        """Let the file take the place of an older one, and return it; an OSError leaves that whole."""
        place = self._place
        contents = {
            "of": [place.store, place.digest],
            "dim": place.dim,
            "moment": moment,
            "parts": self._parts,
            "trained": trained,
        }
        data = json.dumps(contents).encode()
        start = self._file.tell()
        self._file.write(data)
        self._file.seek(0)
        self._file.write(_HEADER.pack(_MAGIC, start, len(data), zlib.crc32(data)))
        self._file.flush()
        file = self._path.open("rb")
        try:
            self._path.replace(place.path)
            return Snapshot(file, json.loads(data))
        except BaseException:
            file.close()
            raise


def clean(folder: Path) -> None:
    """Remove what processes that were killed had begun to write, and the files of earlier formats: they may hold what
    was deleted since.
    """
    for file in folder.iterdir() if folder.is_dir() else ():
        _, _, owner = file.name.removesuffix(".new").partition(".")
        process = owner.partition(".")[0]
        written = file.name in _under_way or (process.isdigit() and _is_another(int(process)))
        draft = file.suffix == ".new" and not written
        if draft or file.suffix in (".vectors", ".codes"):
            with suppress(OSError):
                file.unlink(missing_ok=True)


def _is_another(process: int) -> bool:
    """Whether another process of this number is running."""
    if process == os.getpid():
        return False
    if os.name == "nt":
        return True  # there, asking would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
