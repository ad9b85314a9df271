"""The vectors of a large namespace in a file that is mapped, so that opening a store does not read all its rows.

The file holds a header, the vectors, their row numbers, which of them had been removed, and a checksum for each
block of vectors. It is written beside and renamed. It is derived from the database: one that is damaged, or of another
store, counts as missing; a damaged block is read from the database instead. Vectors that are deleted afterwards are
overwritten in it, under a lock between processes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import numpy as np

from vectorstores._folder import held, sync_folder
from vectorstores.base import StoreUnavailableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vectorstores._vectors import Parts
    from vectorstores.base import FloatArray

# Magic, store, namespace, generation, newest change and its token, number of rows, dimension, rows of a block; then a
# CRC-32 of it.
_HEADER: Final = struct.Struct("<8s32s32s16sqqqqq")
_MAGIC: Final = b"JVSMAP03"
_START: Final = 4096
_BLOCK_ROWS: Final = 256
_LOCK_TIMEOUT: Final = 30.0
# What zlib begins and ends a CRC-32 with.
_ONES: Final = 0xFFFFFFFF
# Kept, since the pages of a new one would have to be made first.
_ZEROS: Final = memoryview(bytes(2**18))
# Below this size, starting threads takes longer than the checksums.
_THREADS_FROM: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of a namespace lie, and what they must say about themselves."""

    folder: Path
    lock: Path
    store: str
    namespace: str
    dim: int

    @property
    def digest(self) -> bytes:
        """Digest of the namespace: names of files don't show it."""
        return hashlib.sha256(self.namespace.encode()).digest()

    @property
    def vectors(self) -> Path:
        """The file of this module."""
        return self.folder / f"{self.digest.hex()[:32]}.vectors"

    @property
    def codes(self) -> Path:
        """The file of :mod:`vectorstores._sidecar`."""
        return self.folder / f"{self.digest.hex()[:32]}.codes"

    def draft(self, of: Path) -> Path:
        """Return a new name for a file that is being written, which tells whose it is."""
        return of.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}.new")

    def hold(self) -> AbstractContextManager[None]:
        """Return the lock for renaming and overwriting; a context manager, which may raise an OSError."""
        return held(self.lock, _LOCK_TIMEOUT)


class Moment(NamedTuple):
    """The newest change that a file knows of, by its number and its random token.

    A database that was put back from a backup may come to the same number; not to the same token.
    """

    seq: int
    token: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The header of a file, and where its parts begin."""

    generation: bytes
    moment: Moment
    count: int
    dim: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.count // _BLOCK_ROWS)

    @property
    def rows_at(self) -> int:
        """Where the row numbers begin; the flags follow."""
        return _START + 4 * self.dim * self.count

    @property
    def sums_at(self) -> int:
        """Where the checksums begin: of the row numbers and flags, then of each block."""
        return self.rows_at + 9 * self.count

    @property
    def size(self) -> int:
        """Length of the file."""
        return self.sums_at + 4 + 4 * self.blocks

    def header(self, place: Place) -> bytes:
        """Return the header."""
        fields = (self.generation, *self.moment, self.count, self.dim, _BLOCK_ROWS)
        head = _HEADER.pack(_MAGIC, place.store.encode(), place.digest, *fields)
        return (head + struct.pack("<I", zlib.crc32(head))).ljust(_START, b"\0")


def layout_of(file: BinaryIO, place: Place) -> Layout | None:
    """Read the header of an open file; None if it is not what belongs at this place."""
    file.seek(0)
    head = file.read(_START)
    size = os.fstat(file.fileno()).st_size
    if len(head) < _START:
        return None
    *_, generation, seq, token, count, dim, _ = _HEADER.unpack_from(head)
    if not (0 < count <= size and dim == place.dim):
        return None
    layout = Layout(generation, Moment(seq, token), count, dim)
    return layout if layout.header(place) == head and layout.size == size else None


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a file holds. ``vectors`` may be written to: changes stay in memory."""

    layout: Layout
    vectors: FloatArray
    rows: NDArray[np.int64]
    alive: NDArray[np.bool_]
    damaged: tuple[slice, ...]
    """Positions whose vectors are not to be relied on."""


