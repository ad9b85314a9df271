"""Worker processes that fill in templates and judge by schemas, both of which could run forever.

A template, a pattern, ``uniqueItems`` or a schema that refers to itself can take hours for a small input. A thread
could not be stopped, and a pattern holds the interpreter's lock while it matches. A worker process has a memory limit,
is killed if a question takes too long, and else is kept for the next question.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Final, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows import errors

MEMORY: Final = 512 * 1024 * 1024
MOST_REPLY: Final = 64 * 1024 * 1024
_MOST_IDLE: Final = 4
_SERVE: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from jeeves_reflexion.workflows.worker import serve; serve()"
)
_Process: TypeAlias = "subprocess.Popen[bytes]"
_idle: list[_Process] = []


class TooLongError(Exception):
    """The process was killed because a question took too long."""


def ask(seconds: float, function: str, *arguments: JSON) -> Any:  # noqa: ANN401 - any JSON
    """Call a function of this package, named as ``module.function``, in a worker process and return its JSON; blocks.

    Raises :class:`TooLongError` after ``seconds``, the workflow errors that the function raises, and
    :class:`WorkflowError` for any other failure.
    """
    try:
        line = json.dumps([seconds, function, *arguments]).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"a schema or a state is not JSON: {error}") from error
    if getattr(sys, "frozen", False):  # sys.executable is the program, which would be started a second time
        reply = _answer(function, *arguments)
    else:
        process = _taken()
        end = threading.Timer(seconds, process.kill)
        begun = time.monotonic()
        end.start()
        try:
            answer = _reply(process, line + b"\n")
        except BaseException:
            _end(process)
            raise
        finally:
            end.cancel()
        late = time.monotonic() - begun >= seconds  # the timer may have killed it just now
        whole = answer.endswith(b"\n")
        if whole and not late and len(_idle) < _MOST_IDLE:
            _idle.append(process)
        else:
            _end(process)
        if not whole and late:
            raise TooLongError
        if not whole:
            raise errors.WorkflowError(
                f"the process for templates and schemas ended with code {process.returncode}"
            )
        reply = json.loads(answer)
    if "raised" in reply:
        raise getattr(errors, reply["raised"])(reply["message"])
    return reply["found"]


def _taken() -> _Process:
    with contextlib.suppress(IndexError):  # no process is idle
        while (process := _idle.pop()).poll() is not None:
            process.communicate()
        return process
    path = [os.path.abspath(each) for each in sys.path]  # noqa: PTH100 - "" is the working folder
    try:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, and a text of ours
            [sys.executable, "-I", "-c", _SERVE, *path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C does not reach it
        )
    except OSError as error:
        raise errors.WorkflowError(f"the process for templates and schemas can't start: {error}") from error
    _reply(process)  # waits until it is ready, so that its start does not count as time of a question
    return process


def _reply(process: _Process, line: bytes = b"") -> bytes:
    """Send a line to a process and return its reply, which is not a whole line if the process ended."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - for the type checker
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline()
    return b""


def _end(process: _Process) -> None:
    process.kill()
    process.communicate()


@atexit.register
def _end_all() -> None:
    while _idle:
        _end(_idle.pop())


if hasattr(os, "register_at_fork"):  # the processes belong to the parent of a fork
    os.register_at_fork(after_in_child=_idle.clear)


# -- in the worker process


def serve() -> None:
    """Say that the process is ready, then answer questions, one line of JSON each, until the input ends."""
    for module in ("schemas", "templates"):
        importlib.import_module(f"jeeves_reflexion.workflows.{module}")
    answers, sys.stdout = sys.stdout, sys.stderr
    with contextlib.suppress(ImportError):  # POSIX only
        import resource  # noqa: PLC0415

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS has the limit but can't set it
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        seconds, *question = json.loads(line)
        _end_after(seconds + 1)
        reply = json.dumps(_answer(*question))
        if len(reply) > MOST_REPLY:
            reply = json.dumps(
                {"raised": "WorkflowError", "message": f"{question[0]}: the result is too large"}
            )
        _end_after(0)
        print(reply, file=answers, flush=True)


def _end_after(seconds: float) -> None:
    """Have the kernel end this process after so many seconds, in case the program that would is gone; 0 is never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(named: str, *arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    module, _, function = named.partition(".")
    try:
        work = getattr(importlib.import_module(f"jeeves_reflexion.workflows.{module}"), function)
        return {"found": work(*arguments)}
    except (ConfigurationError, errors.WorkflowError) as error:
        return {"raised": type(error).__name__, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - ask() raises it
        return {"raised": "WorkflowError", "message": f"{named} failed: {type(error).__name__}: {error}"}
