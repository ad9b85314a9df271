"""The process in which the code runs: it shuts itself in, says that it is ready, and takes one request."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

from . import kernel, lua_code, messages, prolog_code, python_code, walls

RESULT, REQUEST, STATUS = 3, 4, 5
"""Where the code's process finds its pipes, after the three standard ones; a channel follows."""


def work(config: dict[str, Any], ends: list[int], guard: int) -> NoReturn:
    """Be the code's process, a child of ``guard``. Never returns."""
    try:
        os.setpgid(0, 0)
        kernel.end_with(guard)
        _settle(ends)
        _furnish(config)
        if config["language"] == "prolog":
            prolog_code.serve(config, RESULT, REQUEST, STATUS)
        walls.shut_in(config, programs=False)
        if config["language"] == "lua":
            lua_code.prepare(config["program"])
    except BaseException as error:  # noqa: BLE001  told to the host, which raises it
        messages.tell_problem(STATUS, error)
        os._exit(1)
    messages.tell(STATUS, {"ready": True})
    os.close(STATUS)
    request = messages.receive_request(RESULT, REQUEST)
    os.close(REQUEST)
    run = lua_code.run if config["language"] == "lua" else python_code.run
    run(request, RESULT)


def _settle(ends: list[int]) -> None:
    """Have the pipes at fixed places and nothing else open."""
    above = [os.dup(end) for end in ends]
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
    scratch = walls.SCRATCH if config["way"] == "namespaces" else config["scratch"]
    os.chdir(scratch)
    os.environ.clear()
    os.environ.update(HOME=scratch, TMPDIR=scratch, LANG="C.UTF-8")
    sys.argv = [""]
    sys.dont_write_bytecode = True
