"""Files shut off by Landlock (Linux 5.13): for machines that grant no namespaces, such as Docker's defaults."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from . import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_DEVICES = (1 << 6) | (1 << 11)  # making character and block devices
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14)


def version() -> int:
    """Return the version of Landlock's interface; 0 where there is none."""
    try:
        return kernel.system_call(
            "landlock", _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)
        )
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Let this process open nothing but what is beneath ``readable`` (to read) and ``writable``. For good.

    Names, sizes and dates of other files can still be asked for by their path; that is not Landlock's to forbid.
    """
    known = version()
    if not known:
        raise OSError("landlock: this kernel has none, or it is off")
    every = _ALL[max(number for number in _ALL if number <= known)]
    attributes = ctypes.create_string_buffer(struct.pack("Q", every), 8)
    ruleset = kernel.system_call(
        "landlock_create_ruleset", _CREATE_RULESET, attributes, ctypes.c_size_t(8), ctypes.c_uint32(0)
    )
    for path in readable:
        _allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
    for path in writable:
        _allow(ruleset, path, every & ~_DEVICES & ~_EXECUTE)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.system_call("landlock_restrict_self", _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    if not os.path.exists(path):  # noqa: PTH110
        return
    if not os.path.isdir(path):  # noqa: PTH112
        rights &= _ON_FILES
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, parent), 12)
    kernel.system_call(
        "landlock_add_rule",
        _ADD_RULE,
        ctypes.c_int(ruleset),
        ctypes.c_int(_PATH_BENEATH),
        rule,
        ctypes.c_uint32(0),
    )
    os.close(parent)
