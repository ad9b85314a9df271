"""The supervisor: the process that the host starts. It starts, watches and ends the code's process, and reports, once.

The host sends the configuration and the request, and gets one report. When standard input ends, the host is gone (or
wants to stop), and the supervisor ends everything at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from . import guard, kernel, lua_code, messages, prolog_code, python_code, scratch, walls

_HOST_IN, _HOST_OUT = 0, 1
_RESULT, _REQUEST, _STATUS = 3, 4, 5
"""The descriptors of the code's process after the three standard ones; those of a channel follow."""
_FIRST_OWN_UID, _OWN_UIDS = 1_500_000_000, 500_000_000
_CLEANING_SECONDS = 5.0
_PART = 1 << 16


def main() -> None:
    """Serve one run of code."""
    configuration, request = messages.receive(_HOST_IN), messages.receive(_HOST_IN)
    if configuration is None or request is None:
        return
    try:
        _serve(json.loads(configuration), request)
    except OSError as error:
        messages.send(_HOST_OUT, messages.packed(json.dumps({"problem": str(error)}).encode()))


def _serve(config: dict[str, Any], request: bytes) -> None:
    if sys.platform == "linux":
        config["read"] += _library_folders()
    if config["way"] != "namespaces":
        # The lock ends with this process and the guard.
        config["scratch"], _lock = scratch.make(config["temporary"])
    pairs = {name: os.pipe() for name in ("stdout", "stderr", "result", "request", "status")}
    pairs["request"] = pairs["request"][::-1]  # this is the one pipe that we write to
    ours = {name: pair[0] for name, pair in pairs.items()}
    # in the order of the code's descriptors, from 0
    theirs = [os.open(os.devnull, os.O_RDWR), *(pair[1] for pair in pairs.values()), *config["channel"]]
    guarded, life = os.pipe()
    child = _start(config, theirs, guarded, [*ours.values(), life])
    for end in (*theirs, guarded):
        os.close(end)
    watch = _Watch(config["resources"], child, life, ours)
    try:
        report = watch.run(request)
        if report is not None:
            messages.send(_HOST_OUT, b"".join(map(messages.packed, report)))
    finally:
        watch.end()
        if config["way"] != "namespaces":
            guard.end_descendants()  # processes that we inherit if the guard was killed
            with contextlib.suppress(FileNotFoundError):  # the guard has removed it, if it had the right to
                scratch.remove(config["scratch"])


def _library_folders() -> list[str]:
    """Return the folders of the shared libraries that this interpreter has loaded: imports may load others there."""
    with open("/proc/self/maps", encoding="utf-8") as file:  # noqa: PTH123
        mapped = {line.split(maxsplit=5)[5].strip() for line in file if line.count(" ") > 4 and "/" in line}
    folders = {os.path.dirname(path) for path in mapped if ".so" in os.path.basename(path)}  # noqa: PTH119, PTH120
    return sorted({*folders, "/etc/ld.so.cache"})


# -- starting


def _start(config: dict[str, Any], ends: list[int], life: int, others: list[int]) -> int:
    """Fork the guard, which starts the code's process, outside of the host's namespaces."""
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        # Be the first to be killed when the machine runs out of memory: a courtesy, not a guarantee.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("1000")
    if config["way"] == "namespaces" and config["root"]:
        kernel.unshare(kernel.CLONE_NEWPID)
    elif config["way"] == "namespaces":
        uid, gid = f"{kernel.NOBODY} {os.geteuid()} 1", f"{kernel.NOBODY} {os.getegid()} 1"
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID)
        # gid_map can't be written before setgroups is denied
        for name, text in (("setgroups", "deny"), ("uid_map", uid), ("gid_map", gid)):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(text)
    child = os.fork()
    if not child:
        for end in others:
            os.close(end)
        _first_process(config, ends, life)
    return child


def _first_process(config: dict[str, Any], ends: list[int], life: int) -> NoReturn:
    """Prepare the environment, start the code's process and guard it; the first process of a process namespace."""
    status = ends[_STATUS]
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()  # a signal to the own process group would leave a process namespace
        _set_stage(config)
        if sys.platform == "linux":
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            # wakes us if we are stopped when the supervisor ends; a change of user would reset this
            kernel.prctl(kernel.PR_SET_PDEATHSIG, int(signal.SIGCONT))
            if config["way"] != "namespaces":
                # a change of user resets this too, and without it we could not see which files the code holds open
                kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        own = os.getpid()
        code = os.fork()
    except BaseException as error:  # noqa: BLE001  the host raises it
        messages.tell_problem(status, error)
        os._exit(1)
    if not code:
        try:
            _be_the_code(config, ends, own)
        finally:
            os._exit(1)  # this process must never continue as the guard
    for end in ends:
        if end != status:
            os.close(end)
    guard.watch(config, code, life, status)


def _set_stage(config: dict[str, Any]) -> None:
    walled, root = config["way"] == "namespaces", config["root"]
    owner = kernel.NOBODY
    if root:
        owner = _FIRST_OWN_UID + int.from_bytes(os.urandom(4), "big") % _OWN_UIDS
        if not kernel.knows_user(owner):
            owner = kernel.NOBODY
    if walled:
        walls.enter_root(config["read"], file_bytes=config["resources"]["file_bytes"], owner=owner)
    elif root:
        os.chown(config["scratch"], owner, owner)
    if root or walled:
        kernel.drop_bounding_set()
    if root:
        os.setgroups([])
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)
    if sys.platform == "linux":
        kernel.drop_capabilities()


