"""The guard: a process between the supervisor and the code, which ends the code when the supervisor is gone.

The guard reads from a pipe that the supervisor keeps open and never writes to. When the supervisor ends for any reason,
the kernel closes the pipe, and the guard ends everything that the code started and removes its scratch folder. If the
guard itself is killed, the kernel ends the code (``PR_SET_PDEATHSIG``, or the end of its process namespace).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from . import messages, scratch

_LOOK_EVERY = 0.05
_MOMENT = 0.5


def watch(config: dict[str, Any], code: int, life: int, status: int) -> NoReturn:
    """Wait until the supervisor closes ``life``, reporting how the code ended, and clean up. Never returns."""
    try:
        _wait(config, code, life, status)
    except BaseException:  # noqa: BLE001  a guard that fails ends the code too
        sys.excepthook(*sys.exc_info())
    try:
        if config["way"] == "namespaces":
            _end_namespace()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is empty
                os.killpg(code, signal.SIGKILL)
            end_descendants()
            # if this user may not change its parent folder, the supervisor removes it
            with contextlib.suppress(PermissionError):
                scratch.remove(config["scratch"])
    except BaseException:  # noqa: BLE001  the next run removes what is left
        sys.excepthook(*sys.exc_info())
    os._exit(0)


def _wait(config: dict[str, Any], code: int, life: int, status: int) -> None:
    noticed, noticing = os.pipe()
    os.set_blocking(noticing, False)
    signal.set_wakeup_fd(noticing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    looks = config["way"] != "namespaces"
    while True:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == code:
                    messages.tell(status, {"ended": ended[1]})
                    looks = False
        if looks:
            # those that may hold files open: the code's own process, and for Prolog its one child
            processes = [code] if sys.platform == "linux" else []
            if processes and config["language"] == "prolog":
                processes += _children(code)
            if scratch.full(config["scratch"], config["resources"]["file_bytes"], processes):
                messages.tell(status, {"full": True})
                looks = False
        ready = select.select([life, noticed], [], [], _LOOK_EVERY if looks else None)[0]
        if life in ready:
            return
        if noticed in ready:
            os.read(noticed, 512)


def _end_namespace() -> None:
    """End all others of this namespace and wait for them. The kernel would do so too, but after closing our pipes."""
    if os.getpid() != 1:  # outside of a namespace, -1 would mean the processes of the host
        raise OSError("the guard is not the first process of a namespace")
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def end_descendants() -> None:
    """End the children of this process, and orphans that it inherited, until there are none.

    New ones may appear meanwhile; it gives up after half a second.
    """
    until = time.monotonic() + _MOMENT
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            continue
        for child in _children(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def _children(own: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if sys.platform == "linux" else []):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
        if parent == own:
            found.append(int(name))
    return found
