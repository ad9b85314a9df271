"""A process beside this one for what could run away: filling in templates, and judging by schemas.

A template, a pattern, ``uniqueItems`` or a schema that refers to itself can take hours over a small input. No thread
could be stopped there, and a pattern holds the interpreter while it matches. The process is ended when a question takes
too long, has a bounded memory, and is kept for the next question.
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
    """The process was ended in the middle of a question."""


def ask(seconds: float, function: str, *arguments: JSON) -> Any:  # noqa: ANN401 - as JSON has it
    """Return what a function of this package, named as ``module.function``, makes of JSON, as JSON; blocks.

    Raises :class:`TooLongError` after ``seconds``, the errors of workflows that the function raises, and
    :class:`WorkflowError` for what else goes wrong.
    """
    try:
        line = json.dumps([seconds, function, *arguments]).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"a schema or a state is no JSON: {error}") from error
    # A frozen program is its own interpreter, and would be started a second time.
    frozen = getattr(sys, "frozen", False)
    reply = _answer(function, *arguments) if frozen else _exchanged(line + b"\n", seconds)
    if "raised" in reply:
        raise getattr(errors, reply["raised"])(reply["message"])
    return reply["found"]


def _exchanged(line: bytes, seconds: float) -> dict[str, Any]:
    process = _taken()
    end = threading.Timer(seconds, process.kill)
    begun = time.monotonic()
    end.start()
    try:
        answer = _said(process, line)
    except BaseException:
        _end(process)
        raise
    finally:
        end.cancel()
    late = time.monotonic() - begun >= seconds  # so that it may just have been killed
    if answer.endswith(b"\n"):
        _end(process) if late or len(_idle) >= _MOST_IDLE else _idle.append(process)
        return dict(json.loads(answer))
    _end(process)
    if late:
        raise TooLongError
    raise errors.WorkflowError(f"the process for templates and schemas ended with code {process.returncode}")


def _taken() -> _Process:
    with contextlib.suppress(IndexError):  # none is left
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
            start_new_session=True,  # Ctrl-C is for the program, not for this
        )
    except OSError as error:
        raise errors.WorkflowError(f"the process for templates and schemas can't start: {error}") from error
    _said(process)  # that it is ready: no question's time is spent on its start
    return process


def _said(process: _Process, line: bytes = b"") -> bytes:
    """Return what a process answers to a line; less than a line where it has ended."""
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


if hasattr(os, "register_at_fork"):  # what a fork shares with this process is this process's
    os.register_at_fork(after_in_child=_idle.clear)


# -- the other side


def serve() -> None:
    """Say that the process is ready, then answer questions, one a line of JSON, until there are no more."""
    for module in ("schemas", "templates"):
        importlib.import_module(f"jeeves_reflexion.workflows.{module}")
    answers, sys.stdout = sys.stdout, sys.stderr
    _bound_memory()
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
    """Have the kernel end this process, should the program be gone that does so otherwise; 0 is never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _bound_memory() -> None:
    try:
        import resource  # noqa: PLC0415 - POSIX alone has it
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    with contextlib.suppress(ValueError, OSError):  # macOS knows the limit and can't set it
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _answer(named: str, *arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    module, _, function = named.partition(".")
    try:
        work = getattr(importlib.import_module(f"jeeves_reflexion.workflows.{module}"), function)
        return {"found": work(*arguments)}
    except (ConfigurationError, errors.WorkflowError) as error:
        return {"raised": type(error).__name__, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - it is raised on the other side
        return {"raised": "WorkflowError", "message": f"{named} failed: {type(error).__name__}: {error}"}
