"""The limits of a run of code, and its outcome: a value, or an error."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import dataclass
from typing import Literal, NoReturn, cast

from jeeves_reflexion.errors import CodeError, CodeLimitError, ConfigurationError, SandboxError
from jeeves_reflexion.sandbox.inside import messages
from jeeves_reflexion.types import JSON
from jeeves_reflexion.values import is_number, plain_number

Language = Literal["python", "lua", "prolog"]
_LEAST = {"seconds": 0, "memory_mb": 64, "output_bytes": 1, "file_bytes": 0}


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one run of code, which is stopped at the first limit that it reaches.

    Parameters
    ----------
    seconds
        Wall-clock time from the start of the code; the start of its process does not count.
    memory_mb
        Address space in MiB, including the interpreter (about 30).
    output_bytes
        The most bytes of printed text (both streams together), and the most bytes of the value as JSON.
    file_bytes
        Size of the scratch folder, and of any one file in it.

    Code can start 32 threads, but no processes.
    """

    seconds: float = 5.0
    memory_mb: int = 256
    output_bytes: int = 1_000_000
    file_bytes: int = 16_000_000

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = plain_number(getattr(self, name))
            if not is_number(value) or not least <= value < math.inf:
                raise ConfigurationError(f"SandboxLimits: {name} must be at least {least}, not {value!r}")
            object.__setattr__(self, name, value)

    def resources(self) -> dict[str, float]:
        """Return the limits in the units of the process that enforces them."""
        return {
            "seconds": float(self.seconds),
            "cpu_seconds": math.ceil(self.seconds) + 1,  # in case the supervisor is held up
            "memory_bytes": int(self.memory_mb) * 1024 * 1024,
            "output_bytes": int(self.output_bytes),
            "file_bytes": int(self.file_bytes),
        }


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcome of a run of code.

    ``value`` is the result (None without one), ``stdout`` and ``stderr`` are what the code printed, and ``seconds`` is
    how long the code itself ran.
    """

    value: JSON
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The supervisor's report on a run: how the process ended, and what it wrote."""

    limit: str | None
    status: int | None
    seconds: float
    result: bytes
    stdout: bytes
    stderr: bytes


_MESSAGE = 2_000
_UNITS = {
    "seconds": "{} s",
    "memory_mb": "{} MiB of memory",
    "output_bytes": "{} bytes of output",
    "file_bytes": "{} bytes of files",
}
_BY_SIGNAL = {"SIGXCPU": "seconds", "SIGXFSZ": "file_bytes"}


def judged(report: Report, limits: SandboxLimits) -> Ran:
    """Return the outcome that a report describes, or raise its error."""
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
        raise CodeError("the code's result can't be read: it holds neither a value nor an error")
    if "error" in outcome:
        _raise_error(outcome["error"], limits)
    return cast("JSON", outcome["value"])


def over(limit: str, limits: SandboxLimits) -> CodeLimitError:
    """Return the error for a limit that was reached."""
    allowed = _UNITS[limit].format(getattr(limits, limit))
    return CodeLimitError(f"the code was stopped: it needs more than {allowed}", limit=limit)


def _raise_error(problem: object, limits: SandboxLimits) -> NoReturn:
    problem = problem if isinstance(problem, dict) else {"message": str(problem)}
    kind, name, line = str(problem.get("kind")), str(problem.get("type", ""))[:200], problem.get("line")
    message = str(problem.get("message", ""))[:_MESSAGE]
    if kind in _UNITS:
        raise over(kind, limits)
    line = line if isinstance(line, int) and not isinstance(line, bool) else None
    at = "" if line is None else f" (line {line} of the code)"
    reason = message.rstrip() if kind == "value" else f"{name}: {message.rstrip()}".rstrip(": ")
    raise CodeError(f"the code failed{at}: {reason}", type=name, line=line)


def _raise_end(report: Report, limits: SandboxLimits) -> NoReturn:
    """Raise the error for a process that ended without a result."""
    if report.status is None:
        raise SandboxError("the code's process ended, and its exit status is unknown")
    number = os.WTERMSIG(report.status) if os.WIFSIGNALED(report.status) else 0
    exited = 0 if number else os.WEXITSTATUS(report.status)
    if exited > 128:  # a shell, and the parent of swipl, report a signal this way
        number = exited - 128
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        if name in _BY_SIGNAL:
            raise over(_BY_SIGNAL[name], limits)
        raise CodeError(f"the code's process was ended by {name} before it had a result", type=name)
    raise CodeError(
        f"the code ended its process (exit status {exited}) before it had a result", type="SystemExit"
    )
