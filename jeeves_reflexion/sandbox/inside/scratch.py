"""Makes, measures and removes scratch folders on the host's disk, for code without a root file system of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterable

from . import walls

_NAME = re.compile(r"jeeves-sandbox-[0-9a-f]{16}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 100
_LOOKS = 20
_GONE = (FileNotFoundError, NotADirectoryError, ProcessLookupError)  # raised for files removed meanwhile


def make(parent: str) -> tuple[str, int]:
    """Remove abandoned scratch folders from ``parent``, make a new one, and return its path and its open lock.

    The lock ends with the last process that has it open.
    """
    _sweep(parent)
    while True:
        path = os.path.join(parent, f"jeeves-sandbox-{os.urandom(8).hex()}")  # noqa: PTH118
        os.mkdir(path, 0o700)  # noqa: PTH102
        try:
            lock = os.open(path, _FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if isinstance(error, BlockingIOError):
                    raise
                # a file system without locks: other runs get none either, and so remove nothing
            if os.path.samestat(os.stat(path), os.fstat(lock)):  # noqa: PTH116
                return path, lock
        except (BlockingIOError, FileNotFoundError):
            continue  # another run took it for an abandoned one, before it was locked


def _sweep(parent: str) -> None:
    """Remove this user's scratch folders without a lock, which killed hosts left."""
    user = os.geteuid()
    with os.scandir(parent) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    for name in names:
        path = os.path.join(parent, name)  # noqa: PTH118
        try:
            lock = os.open(path, _FOLDER)
        except OSError:
            continue  # it belongs to another user, or is gone
        try:
            if user in {0, os.fstat(lock).st_uid}:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
        except OSError:
            continue  # it is in use, or another run is removing it
        finally:
            os.close(lock)


def full(path: str, file_bytes: int, processes: Iterable[int]) -> bool:
    """Return whether a scratch folder exceeds its limit, counting deleted files that ``processes`` hold open.

    A folder that can't be measured (without permission, or because it is moved each time) counts as full, and so does
    one that is nested deeper than 100 levels.
    """
    for _ in range(_LOOKS):
        left = [file_bytes - sum(_deleted(processes).values()), walls.INODES]
        try:
            _walk(os.open(path, _FOLDER), left, 0)
        except (FileNotFoundError, NotADirectoryError):
            continue  # a folder was removed or moved meanwhile
        except OSError:
            return True
        return min(left) < 0
    return True


def _walk(folder: int, left: list[int], depth: int) -> None:
    """Subtract the contents of an open folder from ``left`` (bytes, entries), and close the folder.

    It stops when nothing is left. It goes from folder to folder by descriptors, so that the code can't hide anything by
    moving folders.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                left[1] -= 1 if depth < _DEEPEST else walls.INODES
                if min(left) < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    _walk(os.open(entry.name, _FOLDER, dir_fd=folder), left, depth + 1)
                    continue
                with contextlib.suppress(*_GONE):
                    left[0] -= entry.stat(follow_symlinks=False).st_blocks * 512
    finally:
        os.close(folder)


def _deleted(processes: Iterable[int]) -> dict[tuple[int, int], int]:
    """Return the sizes of files that were deleted but are still held open by processes.

    The kernel does not show those of a process that is ending. The code can't hide its own (see the filter).
    """
    sizes = {}
    for process in processes:
        folder = f"/proc/{process}/fd"
        with contextlib.suppress(*_GONE, PermissionError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(*_GONE):
                    found = os.stat(entry.path)  # noqa: PTH116
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sizes


def remove(path: str) -> None:
    """Remove a folder with everything in it, however deep: each subfolder is moved to the top before it is emptied.

    No path leads through anything that the code made, so its links can't lead elsewhere.
    """
    top = _opened(path, None)
    try:
        waiting = _emptied(top, top)
        while waiting:
            name = waiting.pop()
            folder = _opened(name, top)
            try:
                waiting += _emptied(folder, top)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)  # noqa: PTH106


def _emptied(folder: int, top: int) -> list[str]:
    """Remove the files of a folder and move its subfolders to the top; return their names there."""
    moved = []
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        os.close(_opened(name, folder))
        moved.append(os.urandom(16).hex())
        os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=top)
    return moved


def _opened(name: str, parent: int | None) -> int:
    """Open a folder, never through a link, after giving its owner the rights to list and change it."""
    handle = os.open(name, getattr(os, "O_PATH", 0) | _FOLDER, dir_fd=parent)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}" if hasattr(os, "O_PATH") else handle, 0o700)  # noqa: PTH101
        return os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
