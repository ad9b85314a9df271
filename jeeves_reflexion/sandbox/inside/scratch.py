"""Scratch folders on the host's disk, where the code has no root of its own: made, measured and removed."""

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
_GONE = (FileNotFoundError, NotADirectoryError, ProcessLookupError)  # what is removed while it is looked at


def make(parent: str) -> tuple[str, int]:
    """Return a new folder in ``parent`` and the open lock that says it is in use; folders left by others go first.

    The lock ends with the last process that has it open, however that ends.
    """
    _sweep(parent)
    while True:
        path = os.path.join(parent, f"jeeves-sandbox-{os.urandom(8).hex()}")  # noqa: PTH118
        os.mkdir(path, 0o700)  # noqa: PTH102
        try:
            lock = os.open(path, _FOLDER)
            _take(lock)
            if os.path.samestat(os.stat(path), os.fstat(lock)):  # noqa: PTH116
                return path, lock
        except (BlockingIOError, FileNotFoundError):
            continue  # another run took it for one that was left, before it was locked


def _take(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # a file system without locks: the next run can take none either, and so removes nothing


def _sweep(parent: str) -> None:
    """Remove the scratch folders of this user that nobody has locked: those of hosts that were killed."""
    user = os.geteuid()
    with os.scandir(parent) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    for name in names:
        path = os.path.join(parent, name)  # noqa: PTH118
        try:
            lock = os.open(path, _FOLDER)
        except OSError:
            continue  # another user's, or gone meanwhile
        try:
            if user in {0, os.fstat(lock).st_uid}:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
        except OSError:
            continue  # in use; or being removed by another run at this moment
        finally:
            os.close(lock)


def full(path: str, file_bytes: int, processes: Iterable[int]) -> bool:
    """Whether more lies in a scratch folder than may, with the deleted files that ``processes`` hold open.

    A folder that can't be looked into (for want of rights, or since it is moved each time), or that is nested deeper
    than 100, is full as well.
    """
    for _ in range(_LOOKS):
        left = [file_bytes - sum(_deleted(processes).values()), walls.INODES]
        try:
            _walk(os.open(path, _FOLDER), left, 0)
        except (FileNotFoundError, NotADirectoryError):
            continue  # a folder was removed meanwhile, or moved
        except OSError:
            return True
        return min(left) < 0
    return True


def _walk(folder: int, left: list[int], depth: int) -> None:
    """Take from ``left`` (bytes, entries) what lies in an open folder, until nothing is left, and close it.

    From folder to folder by open descriptors: what the code moves above them meanwhile hides nothing.
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
    """The sizes of files that have no name any more, and only live on in the processes that hold them open.

    Of a process that is just ending, the kernel refuses them; the code's own can't hide them (see the filter).
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
    """Remove a folder with everything in it, however deep: a subfolder is moved to its top before it is emptied.

    Nothing is done by a path that leads through what the code made, so no link of its can lead elsewhere.
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
    """Open a folder, never through a link; one that its owner may not list or change gets these rights first."""
    handle = os.open(name, getattr(os, "O_PATH", 0) | _FOLDER, dir_fd=parent)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}" if hasattr(os, "O_PATH") else handle, 0o700)  # noqa: PTH101
        return os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