def read(place: Place) -> Mapped | None:
    """Return the vectors of a namespace, or None if there is no file that can be relied on."""
    try:
        with place.vectors.open("rb") as file:
            layout = layout_of(file, place)
            return None if layout is None else _read(file, layout)
    except (OSError, ValueError):
        # Missing, or unreadable: the database says the same, and the next file takes its place.
        return None


def _read(file: BinaryIO, layout: Layout) -> Mapped | None:
    file.seek(layout.rows_at)
    about = file.read(9 * layout.count)
    (checksum,) = struct.unpack("<I", file.read(4))
    if zlib.crc32(about) != checksum:
        return None
    rows = np.frombuffer(about, dtype="<i8", count=layout.count).astype(np.int64)
    alive = np.frombuffer(about, dtype=np.uint8, offset=8 * layout.count) != 0
    sums = np.frombuffer(file.read(4 * layout.blocks), dtype="<u4")
    vectors = np.memmap(file, dtype="<f4", mode="c", offset=_START, shape=(layout.count, layout.dim))
    halves = np.array_split(np.arange(layout.blocks), 2 if vectors.nbytes >= _THREADS_FROM else 1)
    plain = vectors.view(np.ndarray)

    def check(numbers: NDArray[np.int64]) -> list[slice]:
        found = []
        for number in numbers.tolist():
            part = slice(number * _BLOCK_ROWS, (number + 1) * _BLOCK_ROWS)
            if zlib.crc32(plain[part].data) != sums[number]:
                found.append(part)
        return found

    if len(halves) == 1:
        damaged = check(halves[0])
    else:
        with ThreadPoolExecutor(len(halves)) as threads:
            damaged = [part for parts in threads.map(check, halves) for part in parts]
    return Mapped(layout, plain, rows, alive, tuple(damaged))


def write(
    place: Place,
    moment: Moment,
    vectors: Parts,
    rows: NDArray[np.int64],
    alive: NDArray[np.bool_],
    overtaken: Callable[[], Sequence[int]],
) -> Layout:
    """Write a file in place of the old one, which an OSError leaves whole.

    ``overtaken`` is asked when the file is in its place, for the rows whose vectors were deleted or replaced since
    ``moment``: they are overwritten before anyone else may be.
    """
    layout = Layout(secrets.token_bytes(16), moment, len(rows), place.dim)
    place.folder.mkdir(mode=0o700, exist_ok=True)
    draft = place.draft(place.vectors)
    try:
        with draft.open("xb") as file:
            draft.chmod(0o600)
            file.write(layout.header(place))
            sums = np.zeros(layout.blocks, dtype="<u4")
            for number in range(layout.blocks):
                low = number * _BLOCK_ROWS
                block = vectors.between(low, min(low + _BLOCK_ROWS, layout.count))
                data = block.astype("<f4", copy=False).data
                sums[number] = zlib.crc32(data)
                file.write(data)
            about = rows.astype("<i8").tobytes() + alive.astype(np.uint8).tobytes()
            file.write(about + struct.pack("<I", zlib.crc32(about)) + sums.tobytes())
            file.flush()
            os.fsync(file.fileno())
        with place.hold():
            place.codes.unlink(missing_ok=True)
            draft.replace(place.vectors)
            gone = overtaken()
            if gone:
                _overwrite(place, dict.fromkeys(gone, moment.seq + 1))
        sync_folder(place.folder)
    finally:
        draft.unlink(missing_ok=True)
    return layout


