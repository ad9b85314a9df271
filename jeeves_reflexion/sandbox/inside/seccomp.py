"""A seccomp filter that refuses system calls which a computation never needs.

It lists what is denied, not what is allowed: namespaces (or Landlock) are the wall. The filter takes away the calls
with which such walls have been broken, and covers what no namespace does: new sockets of any family (such as vsock),
key rings, and kernel memory that no limit counts. It is written in BPF by hand, so that it needs no package.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable

from . import kernel

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); -1 if the architecture does not have it
_NUMBERS = {
    "fork": (57, -1), "vfork": (58, -1), "clone": (56, 220), "clone3": (435, 435), "execve": (59, 221),
    "execveat": (322, 281), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "prlimit64": (302, 261),
    "fcntl": (72, 25), "ioctl": (16, 29), "socket": (41, 198), "truncate": (76, 45), "chmod": (90, -1),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1), "fchown": (93, 55),
    "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "inotify_init": (253, -1), "inotify_init1": (294, 26), "file_setattr": (469, 469),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "statmount": (457, 457), "listmount": (458, 458), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "kcmp": (312, 272), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "syslog": (103, 116), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, -1), "ioperm": (173, -1), "modify_ldt": (154, -1), "personality": (135, 92),
    "lookup_dcookie": (212, 18), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "migrate_pages": (256, 238), "move_pages": (279, 239), "setpriority": (141, 140),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122), "ioprio_set": (251, 30), "vhangup": (153, 58), "nfsservctl": (180, 42),
    "vmsplice": (278, 75), "remap_file_pages": (216, 234), "mknod": (133, -1), "mknodat": (259, 33),
    "get_robust_list": (274, 100), "landlock_create_ruleset": (444, 444), "capset": (126, 91),
    "socketpair": (53, 199), "bind": (49, 200), "listen": (50, 201), "connect": (42, 203), "sendmsg": (46, 211),
    "sendmmsg": (307, 269), "setsockopt": (54, 208),
    "prctl": (157, 167), "io_setup": (206, 0), "fallocate": (285, 47),
}  # fmt: skip

_SPECIAL = frozenset({
    "clone", "clone3", "execve", "execveat", "kill", "tkill", "tgkill", "prlimit64", "fcntl", "ioctl",
    "socketpair", "prctl", "fallocate",
})  # fmt: skip
_METADATA = frozenset({
    "truncate", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "inotify_init", "inotify_init1", "file_setattr",
})  # fmt: skip
"""Calls that change or watch files by name and that Landlock does not cover. Code with its own root may use them."""

_EPERM, _ENOSYS, _EOPNOTSUPP = 1, 38, 95
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020000
_SET_OWNER = (8, 10, 15)  # fcntl F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to others
_SET_PIPE_SIZE = 1031  # fcntl F_SETPIPE_SZ: memory that no limit counts
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, (0, 0o4000, 0o2000000, 0o2004000)
# They end the code with its guard, and show the guard its files.
_OWN_END = (kernel.PR_SET_PDEATHSIG, kernel.PR_SET_DUMPABLE)
_OWNER_IOCTLS = (0x8901, 0x8902, 0x5412, 0x541C)  # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX

_Instruction = tuple[int, int, int, int]
_ALLOWED: _Instruction = (_RETURN, 0, 0, _ALLOW)
_REFUSED: _Instruction = (_RETURN, 0, 0, _ERRNO | _EPERM)
_SET_NO_FILTER_FLAGS = 2


def available() -> bool:
    """Return whether there is a filter for this architecture."""
    return kernel.MACHINE in _ARCHITECTURE


def install(*, programs: bool, own_pid: int | None, root_of_its_own: bool) -> None:
    """Install the filter for this process and all that it starts. It can't be removed again.

    ``programs`` allows ``execve``. ``own_pid`` restricts signals and limits to that process, if there is no process
    namespace. ``root_of_its_own`` says that the code can write to its scratch folder only.
    """
    if not available():
        raise OSError(f"seccomp: there is no filter for {kernel.MACHINE or 'this system'}")
    program = _program(programs=programs, own_pid=own_pid, root_of_its_own=root_of_its_own)
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    pointer = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer)))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_SECCOMP, _SET_NO_FILTER_FLAGS, ctypes.byref(pointer))


def _program(*, programs: bool, own_pid: int | None, root_of_its_own: bool) -> list[_Instruction]:
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURE[kernel.MACHINE]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if kernel.MACHINE == "x86_64":  # the x32 calls have numbers from here on
        program += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]
    denied = [
        name for name in _NUMBERS if name not in _SPECIAL and not (root_of_its_own and name in _METADATA)
    ]
    if not programs:
        denied += ["execve", "execveat"]
    if own_pid is not None:
        denied.append("tkill")
    for name in denied:
        program += _on(name, [_REFUSED])
    # A filter can't see the flags of clone3; without it, libc falls back to clone.
    program += _on("clone3", [(_RETURN, 0, 0, _ERRNO | _ENOSYS)])
    no_namespace = [(_ANY_BIT, 0, 1, _CLONE_NEW), _REFUSED]
    threads_only = [(_ANY_BIT, 1, 0, _CLONE_THREAD), _REFUSED]
    program += _on("clone", [_argument(0), *no_namespace, *threads_only, _ALLOWED])
    program += _on("fcntl", _switch(1, (*_SET_OWNER, _SET_PIPE_SIZE), _REFUSED, _ALLOWED))
    program += _on("ioctl", _switch(1, _OWNER_IOCTLS, _REFUSED, _ALLOWED))
    program += _on("prctl", _switch(0, _OWN_END, _REFUSED, _ALLOWED))
    # Stream pairs only: a datagram pair can send to any socket of the host, and pass it descriptors.
    kinds = [_SOCK_STREAM | flag for flag in _SOCK_FLAGS]
    unix_only = [_argument(0), (_EQUAL, 1, 0, _AF_UNIX), _REFUSED]
    program += _on("socketpair", [*unix_only, *_switch(1, kinds, _ALLOWED, _REFUSED)])
    if not root_of_its_own:
        # libc writes instead, which takes time
        program += _on("fallocate", [(_RETURN, 0, 0, _ERRNO | _EOPNOTSUPP)])
    if own_pid is not None:
        for name in ("kill", "tgkill"):
            program += _on(name, _switch(0, (own_pid,), _ALLOWED, _REFUSED))
    own = (0,) if own_pid is None else (0, own_pid)
    program += _on("prlimit64", _switch(0, own, _ALLOWED, _REFUSED))
    return [*program, _ALLOWED]


def _on(name: str, body: list[_Instruction]) -> list[_Instruction]:
    number = _NUMBERS[name][0 if kernel.MACHINE == "x86_64" else 1]
    return [] if number < 0 else [(_EQUAL, 0, len(body), number), *body]


def _argument(index: int) -> _Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _switch(
    index: int, values: Iterable[int], match: _Instruction, other: _Instruction
) -> list[_Instruction]:
    """Return ``match`` if an argument of the call is one of the values, else ``other``."""
    cases = [part for value in values for part in ((_EQUAL, 0, 1, value), match)]
    return [_argument(index), *cases, other]
