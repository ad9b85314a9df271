"""Judges by schema in a process of its own, which ends when a judgement takes too long.

A pattern, ``uniqueItems`` or a schema that refers to itself can take hours over a small output. No thread could be
stopped there, and a pattern holds the interpreter while it matches. The process is kept for the next judgement.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.errors import SchemaFolderError, WorkflowError
from jeeves_reflexion.workflows.references import check_schema
from jeeves_reflexion.workflows.schemas import SchemaCheck
from jeeves_reflexion.workflows.verdicts import Problem, Verdict, refusal

MAX_SECONDS: Final = 5.0
"""The longest that a schema, or an output by a schema, is looked at."""

_MOST_IDLE: Final = 4
_SERVE: Final = (
    "import sys; sys.path[:] = sys.argv[1:]\n"
    "from jeeves_reflexion.workflows.schema_process import serve; serve()"
)
_ALARM: Final = hasattr(signal, "setitimer")
_TOO_LONG: Final = -signal.SIGALRM if _ALARM else 1
_Process: TypeAlias = "subprocess.Popen[bytes]"
_idle: list[_Process] = []


class _TooLongError(Exception):
    """The process ended itself in the middle of a question."""


def judge_by_schema(schema: JSON, base_folder: Path | None, output: JSON) -> Verdict:
    """Return the verdict of a :class:`SchemaCheck`, or a refusal after :data:`MAX_SECONDS`; blocks.

    Raises what :class:`SchemaCheck` raises, and :class:`WorkflowError` where no process can be had.
    """
    try:
        found = _asked("judge", schema, None if base_folder is None else str(base_folder), output)
    except _TooLongError:
        return refusal(
            f"judging it by the schema took longer than {MAX_SECONDS:g} s, and was stopped", output
        )
    problems = tuple(Problem(**each) for each in found.pop("errors"))
    return Verdict(**{**found, "errors": problems, "advice": tuple(found["advice"])})


def check_in_time(schema: JSON, name: str) -> None:
    """Raise :class:`ConfigurationError` for what is no schema, or takes longer than :data:`MAX_SECONDS`; blocks."""
    _checked(name, "check", schema, name)


def load_in_time(schema: JSON, base_folder: Path | None) -> None:
    """Raise what making a :class:`SchemaCheck` raises, or :class:`ConfigurationError` for too long a time; blocks."""
    _checked("the schema", "load", schema, None if base_folder is None else str(base_folder))


def _checked(name: str, *question: JSON) -> None:
    try:
        _asked(*question)
    except _TooLongError as error:
        raise ConfigurationError(
            f"{name} takes longer than {MAX_SECONDS:g} s to check: make it smaller"
        ) from error


# -- this side


def _asked(*question: JSON) -> dict[str, Any]:
    reply: Mapping[str, Any]
    if not sys.executable or getattr(sys, "frozen", False):
        # A frozen program is its own interpreter, and would be started a second time.
        reply = _answer(question)
    else:
        try:
            line = json.dumps([MAX_SECONDS, *question])
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"the schema is no JSON: {error}") from error
        reply = _exchanged(line.encode() + b"\n")
    if "failed" in reply:
        raise WorkflowError(f"judging by the schema failed: {reply['failed']}")
    if "refused" in reply:
        kind = SchemaFolderError if reply["folder"] else ConfigurationError
        raise kind(reply["refused"])
    return dict(reply["found"])


def _exchanged(line: bytes) -> Mapping[str, Any]:
    process = _taken()
    answer = b""
    try:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - for the type checker
        with contextlib.suppress(BrokenPipeError):  # it has ended; what for is told below
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
    except BaseException:
        _end(process, kill=True)
        raise
    if answer.endswith(b"\n"):
        if len(_idle) < _MOST_IDLE:
            _idle.append(process)
        else:
            _end(process, kill=True)
        return dict(json.loads(answer))
    _end(process)
    if process.returncode == _TOO_LONG:
        raise _TooLongError
    raise WorkflowError(f"the process that judges by schema ended with code {process.returncode}")


def _taken() -> _Process:
    while _idle:
        process = _idle.pop()
        if process.poll() is None:
            return process
        _end(process)
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
        raise WorkflowError(f"the process that judges by schema can't be started: {error}") from error
    if process.stdout is None or process.stdout.readline() != b"ready\n":
        _end(process, kill=True)
        raise WorkflowError("the process that judges by schema can't be started")
    return process


def _end(process: _Process, *, kill: bool = False) -> None:
    if kill:
        process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):  # what it did not read any more
                stream.close()
    process.wait()


@atexit.register
def _end_all() -> None:
    while _idle:
        _end(_idle.pop(), kill=True)


if hasattr(os, "register_at_fork"):  # what a fork shares with this process is this process's
    os.register_at_fork(after_in_child=_idle.clear)


# -- the other side


def serve() -> None:
    """Answer questions, one a line of JSON, until there are no more; end the process where one takes too long."""
    answers, sys.stdout = sys.stdout, sys.stderr
    if _ALARM:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        seconds, *question = json.loads(line)
        _end_after(seconds)
        reply = json.dumps(_answer(question))
        _end_after(0)
        answers.write(f"{reply}\n")
        answers.flush()


def _end_after(seconds: float) -> None:
    """Have this process end after some time, also where nobody waits for it any more; 0 for never."""
    # By the system: a thread of Python's would wait for the interpreter as long as a pattern matches.
    if _ALARM:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()


def _answer(question: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON has it
    what, schema, where, *output = question
    try:
        if what == "check":
            check_schema(schema, where)
            return {"found": {}}
        check = SchemaCheck(schema, where)
        return {"found": asdict(check(*output)) if what == "judge" else {}}
    except ConfigurationError as error:
        return {"refused": str(error), "folder": isinstance(error, SchemaFolderError)}
    except Exception as error:  # noqa: BLE001 - it is raised on the other side
        return {"failed": f"{type(error).__name__}: {error}"}
