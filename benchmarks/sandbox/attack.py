"""What an attack is."""

from dataclasses import dataclass, replace
from typing import Any

from jeeves_reflexion.sandbox import SandboxLimits

ROOMY = SandboxLimits(seconds=20, memory_mb=128, output_bytes=100_000, file_bytes=2_000_000)
"""For code that ends by itself, or at another limit than time, on a busy machine too."""
MANY = replace(ROOMY, processes=8)
SMALL = replace(ROOMY, memory_mb=64)


@dataclass(frozen=True)
class Attack:
    """Code, and what must become of it: the limits it may end at, ``error``, or a value."""

    name: str
    code: str
    ends: tuple[str, ...] = ("value",)
    value: object = None
    limits: SandboxLimits = ROOMY
    seconds: float = 0.7
    language: Any = "python"
    namespaces_only: bool = False

    def __post_init__(self) -> None:
        if "seconds" in self.ends:
            object.__setattr__(self, "limits", replace(self.limits, seconds=self.seconds))
