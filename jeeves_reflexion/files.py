"""Files that are replaced whole: a reader sees the old text or the new one, also after a crash or a power cut.

And files of a folder that others may write to: regular ones alone are read or replaced, never a link, pipe or device.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_MODE: Final = 0o600


class NotSyncedError(OSError):
    """A file was replaced, but its folder could not be synced: a power cut may bring the old file back."""


def replace_file(path: Path, text: str | bytes, *, mode: int = _MODE) -> None:
    """Put a UTF-8 text in the place of a file, by default readable for this user alone; then it is on the disk.

    The text goes to ``.part`` beside it and is renamed. That name is the same for all writers, so that what a killed
    one left behind is overwritten by the next; they must come one at a time, under a lock of the caller's. What UTF-8
    can't hold (a lone surrogate) becomes "?".

    Raises :class:`NotSyncedError` when the file was replaced but may not stay so, any other ``OSError`` when it is as
    it was: also where a link, a folder, a pipe or a device has its name.
    """
    _check_replaceable(path)
    part = path.with_suffix(".part")
    try:
        # What lies there may be a killed writer's, readable for others, or a link or pipe that somebody laid: none of
        # that is written to.
        part.unlink(missing_ok=True)
        with open(part, "xb", opener=_for_this_user) as file:
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
    """Have the names of a folder's files on the disk: a rename or removal is durable after this."""
    if os.name == "nt":
        return  # a folder can't be opened there, and a rename is durable by itself
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def not_written(path: Path, error: Exception) -> str:
    """Say what became of a file whose replacing raised this."""
    if isinstance(error, NotSyncedError):
        return f"{path} was written, but a power cut may bring back what it was: {error}"
    return f"{path} can't be written; it is as it was: {error}"


def read_regular(path: Path, most: int) -> bytes:
    """Return the bytes of a file in a folder that others may write to.

    Raises ``OSError`` for what is no regular file, such as a symbolic link or a named pipe, which is not waited for,
    and for a file of more than ``most`` bytes.
    """
    if path.is_symlink():  # for Windows, which has no O_NOFOLLOW; elsewhere so that the error says why
        raise OSError("it is a link: put the file itself there")
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is no regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(f"it has more than {most} bytes: shorten it")
    return data


def _check_replaceable(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise OSError("it is a link, and is not replaced: name the file that it leads to")
    if not stat.S_ISREG(mode):
        raise OSError("it is no regular file, and is not replaced")


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, mode=_MODE)
