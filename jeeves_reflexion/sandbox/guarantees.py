"""Finds out, by trying, how well this machine can isolate untrusted code."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

import anyio

from jeeves_reflexion.errors import SandboxError
from jeeves_reflexion.sandbox.jail import Jail, Runtime
from jeeves_reflexion.sandbox.limits import Report, SandboxLimits, judged

Way = Literal["namespaces", "landlock", "limits"]

_LIMITS = SandboxLimits(seconds=20)

_TRY = """
import os, socket
def refused(action):
    try:
        action()
    except OSError:
        return True
    return False
def pair(address):
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", address)
def passed():
    socket.send_fds(socket.socketpair()[0], [b"x"], [0])
result = {
    "network": {
        "a TCP socket": refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
        "a Unix socket": refused(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)),
        "a datagram to a Unix socket of the host": refused(lambda: pair(listener)),
        "a datagram to an abstract socket of the host": refused(lambda: pair(chr(0) + name)),
        "taking an abstract name of a socket": refused(lambda: socket.socketpair()[0].bind(chr(0) + name + "2")),
        "passing a descriptor": refused(passed),
    },
    "files": {
        "reading a file of the host": refused(lambda: open(witness)),
        "writing to it": refused(lambda: open(witness, "a")),
        "listing /proc": refused(lambda: os.listdir("/proc")),
        "opening /etc/passwd": refused(lambda: os.open("/etc/passwd", os.O_RDONLY)),
    },
    "processes": {"a fork": refused(os.fork), "a signal to the host": refused(lambda: os.kill(parent, 0))},
}
open("scratch", "w").close()
"""


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What the sandbox isolates on this machine.

    Without all of ``network``, ``files`` and ``processes`` the sandbox refuses untrusted code. ``way`` is the method:
    ``"namespaces"``, ``"landlock"`` or ``"limits"``. The last one isolates nothing: it limits resources and ends all
    processes of the code. ``text`` describes the result for people.
    """

    network: bool
    files: bool
    processes: bool
    way: Way
    text: str

    @property
    def complete(self) -> bool:
        """Whether network, files and processes are all isolated."""
        return self.network and self.files and self.processes


@functools.cache
def probe() -> Guarantees:
    """Return the guarantees, tried out once per process (0.1 to 0.3 s). Blocks: call it from a worker thread."""
    failures: list[str] = []
    for way in _HOW:
        tried, reason = _attempt(way)
        isolated = {name: bool(tried) and all(tried[name].values()) for name in _WALLS}
        if all(isolated.values()):
            break
        allowed = [what for actions in tried.values() for what, refused in actions.items() if not refused]
        failures.append(f"{way} not possible here: {reason or 'it let through: ' + ', '.join(allowed)}")
    lines = []
    for name in _WALLS:
        actions = tried.get(name, {})
        through = ", ".join(what for what, refused in actions.items() if not refused)
        found = f"tried and refused: {', '.join(what for what, refused in actions.items() if refused)}"
        if through:
            found = f"got through: {through}; {found}"
        elif not actions:
            found = "nothing could be tried"
        lines.append(f"{name}: {'isolated' if actions and not through else 'NOT isolated'} ({found})")
    return Guarantees(**isolated, way=way, text="\n".join([*lines, f"by: {_HOW[way]}", *failures]))


_WALLS: Final = ("network", "files", "processes")
_HOW: Final[dict[Way, str]] = {
    "namespaces": "root, network and process table of its own (Linux namespaces), system calls filtered (seccomp)",
    "landlock": "files shut off (Landlock), sockets, new processes and signals refused (seccomp)",
    "limits": "limits on resources, and the ending of all its processes",
}


def _attempt(way: Way) -> tuple[dict[str, dict[str, bool]], str]:
    """Run code that tries to get out. Return what was refused, or the reason why this way does not work at all."""
    if sys.platform == "win32":
        return {}, "the sandbox needs a POSIX system"
    with tempfile.TemporaryDirectory() as other:
        witness = Path(other, "witness")
        witness.touch()
        for path, mode in ((Path(other), 0o777), (witness, 0o666)):  # only the sandbox may refuse access
            path.chmod(mode)
        named, abstract = Path(other, "listener"), f"jeeves-sandbox-{os.urandom(8).hex()}"
        inputs = {"witness": str(witness), "parent": os.getpid(), "listener": str(named), "name": abstract}
        try:
            with contextlib.ExitStack() as listeners:
                for address in (
                    str(named),
                    "\0" + abstract if sys.platform == "linux" else str(named) + "2",
                ):
                    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    listeners.enter_context(listener).bind(address)
                named.chmod(0o666)
                request = json.dumps({"code": _TRY, "inputs": inputs}).encode()
                with ThreadPoolExecutor(1) as thread:  # this thread may have an event loop
                    report = thread.submit(anyio.run, _tried, way, request).result()
            return cast("dict[str, dict[str, bool]]", judged(report, _LIMITS).value), ""
        except (OSError, ValueError, SandboxError) as error:
            return {}, str(error)[:500] or type(error).__name__


async def _tried(way: Way, request: bytes) -> Report:
    return await (await Jail.start(way, Runtime("python"), _LIMITS)).run(request)
