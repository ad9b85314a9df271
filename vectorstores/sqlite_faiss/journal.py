"""SQLite's write-ahead log, looked at before SQLite opens it: it takes what is whole, and says nothing of the rest.

https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores.base import StoreCorruptError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER: Final = 32
_FRAME: Final = 24
_AT_ONCE: Final = 2048  # frames that are read at a time: 8 MB


def check_journal(database: Path) -> None:
    """Raise :class:`StoreCorruptError` if the log of a database has lost changes that were stored.

    That can be told where damage is followed by two commits or more: each is on the disk before the next begins, so a
    power cut spoils the last one alone. A log that was cut off looks like one that ended there.
    """
    path = Path(f"{database}-wal")
    try:
        # Twice: a process that writes at this moment may be seen halfway.
        lost = _is_damaged(path) and _is_damaged(path)
    except FileNotFoundError:
        return
    if lost:
        raise StoreCorruptError(
            f"{path} is damaged, and held changes that are nowhere else: restore the folder from a backup, or give"
            f' these changes up with: sqlite3 {database} "PRAGMA wal_checkpoint(TRUNCATE)"'
        )


def _is_damaged(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEADER)
        if len(head) < _HEADER:
            return False
        magic, _, size = struct.unpack_from(">3I", head)
        order = ">" if magic & 1 else "<"
        last = _sums(np.frombuffer(head, f"{order}u4", 6).reshape(1, -1), np.zeros((1, 2), np.uint32))
        salts = np.frombuffer(head, ">u4", 2, offset=16)
        broken = no_head = bool((last != np.frombuffer(head, ">u4", offset=24)).any())
        if no_head:
            size = _page_size(path.with_name(path.name.removesuffix("-wal")))
        commits = 0
        while count := len(data := file.read(_AT_ONCE * (_FRAME + size))) // (_FRAME + size):
            frames = np.frombuffer(data, np.uint8, count * (_FRAME + size)).reshape(count, -1)
            heads = frames[:, :_FRAME].copy().view(">u4")
            if no_head:  # what most frames say
                each, times = np.unique(heads[:, 2:4], axis=0, return_counts=True)
                salts, no_head = each[times.argmax()], False
            ours = (heads[:, 2:4] == salts).all(axis=1)
            if not broken:
                found = heads[:, 4:6].astype(np.uint32)
                text = np.concatenate([frames[:, :8], frames[:, _FRAME:]], axis=1).view(f"{order}u4")
                whole = ours & (_sums(text, np.concatenate([last, found])[:-1]) == found).all(axis=1)
                last, broken = found[-1:], not whole.all()
                ours[: whole.argmin() if broken else count] = False
            # Frames of an earlier round have other salts; the last frame of a commit says how many pages there are.
            commits += int(np.count_nonzero(ours & (heads[:, 1] != 0)))
        return broken and commits > 1


def _page_size(database: Path) -> int:
    with database.open("rb") as file:
        (size,) = struct.unpack(">H", file.read(18)[16:])
    return 65536 if size == 1 else max(int(size), 512)


def _sums(words: NDArray[np.uint32], start: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return SQLite's checksums of rows of words, each begun with the two numbers of the one before."""
    one, two = start[:, 0].copy(), start[:, 1].copy()
    with np.errstate(over="ignore"):
        for at in range(0, words.shape[1], 2):
            one += words[:, at] + two
            two += words[:, at + 1] + one
    return np.stack([one, two], axis=1)