def clean(folder: Path) -> None:
    """Remove what processes that were killed had begun to write: it may hold what was deleted since."""
    for draft in folder.glob("*.new"):
        owner = draft.name.split(".")[1]
        if not (owner.isdigit() and _alive(int(owner))):
            draft.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name == "nt" or process == os.getpid():
        return True  # there, asking would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def overwrite(place: Place, rows: Mapping[int, int]) -> None:
    """Take the vectors of these rows out of the files of a namespace, if there are any.

    Each row goes with the number of the change that deleted or replaced it: a file that was written after that change
    has the row's new vector, which stays.

    The codes file goes as a whole. A kill in the middle is mended when the file is read: the block counts as
    damaged, and the rows are among the changes that come after the file.
    """
    if not place.vectors.exists():
        return
    try:
        with place.hold():
            place.codes.unlink(missing_ok=True)
            _overwrite(place, rows)
    except FileNotFoundError:
        pass  # removed meanwhile
    except OSError as error:
        raise StoreUnavailableError(
            f"the change was stored, but {place.vectors} still holds the old vectors and can't be written: {error}"
        ) from error


def left(place: Place, gone: Callable[[int], Sequence[int]]) -> dict[int, int]:
    """Return the rows that have a vector in the file still, of those that ``gone`` names as deleted or replaced
    since a change; ready for :func:`overwrite`.
    """
    try:
        with place.vectors.open("rb") as file:
            layout = layout_of(file, place)
            if layout is None:
                return {}
            seq = layout.moment.seq
            known, at = _places(file, layout, gone(seq))
            shape = (layout.count, layout.dim)
            vectors = np.memmap(file, dtype="<f4", mode="r", offset=_START, shape=shape)
            # A block at a time: they may be many.
            parts = (at[low : low + _BLOCK_ROWS] for low in range(0, len(at), _BLOCK_ROWS))
            return {row: seq + 1 for part in parts for row in known[part[vectors[part].any(axis=1)]].tolist()}
    except FileNotFoundError:
        return {}


def _places(
    file: BinaryIO, layout: Layout, rows: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of a file, and the positions of those rows that it has."""
    known = np.memmap(file, dtype="<i8", mode="r", offset=layout.rows_at, shape=(layout.count,))
    wanted = np.unique(np.asarray(rows, dtype=np.int64))
    at = np.minimum(np.searchsorted(known, wanted), layout.count - 1)
    return known, at[known[at] == wanted]


def _overwrite(place: Place, rows: Mapping[int, int]) -> None:
    with place.vectors.open("r+b", buffering=0) as file:
        layout = layout_of(file, place)
        if layout is None:
            # Nobody can use it, and what it holds can't be found in it.
            with suppress(FileNotFoundError):
                place.vectors.unlink()
            return
        _, at = _places(file, layout, [row for row, seq in rows.items() if seq > layout.moment.seq])
        for number in np.unique(at // _BLOCK_ROWS).tolist():
            change = _blank(file, layout, at[at // _BLOCK_ROWS == number].tolist())
            file.seek(layout.sums_at + 4 + 4 * number)
            (known,) = struct.unpack("<I", file.read(4))
            file.seek(-4, os.SEEK_CUR)
            file.write(struct.pack("<I", known ^ change))


def _blank(file: BinaryIO, layout: Layout, places: Sequence[int]) -> int:
    """Overwrite the vectors at ascending places of one block; return by which bits its checksum changes.

    A CRC is linear but for its first and last step (Peterson and Brown 1961): it changes by the CRC, without these, of
    the bits that change. So the rest of the block is not read, and damage in it shows as before.
    """
    width = 4 * layout.dim
    end = min((places[0] // _BLOCK_ROWS + 1) * _BLOCK_ROWS, layout.count)
    change = _ONES
    for place, following in pairwise([*places, end]):
        file.seek(_START + place * width)
        change = zlib.crc32(file.read(width), change)
        left = (following - place - 1) * width
        for _ in range(left // len(_ZEROS)):
            change = zlib.crc32(_ZEROS, change)
        change = zlib.crc32(_ZEROS[: left % len(_ZEROS)], change)
        file.seek(-width, os.SEEK_CUR)
        file.write(bytes(width))
    return change ^ _ONES
