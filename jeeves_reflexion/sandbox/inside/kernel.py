"""Linux system calls that the standard library lacks, by ctypes. Each raises ``OSError`` that names the call."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE = 1024, 2048, 4096, 16384, 1 << 18
MS_RELATIME = 1 << 21
_MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
PR_SET_SECCOMP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 22, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63

MACHINE = os.uname().machine if sys.platform == "linux" else ""
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def call(name: str, *arguments: object, told: str = "") -> int:
    """Call a function of libc. If it returns -1, raise ``OSError`` that names it, or its task ``told``."""
    if _libc is None:
        raise OSError(f"{name}: this is not Linux")
    result: int = getattr(_libc, name)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{told or name}: {os.strerror(number)}")
    return result


def system_call(name: str, number: int, *arguments: object) -> int:
    """Make a system call for which libc has no function."""
    return call("syscall", ctypes.c_long(number), *arguments, told=name)


def prctl(option: int, first: object = 0, second: object = 0) -> None:
    """Set an attribute of this process."""
    arguments = [
        ctypes.c_ulong(value) if isinstance(value, int) else value for value in (first, second, 0, 0)
    ]
    call("prctl", ctypes.c_int(option), *arguments)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)  # the parent has ended already


def unshare(flags: int) -> None:
    """Leave the namespaces of the host."""
    call("unshare", ctypes.c_int(flags))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount, bind or remount."""
    texts = [text.encode() if text else None for text in (source, target, kind)]
    data = options.encode() if options else None
    call("mount", *texts, ctypes.c_ulong(flags), data, told=f"mount {kind or source} at {target}")


def make_root(folder: str) -> None:
    """Make ``folder`` (a mount point) the root of this process, and detach the old root."""
    os.chdir(folder)
    system_call("pivot_root", _PIVOT_ROOT[MACHINE], b".", b".")
    call("umount2", b".", ctypes.c_int(_MNT_DETACH))
    os.chdir("/")


def drop_bounding_set() -> None:
    """Give up the right to regain capabilities. A process that is not allowed to has no such right to give up."""
    for capability in range(_LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            return


def drop_capabilities() -> None:
    """Give up all capabilities of this process."""
    try:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError as error:
        if error.errno != 22:  # a kernel without ambient capabilities
            raise
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


NOBODY = 65534


def knows_user(uid: int) -> bool:
    """Return whether this user namespace has a user, whom a process could become."""
    with open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123
        ranges = [[int(number) for number in line.split()] for line in file]
    return any(first <= uid < first + count for first, _, count in ranges)
