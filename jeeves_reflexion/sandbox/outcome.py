"""From the report on a process to a value or an error."""

from __future__ import annotations

import os
import signal
from typing import NoReturn, cast

from jeeves_reflexion.errors import CodeError, CodeLimitError, SandboxError
from jeeves_reflexion.sandbox.inside import values
from jeeves_reflexion.sandbox.launch import Report
from jeeves_reflexion.sandbox.limits import Ran, SandboxLimits
from jeeves_reflexion.types import JSON

_SHOWN = 2_000
_TRACEBACK = 8_000
_UNITS = {
    "seconds": "{} s",
    "cpu_seconds": "{} s of processor time",
    "memory_mb": "{} MiB of memory",
    "output_bytes": "{} bytes of output",
    "processes": "the processes or threads that it may start ({})",
    "file_bytes": "{} bytes of files",
}
_BY_SIGNAL = {"SIGXCPU": "cpu_seconds", "SIGXFSZ": "file_bytes"}


def judged(report: Report, limits: SandboxLimits) -> Ran:
    """Return what the code made, or raise what became of it."""
    stdout, stderr = (part.decode(errors="replace") for part in (report.stdout, report.stderr))
    try:
        value = _value(report, limits)
    except (CodeError, CodeLimitError) as error:
        error.stdout, error.stderr = stdout, stderr
        raise
    return Ran(value=value, stdout=stdout, stderr=stderr, seconds=report.seconds)


def _value(report: Report, limits: SandboxLimits) -> JSON:
    if report.limit is not None:
        raise over(report.limit, limits)
    if not report.result:
        _raise_end(report, limits)
    try:
        outcome = values.decode(report.result)
    except ValueError as error:
        raise CodeError(f"the code wrote over its result, which can't be read: {error}") from None
    if not isinstance(outcome, dict) or not outcome.keys() & {"value", "error"}:
        raise CodeError(
            "the code wrote over its result, which can't be read: it is neither a value nor an error"
        )
    if "error" in outcome:
        _raise_error(outcome["error"], limits)
    return cast("JSON", outcome["value"])


def over(limit: str, limits: SandboxLimits) -> CodeLimitError:
    """Return the error of a limit that was reached."""
    allowed = getattr(limits, limit)
    if limit == "cpu_seconds":
        allowed = limits.resources()["cpu_seconds"]
    return CodeLimitError(
        f"the code was stopped: it needs more than {_UNITS[limit].format(allowed)}", limit=limit
    )


def _raise_error(told: object, limits: SandboxLimits) -> NoReturn:
    told = told if isinstance(told, dict) else {"message": str(told)}
    kind, name, line = str(told.get("kind")), str(told.get("type", ""))[:200], told.get("line")
    message = str(told.get("message", ""))[:_SHOWN]
    if kind in _UNITS:
        raise over(kind, limits)
    line = line if isinstance(line, int) and not isinstance(line, bool) else None
    at = "" if line is None else f" (line {line} of the code)"
    said = message.rstrip() if kind == "value" else f"{name}: {message.rstrip()}".rstrip(": ")
    trace = str(told.get("traceback", ""))[-_TRACEBACK:]
    raise CodeError(f"the code failed{at}: {said}", type=name, line=line, traceback=trace)


def _raise_end(report: Report, limits: SandboxLimits) -> NoReturn:
    """Say how a process ended that left no result."""
    if report.status is None:
        raise SandboxError("the code's process ended, and nobody saw how")
    number = os.WTERMSIG(report.status) if os.WIFSIGNALED(report.status) else 0
    exited = 0 if number else os.WEXITSTATUS(report.status)
    if exited > 128:  # how a shell, and swipl's parent, tell of a signal
        number = exited - 128
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if name in _BY_SIGNAL:
            raise over(_BY_SIGNAL[name], limits)
        if name == "SIGKILL" and report.cpu >= limits.resources()["cpu_seconds"]:
            raise over("cpu_seconds", limits)
        raise CodeError(f"the code's process was ended by {name} before it had a result", type=name)
    raise CodeError(
        f"the code ended its process (exit status {exited}) before it had a result", type="SystemExit"
    )
