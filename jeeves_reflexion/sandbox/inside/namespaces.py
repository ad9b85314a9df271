"""A root of its own for the code: a small file system in memory with the interpreter's folders in it, read-only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from . import kernel

SCRATCH = "/scratch"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_LINKS = ("/lib", "/lib32", "/lib64", "/libx32")
_MASKED = ("site-packages", "dist-packages")
INODES = 4096

# what statvfs says of a mount: what mount must be told again, since a user namespace may not loosen it
_KEPT = {
    os.ST_NOSUID: kernel.MS_NOSUID,
    os.ST_NODEV: kernel.MS_NODEV,
    os.ST_NOEXEC: kernel.MS_NOEXEC,
    os.ST_NOATIME: kernel.MS_NOATIME,
    os.ST_NODIRATIME: kernel.MS_NODIRATIME,
    os.ST_RELATIME: kernel.MS_RELATIME,
}


def leave() -> None:
    """Leave the host's network, mounts, host name, shared memory and control groups."""
    kernel.unshare(
        kernel.CLONE_NEWNS
        | kernel.CLONE_NEWNET
        | kernel.CLONE_NEWIPC
        | kernel.CLONE_NEWUTS
        | kernel.CLONE_NEWCGROUP
    )
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)


def enter_root(readable: Iterable[str], *, file_bytes: int, owner: int) -> None:
    """Make the small root, go into it and let go of the host's. Afterwards only ``/scratch`` can be written to."""
    asked = [*readable, *_DEVICES]
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _outermost(asked)}
    os.umask(0o022)
    base = "/tmp"  # noqa: S108  any folder that exists everywhere; it is covered in this mount namespace alone
    quiet = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", base, "tmpfs", quiet | kernel.MS_NOEXEC, "size=1m,mode=755")
    masks = [mask for path, source in sources.items() for mask in _show(base, path, source)]
    for mask in masks:
        kernel.mount("none", mask, "", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | quiet)
    _link(base, asked)
    os.mkdir(base + SCRATCH)  # noqa: PTH102
    size = max(file_bytes, 4096)
    options = f"size={size},nr_inodes={INODES},mode=700,uid={owner},gid={owner}"
    kernel.mount("tmpfs", base + SCRATCH, "tmpfs", quiet | kernel.MS_NOEXEC, options)
    if not os.path.lexists(base + "/tmp"):  # noqa: S108
        os.symlink(SCRATCH, base + "/tmp")  # noqa: S108, PTH211
    kernel.mount(
        "none", base, "", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | quiet | kernel.MS_NOEXEC
    )
    kernel.make_root(base)
    os.chdir(SCRATCH)


def _link(base: str, paths: Iterable[str]) -> None:
    """Have paths that lead through links on the host lead to the same place here."""
    for link in _LINKS:
        if os.path.islink(link) and not os.path.lexists(base + link):  # noqa: PTH114
            os.symlink(os.readlink(link), base + link)  # noqa: PTH115, PTH211
    for path in paths:
        real = os.path.realpath(path)
        inside = os.path.join(base + os.path.realpath(os.path.dirname(path)), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
        if path != real and os.path.lexists(base + real) and not os.path.lexists(inside):
            os.makedirs(os.path.dirname(inside), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
            os.symlink(real, inside)  # noqa: PTH211


def _outermost(paths: Iterable[str]) -> list[str]:
    """Leave out what lies in another of the paths, unless it is covered there."""
    chosen: list[str] = []
    for path in sorted({os.path.realpath(path) for path in paths if os.path.exists(path)}, key=len):  # noqa: PTH110
        if not any(path.startswith(f"{outer}/") and not _covered(path[len(outer) :]) for outer in chosen):
            chosen.append(path)
    return chosen


def _covered(path: str) -> bool:
    return any(masked in path.split("/") for masked in _MASKED)


def _show(base: str, path: str, source: int) -> list[str]:
    """Show a folder or file of the host at its own path; return the folders of packages that were covered in it."""
    target = base + path
    folder = stat.S_ISDIR(os.fstat(source).st_mode)
    os.makedirs(target if folder else os.path.dirname(target), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    if not folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    flags = os.fstatvfs(source).f_flag
    kept = sum(told for said, told in _KEPT.items() if flags & said)
    # without MS_REC: what is mounted further down is not shown
    kernel.mount(f"/proc/self/fd/{source}", target, "", kernel.MS_BIND)
    os.close(source)
    hard = kernel.MS_RDONLY | kernel.MS_NOSUID | (0 if path in _DEVICES else kernel.MS_NODEV)
    kernel.mount("none", target, "", kernel.MS_REMOUNT | kernel.MS_BIND | hard | kept)
    return _cover(target) if folder else []


def _cover(target: str) -> list[str]:
    covered = []
    for name in ["", *(name for name in os.listdir(target) if name.startswith("python"))]:  # noqa: PTH208
        for masked in _MASKED:
            installed = os.path.join(target, name, masked)  # noqa: PTH118
            if os.path.isdir(installed):  # noqa: PTH112
                kernel.mount(
                    "tmpfs", installed, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=64k,mode=755"
                )
                covered.append(installed)
    return covered
