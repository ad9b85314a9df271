"""Files that are replaced whole: a reader sees the old text or the new one, also after a crash or a power cut."""

from __future__ import annotations

import os
from pathlib import Path


class NotSyncedError(OSError):
    """A file was replaced, but its folder could not be synced: a power cut may bring the old file back."""


def replace_file(path: Path, text: str) -> None:
    """Put a UTF-8 text in the place of a file, readable for this user alone; it is on the disk when this returns.

    The text goes to ``.part`` beside it and is renamed. That name is the same for all writers, so that what a killed
    one left behind is overwritten by the next; they must come one at a time, under a lock of the caller's. What UTF-8
    can't hold (a lone surrogate) becomes "?".

    Raises :class:`NotSyncedError` when the file was replaced but may not stay so, any other ``OSError`` when it is as
    it was.
    """
    part = path.with_suffix(".part")
    try:
        with open(part, "wb", opener=_for_this_user) as file:
            # What a killed writer left may be readable for others, and a mode given to open() is for new files alone.
            part.chmod(0o600)
            file.write(text.encode("utf-8", "replace"))
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


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