# -- the code's process: it isolates itself, says that it is ready, and takes one request


def _be_the_code(config: dict[str, Any], ends: list[int], guard: int) -> NoReturn:
    """Run as the code's process, a child of ``guard``. Never returns."""
    try:
        os.setpgid(0, 0)
        kernel.end_with(guard)

        # Move the pipes to fixed descriptors and close all others; first copy all of them above the fixed ones, so that
        # none is overwritten while it is needed.
        above = [fcntl.fcntl(end, fcntl.F_DUPFD, len(ends)) for end in ends]
        for descriptor, end in enumerate(above):
            os.dup2(end, descriptor)
        os.closerange(len(ends), 1024)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

        folder = walls.SCRATCH if config["way"] == "namespaces" else config["scratch"]
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(HOME=folder, TMPDIR=folder, LANG="C.UTF-8")
        sys.argv = [""]
        sys.dont_write_bytecode = True

        if config["language"] == "prolog":
            prolog_code.serve(config, _RESULT, _REQUEST, _STATUS)
        walls.shut_in(config, programs=False)
        if config["language"] == "lua":
            lua_code.prepare(config["program"])
    except BaseException as error:  # noqa: BLE001  the host raises it
        messages.tell_problem(_STATUS, error)
        os._exit(1)
    messages.tell(_STATUS, {"ready": True})
    os.close(_STATUS)
    request = messages.receive_request(_RESULT, _REQUEST)
    os.close(_REQUEST)
    run = lua_code.run if config["language"] == "lua" else python_code.run
    run(request, _RESULT)


# -- watching


class _Watch:
    """Watches the code's processes: what they print, and when they end. It ends them by way of the guard."""

    def __init__(self, limits: dict[str, Any], guard: int, life: int, ends: dict[str, int]) -> None:
        self._limits = limits
        self._guard = guard
        self._life = life
        self._ends = ends
        self._read = {ends[name]: bytearray() for name in ("result", "stdout", "stderr")}
        self._watched = {*self._read, ends["status"], _HOST_IN}
        self._line = b""
        self._told: dict[str, Any] = {}
        self._limit: str | None = None

    def run(self, request: bytes) -> list[bytes] | None:
        """Send the request once the code's process is isolated, watch until the end, and return the report.

        Returns None if the host is gone.
        """
        self._listen({"ready", "problem", "ended"})
        if _HOST_IN not in self._watched:
            return None
        if "problem" in self._told or "ready" not in self._told:
            problem = self._told.get("problem", "the process of the code ended before it was ready")
            return [json.dumps({"problem": problem}).encode()]
        begun = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # the process has ended; its status is read below
            messages.send(self._ends["request"], messages.packed(request))
        os.close(self._ends["request"])
        self._listen({"full", "ended"}, begun + self._limits["seconds"])
        seconds = time.monotonic() - begun
        self.end()
        if _HOST_IN not in self._watched:
            return None
        for end in self._read:  # the rest, after all writers have ended
            while self._limit is None and select.select([end], [], [], 0)[0] and self._take(end):
                pass
        head = {"limit": self._limit, "status": self._told.get("ended"), "seconds": seconds}
        return [json.dumps(head).encode(), *map(bytes, self._read.values())]

    def end(self) -> None:
        """End all processes of the code and wait until they are gone."""
        if not self._guard:
            return
        os.close(self._life)
        status, until = self._ends["status"], time.monotonic() + _CLEANING_SECONDS
        while select.select([status], [], [], max(0, until - time.monotonic()))[0]:
            if not self._hear():
                break  # the guard was the last to hold the other end
        else:
            os.kill(self._guard, signal.SIGKILL)
        os.waitpid(self._guard, 0)
        self._guard = 0

    def _listen(self, words: set[str], deadline: float | None = None) -> None:
        """Read until a process sends one of these words, a limit or the deadline is reached, or the host is gone."""
        while not words & self._told.keys() and self._ends["status"] in self._watched:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                self._limit = "seconds"
                return
            for end in select.select(list(self._watched), [], [], left)[0]:
                if end == _HOST_IN:  # the host sends nothing more, so this is its end
                    self._watched.discard(end)
                    return
                going_on = self._hear() if end == self._ends["status"] else self._take(end)
                if not going_on:
                    self._watched.discard(end)
                if self._limit:
                    return
        if "full" in self._told:
            self._limit = "file_bytes"

    def _hear(self) -> bool:
        """Read messages of the guard and the code; return whether more may come."""
        part = os.read(self._ends["status"], _PART)
        *lines, self._line = (self._line + part).split(b"\n")
        for line in lines:
            self._told.update(json.loads(line))
        return bool(part)

    def _take(self, end: int) -> bool:
        """Read what the code wrote, and check the limit; return whether more may come."""
        part = os.read(end, _PART)
        self._read[end] += part
        result, out, error = map(len, self._read.values())
        if max(out + error, result) > self._limits["output_bytes"]:
            self._limit = "output_bytes"
        return bool(part)
