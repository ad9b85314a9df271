"""What code may use up, and what became of it: a value, or an error."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import dataclass
from typing import Literal, NoReturn, cast

from jeeves_reflexion.errors import CodeError, CodeLimitError, ConfigurationError, SandboxError
from jeeves_reflexion.sandbox.inside import messages
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import is_number

Language = Literal["python", "lua", "prolog"]
_LEAST = {"seconds": 0, "memory_mb": 64, "output_bytes": 1, "file_bytes": 0}


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one run of code may use up; the code is stopped at the first limit that it reaches.

    Parameters
    ----------
    seconds
        Time on the clock, from the moment the code starts (starting its process is not counted).
    memory_mb
        Address space in MiB, the interpreter (about 30) included.
    output_bytes
        What is printed (both streams together), and the value as JSON: each at most so many bytes.
    file_bytes
        Size of the scratch folder, and of any one file in it.

    Code can start no process, and 32 threads.
    """

    seconds: float = 5.0
    memory_mb: int = 256
    output_bytes: int = 1_000_000
    file_bytes: int = 16_000_000

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not is_number(value) or not least <= value < math.inf:
                raise ConfigurationError(f"SandboxLimits: {name} is {value!r}, but must be at least {least}")

    def resources(self) -> dict[str, float]:
        """Return the limits as the process that enforces them reads them."""
        return {
            "seconds": float(self.seconds),
            "cpu_seconds": math.ceil(self.seconds) + 1,  # should the clock's keeper be held up
            "memory_bytes": int(self.memory_mb) * 1024 * 1024,
            "output_bytes": int(self.output_bytes),
            "file_bytes": int(self.file_bytes),
        }


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of code came to.

    ``value`` is the result (``None`` when the code made none), ``stdout`` and ``stderr`` what it printed, ``seconds``
    how long the code itself ran.
    """

    value: JSON
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """What the supervisor says of a run: how the process ended, and what it wrote."""

    limit: str | None
    status: int | None
    seconds: float
    result: bytes
    stdout: bytes
    stderr: bytes


_SHOWN = 2_000
_TRACEBACK = 8_000
_UNITS = {
    "seconds": "{} s",
    "memory_mb": "{} MiB of memory",
    "output_bytes": "{} bytes of output",
    "file_bytes": "{} bytes of files",
}
_BY_SIGNAL = {"SIGXCPU": "seconds", "SIGXFSZ": "file_bytes"}


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
        outcome = messages.decode(report.result)
    except ValueError as error:
        raise CodeError(f"the code's result can't be read: {error}") from None
    if not isinstance(outcome, dict) or not outcome.keys() & {"value", "error"}:
        raise CodeError("the code's result can't be read: it is neither a value nor an error")
    if "error" in outcome:
        _raise_error(outcome["error"], limits)
    return cast("JSON", outcome["value"])


def over(limit: str, limits: SandboxLimits) -> CodeLimitError:
    """Return the error of a limit that was reached."""
    allowed = _UNITS[limit].format(getattr(limits, limit))
    return CodeLimitError(f"the code was stopped: it needs more than {allowed}", limit=limit)


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
        raise CodeError(f"the code's process was ended by {name} before it had a result", type=name)
    raise CodeError(
        f"the code ended its process (exit status {exited}) before it had a result", type="SystemExit"
    )
