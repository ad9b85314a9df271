"""The process in which the code runs: it shuts itself in, says that it is ready, and takes one request."""

from __future__ import annotations

import os
import resource
import signal
import sys

from . import frames, kernel, landlock, lua_code, namespaces, prolog_code, python_code, seccomp

TYPE_CHECKING = False  # the module typing is not loaded where the code runs unless it asks for it
if TYPE_CHECKING:
    from typing import Any, NoReturn

_THREADS = 32
_OPEN_FILES = 64
_STACK = 8 * 1024 * 1024
_RESULT, _REQUEST, _STATUS = 3, 4, 5


class Ends:
    """The ends of the pipes between the supervisor and the code's process, on one of the sides."""

    def __init__(
        self, *, stdin: int, streams: tuple[int, int], result: int, request: int, status: int
    ) -> None:
        self.stdin = stdin
        self.stdout, self.stderr = streams
        self.result = result
        self.request = request
        self.status = status
        self.channel: list[int] = []

    def every(self) -> tuple[int, ...]:
        """Return all of them, in the order of their places."""
        pipes = (self.stdin, self.stdout, self.stderr, self.result, self.request, self.status)
        return (*pipes, *self.channel)


def work(config: dict[str, Any], ends: Ends, guard: int) -> NoReturn:
    """Be the code's process, a child of ``guard``. Never returns."""
    try:
        os.setpgid(0, 0)
        kernel.end_with(guard)
        _settle(ends)
        _furnish(config)
        if config["language"] == "prolog":
            prolog_code.serve(config, shut_in, _RESULT, _REQUEST, _STATUS)
        shut_in(config, programs=False)
        run = lua_code.run if config["language"] == "lua" else python_code.run
        if config["language"] == "lua":
            lua_code.prepare(config["program"])
        elif config["warm"]:
            python_code.prepare()
    except BaseException as error:  # noqa: BLE001  told to the host, which raises it
        frames.tell(_STATUS, {"problem": str(error) or type(error).__name__})
        os._exit(1)
    frames.tell(_STATUS, {"ready": True})
    os.close(_STATUS)
    try:
        request = frames.receive_json(_REQUEST)
    except MemoryError:
        frames.send(
            _RESULT, b'{"error": {"kind": "memory_mb", "message": "no memory left to read the inputs"}}'
        )
        os._exit(1)
    os.close(_REQUEST)
    if request is None:
        os._exit(0)
    run(request, _RESULT)


def shut_in(config: dict[str, Any], *, programs: bool) -> None:
    """Give up everything that the code shall not have. Raises when one of it can't be given up."""
    limits = config["resources"]
    os.umask(0o077)
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    _limit_resources(config, limits)
    if config["way"] == "landlock":
        landlock.restrict(config["read"], [config["scratch"], "/dev/null"])
    if config["way"] != "limits" or seccomp.available():
        walled = config["way"] == "namespaces"
        seccomp.install(
            children=limits["processes"] > 1,
            programs=programs,
            own_pid=None if walled else os.getpid(),
            root_of_its_own=walled,
        )


def _settle(ends: Ends) -> None:
    """Have the pipes at fixed places and nothing else open."""
    above = [os.dup(end) for end in ends.every()]
    free = len(above)
    # all copies above the places first, so that no place is overwritten while it is still needed
    while min(above) < free:
        above = [end if end >= free else os.dup(end) for end in above]
    for place, end in enumerate(above):
        os.dup2(end, place)
    os.closerange(free, 1024)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def _furnish(config: dict[str, Any]) -> None:
    scratch = namespaces.SCRATCH if config["way"] == "namespaces" else config["scratch"]
    os.chdir(scratch)
    os.environ.clear()
    os.environ.update(HOME=scratch, TMPDIR=scratch, LANG="C.UTF-8")
    sys.argv = [""]
    sys.dont_write_bytecode = True


def _limit_resources(config: dict[str, Any], limits: dict[str, Any]) -> None:
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
    if config["counted"] is not None:
        most = limits["processes"] if limits["processes"] > 1 else _THREADS
        wanted["RLIMIT_NPROC"] = (most + config["counted"],) * 2
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
                raise  # elsewhere some are known and not settable
