"""Checks of the folder of a store or cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vectorstores.base import StoreUnavailableError

_MOUNTS: Final = Path("/proc/self/mounts")
# Their locks and shared memory don't work between machines, and SQLite's write-ahead log needs both.
_NETWORK_FILE_SYSTEMS: Final = (
    "9p afs ceph cifs coda davfs glusterfs gpfs lustre ncpfs nfs nfs4 smb2 smb3 smbfs fuse.ceph fuse.davfs fuse.gcsfuse"
    " fuse.glusterfs fuse.juicefs fuse.rclone fuse.s3fs fuse.sshfs"
)


def check_place(folder: Path, what: str) -> None:
    """Raise if ``folder``, which need not exist yet, is a file or on a network file system."""
    if folder.exists() and not folder.is_dir():
        raise StoreUnavailableError(f"{folder} is a file, not the folder of {what}")
    if not _MOUNTS.exists():  # as anywhere but on Linux
        return
    real = Path(os.path.realpath(folder))  # Path.resolve raises RuntimeError for a circle of symbolic links
    kind = file_system(real, _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    if kind in _NETWORK_FILE_SYSTEMS.split():
        raise StoreUnavailableError(
            f"{folder} is on a network file system ({kind}), whose locks can't protect a store;"
            " use a local folder, or PostgreSQL to share between machines"
        )


def refuse_strangers(folder: Path, what: str, ours: Callable[[str], bool]) -> None:
    """Raise if a folder contains files that are not ``ours``."""
    others = [each.name for each in folder.iterdir() if not ours(each.name)] if folder.exists() else []
    if others:
        raise StoreUnavailableError(
            f"{folder} is not the folder of {what}: it holds other files, such as {min(others)!r}; name an empty or a"
            " new folder"
        )


def file_system(place: Path, mounts: str) -> str | None:
    """Return the type of the file system that contains a path, from the text of ``/proc/self/mounts``."""
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        name = fields[1]
        for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            name = name.replace(code, character)
        point = Path(name)
        # Later mounts cover earlier ones at the same point.
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind
