"""What code may use up, and what it leaves behind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON

Language = Literal["python", "lua", "prolog"]


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one run of code may use up; the code is stopped at the first limit that it reaches.

    Parameters
    ----------
    seconds
        Time on the clock, from the moment the code starts (starting its process is not counted).
    cpu_seconds
        Processor time of each process, in whole seconds (rounded up). By default one more than ``seconds``.
    memory_mb
        Address space of each process in MiB, the interpreter (about 30) included. With ``processes=1`` this is all
        the memory there is; with more, each has as much.
    output_bytes
        What is printed (both streams together), and the value as JSON: each at most so many bytes.
    processes
        How many processes there may be at once. One (the default) means that the code can start none; it may have
        32 threads then. With more, threads count as processes.
    file_bytes
        Size of the scratch folder, and of any one file in it.
    """

    seconds: float = 5.0
    cpu_seconds: float | None = None
    memory_mb: int = 256
    output_bytes: int = 1_000_000
    processes: int = 1
    file_bytes: int = 16_000_000

    def __post_init__(self) -> None:
        least = {
            "seconds": 0,
            "cpu_seconds": 0,
            "memory_mb": 64,
            "output_bytes": 1,
            "processes": 1,
            "file_bytes": 0,
        }
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is None and name == "cpu_seconds":
                continue
            if not isinstance(value, int | float) or not math.isfinite(value) or value < smallest:
                raise ConfigurationError(
                    f"SandboxLimits: {name} is {value!r}, but must be at least {smallest}"
                )

    def resources(self) -> dict[str, float]:
        """Return the limits as the process that enforces them reads them."""
        return {
            "seconds": float(self.seconds),
            "cpu_seconds": math.ceil(
                self.seconds + 1 if self.cpu_seconds is None else max(1, self.cpu_seconds)
            ),
            "memory_bytes": int(self.memory_mb) * 1024 * 1024,
            "output_bytes": int(self.output_bytes),
            "processes": int(self.processes),
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
