"""Isolates the code: in namespaces with a root of their own, or by Landlock; with resource limits and a seccomp filter.

The root is a small file system in memory, with the interpreter's folders mounted read-only. Landlock (Linux 5.13) is
for machines that do not allow namespaces, such as containers with Docker's defaults.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import struct
import sys
from collections.abc import Iterable
from typing import Any

from . import kernel, seccomp

SCRATCH = "/scratch"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_LINKS = ("/lib", "/lib32", "/lib64", "/libx32")
_MASKED = ("site-packages", "dist-packages")
INODES = 4096

# flags from statvfs and for mount: a remount must repeat them, since a user namespace may not drop them
_KEPT = {
    os.ST_NOSUID: kernel.MS_NOSUID,
    os.ST_NODEV: kernel.MS_NODEV,
    os.ST_NOEXEC: kernel.MS_NOEXEC,
    os.ST_NOATIME: kernel.MS_NOATIME,
    os.ST_NODIRATIME: kernel.MS_NODIRATIME,
    os.ST_RELATIME: kernel.MS_RELATIME,
}


# the host's mounts, network, shared memory, host name and control groups
_LEFT = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)


def enter_root(readable: Iterable[str], *, file_bytes: int, owner: int) -> None:
    """Leave the host's namespaces, enter the small root, and detach the host's root.

    Afterwards only ``/scratch`` is writable.
    """
    kernel.unshare(_LEFT)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    asked = [*readable, *_DEVICES]
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _outermost(asked)}
    os.umask(0o022)
    base = "/tmp"  # noqa: S108  a folder that exists everywhere; the mount covers it in this namespace only
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
    """Recreate links of the host, so that paths through them lead to the same place in the new root."""
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
    """Return the paths that are not inside another of the paths, or that are covered there."""
    chosen: list[str] = []
    for path in sorted({os.path.realpath(path) for path in paths if os.path.exists(path)}, key=len):  # noqa: PTH110
        below = (path[len(outer) :].split("/") for outer in chosen if path.startswith(f"{outer}/"))
        if all(any(masked in parts for masked in _MASKED) for parts in below):
            chosen.append(path)
    return chosen


def _show(base: str, path: str, source: int) -> list[str]:
    """Mount a folder or file of the host at the same path; return the package folders that were covered in it."""
    target = base + path
    folder = stat.S_ISDIR(os.fstat(source).st_mode)
    os.makedirs(target if folder else os.path.dirname(target), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    if not folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    flags = os.fstatvfs(source).f_flag
    kept = sum(mount_flag for mounted_with, mount_flag in _KEPT.items() if flags & mounted_with)
    # without MS_REC, so that mounts further down are not shown
    kernel.mount(f"/proc/self/fd/{source}", target, "", kernel.MS_BIND)
    os.close(source)
    hard = kernel.MS_RDONLY | kernel.MS_NOSUID | (0 if path in _DEVICES else kernel.MS_NODEV)
    kernel.mount("none", target, "", kernel.MS_REMOUNT | kernel.MS_BIND | hard | kept)
    versions = [name for name in os.listdir(target) if name.startswith("python")] if folder else []  # noqa: PTH208
    packages = [os.path.join(target, name, masked) for name in ["", *versions] for masked in _MASKED]  # noqa: PTH118
    covered = [packaged for packaged in packages if os.path.isdir(packaged)]  # noqa: PTH112
    for packaged in covered:
        kernel.mount("tmpfs", packaged, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=64k,mode=755")
    return covered


# -- Landlock

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_MAKING_DEVICES = (1 << 6) | (1 << 11)  # making character and block devices
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14)


def landlock_version() -> int:
    """Return the version of Landlock's interface, or 0 if the kernel does not have it."""
    try:
        return kernel.system_call(
            "landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_VERSION)
        )
    except OSError:
        return 0


def _restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Let this process open only files below ``readable`` (to read) and ``writable``. This can't be undone.

    It may still ask for the size and dates of other files by path: Landlock does not forbid that.
    """
    known = landlock_version()
    if not known:
        raise OSError("landlock: this kernel does not have it, or it is disabled")
    every = _ALL[max(number for number in _ALL if number <= known)]
    attributes = ctypes.create_string_buffer(struct.pack("Q", every), 8)
    ruleset = kernel.system_call(
        "landlock_create_ruleset", _CREATE_RULESET, attributes, ctypes.c_size_t(8), ctypes.c_uint32(0)
    )
    reading = [(path, _EXECUTE | _READ_FILE | _READ_DIR) for path in readable]
    writing = [(path, every & ~_MAKING_DEVICES & ~_EXECUTE) for path in writable]
    for path, rights in [*reading, *writing]:
        if not os.path.exists(path):  # noqa: PTH110
            continue
        allowed = rights if os.path.isdir(path) else rights & _ON_FILES  # noqa: PTH112
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, parent), 12)
        numbers = ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH)
        kernel.system_call("landlock_add_rule", _ADD_RULE, *numbers, rule, ctypes.c_uint32(0))
        os.close(parent)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.system_call("landlock_restrict_self", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


# -- everything that the code must not have

_THREADS = 32
_OPEN_FILES = 64
_STACK = 8 * 1024 * 1024


def shut_in(config: dict[str, Any], *, programs: bool) -> None:
    """Give up everything that the code must not have. Raises ``OSError`` if something can't be given up."""
    os.umask(0o077)
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    _limit_resources(config["resources"], config["counted"])
    if config["way"] == "landlock":
        _restrict(config["read"], [config["scratch"], "/dev/null"])
    if config["way"] != "limits" or seccomp.available():
        walled = config["way"] == "namespaces"
        own_pid = None if walled else os.getpid()
        seccomp.install(programs=programs, own_pid=own_pid, root_of_its_own=walled)


def _limit_resources(limits: dict[str, Any], counted: int | None) -> None:
    cpu = int(limits["cpu_seconds"])
    wanted = {
        "RLIMIT_CPU": (cpu, cpu + 1),
        "RLIMIT_AS": (limits["memory_bytes"], limits["memory_bytes"]),
        "RLIMIT_FSIZE": (limits["file_bytes"], limits["file_bytes"]),
        "RLIMIT_NOFILE": (_OPEN_FILES, _OPEN_FILES),
        "RLIMIT_CORE": (1, 1),  # 0 would still hand a core dump to the program that the kernel has for them
        "RLIMIT_STACK": (_STACK, _STACK),
        "RLIMIT_MEMLOCK": (0, 0),
        "RLIMIT_MSGQUEUE": (0, 0),
        "RLIMIT_SIGPENDING": (256, 256),
    }
    if counted is not None:
        wanted["RLIMIT_NPROC"] = (_THREADS + counted,) * 2
    for name, (soft, hard) in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        most_allowed = resource.getrlimit(kind)[1]
        if most_allowed != resource.RLIM_INFINITY:
            soft, hard = min(soft, most_allowed), min(hard, most_allowed)  # noqa: PLW2901
        try:
            resource.setrlimit(kind, (int(soft), int(hard)))
        except (ValueError, OSError):
            if sys.platform == "linux":
                raise  # on other systems some limits are known but can't be set
