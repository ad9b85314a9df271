"""Reads and replaces files safely, also in folders that others may write to.

A file is replaced as a whole: a reader sees the old text or the new one, even after a crash or a power cut. Only
regular files are read or replaced, never a link, a pipe or a device.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from pathlib import Path
from typing import Final

_MODE: Final = 0o600


class NotSyncedError(OSError):
    """A file was replaced, but its folder could not be synced: a power cut may bring the old file back."""


def replace_file(path: Path, text: str | bytes, *, mode: int = _MODE) -> None:
    """Replace a file, durably, by a UTF-8 text that by default only this user can read.

    The text is written to a ``.part`` file, which is renamed. All writers use the same ``.part`` name, so the next one
    overwrites what a killed one left; callers must hold a lock. A lone surrogate, which UTF-8 can't hold, becomes "?".

    Raises :class:`NotSyncedError` if the file was replaced but the change may be lost, and any other ``OSError`` if the
    file is unchanged, for example because it is a link, a folder, a pipe or a device.
    """
    with contextlib.suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            raise OSError("it is a link, and is not replaced: name the file that it leads to")
        if not stat.S_ISREG(kind):
            raise OSError("it is not a regular file, and is not replaced")
    part = path.with_name(f"{path.name}.part")
    try:
        # Never write to an existing .part: it may be readable for others, or a link or pipe that somebody made.
        part.unlink(missing_ok=True)
        with open(part, "xb", opener=functools.partial(os.open, mode=_MODE)) as file:
            file.write(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
            if mode != _MODE:
                part.chmod(mode)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise NotSyncedError(*error.args) from error


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    if os.name == "nt":
        return  # a folder can't be opened there, and a rename is durable by itself
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def not_written(path: Path, error: Exception) -> str:
    """Return what became of a file whose replacement raised this error."""
    if isinstance(error, NotSyncedError):
        return f"{path} was written, but a power cut may bring back what it was: {error}"
    return f"{path} can't be written; it is as it was: {error}"


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a file in a folder that others may write to.

    Raises ``OSError`` if it is not a regular file, such as a symbolic link or a named pipe (without waiting for it), or
    if it has more than ``most`` bytes.
    """
    if path.is_symlink():  # for Windows, which has no O_NOFOLLOW; elsewhere so that the error says why
        raise OSError("it is a link: put the file itself there")
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(f"it has more than {most} bytes: shorten it")
    return data
