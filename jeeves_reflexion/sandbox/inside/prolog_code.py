"""Runs Prolog code with ``swipl``, under its ``library(sandbox)`` and in a process with our limits."""

from __future__ import annotations

import json
import os
import signal
import stat
from typing import Any, NoReturn

from . import kernel, messages, walls

_RESULT_FILE = "result.json"


def serve(config: dict[str, Any], result: int, request: int, status: int) -> NoReturn:
    """Start the process that becomes ``swipl``, give it the files of the request, and pass on its result."""
    go_read, go_write = os.pipe()
    own = os.getpid()
    child = os.fork()
    if not child:
        os.close(go_write)
        _become_swipl(config, own, go_read, (result, request, status))
    os.close(go_read)
    # this process reads files that the code left, so it gets the same restrictions
    walls.shut_in(config, programs=False)
    os.write(go_write, b"1")
    os.close(status)
    asked = messages.receive_request(result, request)
    try:
        _write("harness.pl", config["harness"])
        _write("code.pl", asked["code"])
        _write("inputs.json", json.dumps(asked["inputs"]))
    except OSError as error:
        _fail(result, kind="file_bytes", message=f"no room for the code and its inputs: {error}")
    os.write(go_write, b"go")
    os.close(go_write)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        number = os.WTERMSIG(ended)
        signal.signal(number, signal.SIG_DFL) if number not in {signal.SIGKILL, signal.SIGSTOP} else None
        os._exit(128 + number)
    try:
        answer = _read(_RESULT_FILE, config["resources"]["output_bytes"] + 1)
    except FileNotFoundError:
        os._exit(os.WEXITSTATUS(ended))
    except OSError as error:
        _fail(result, kind="raised", type="OSError", message=f"the result can't be read: {error}")
    messages.send(result, answer)
    os._exit(0)


def _read(name: str, most: int) -> bytes:
    """Read a file that the code may have replaced: only if it is a regular file, and never through a link."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError(f"{name} is not a file")
    with open(file, "rb") as opened:  # noqa: PTH123
        return opened.read(most)


def _fail(result: int, **problem: object) -> NoReturn:
    messages.send(result, messages.failure(**problem))
    os._exit(0)


def _become_swipl(config: dict[str, Any], parent: int, go: int, others: tuple[int, int, int]) -> NoReturn:
    _, _, status = others
    try:
        kernel.end_with(parent)
        if not os.read(go, 1):
            os._exit(1)  # our parent could not be isolated, and reports it
        walls.shut_in(config, programs=True)
    except BaseException as error:  # noqa: BLE001  the host raises it
        messages.tell_problem(status, error)
        os._exit(1)
    messages.tell(status, {"ready": True})
    for descriptor in others:
        os.close(descriptor)
    if not os.read(go, 2):
        os._exit(1)
    os.close(go)
    stack = max(16, config["resources"]["memory_bytes"] // (2 * 1024 * 1024))
    program = config["program"]
    quiet = ["-q", "-f", "none", "-F", "none", "--no-tty", "--no-debug", f"--stack-limit={stack}m"]
    arguments = [program, *quiet, "-g", "main", "-t", "halt(1)", "harness.pl"]
    try:
        os.execve(program, arguments, dict(os.environ))  # noqa: S606
    except OSError as error:
        message = f"swipl did not start: {error}"
        _write(_RESULT_FILE, messages.failure(kind="raised", type="OSError", message=message).decode())
        os._exit(1)


def _write(name: str, text: str) -> None:
    with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
