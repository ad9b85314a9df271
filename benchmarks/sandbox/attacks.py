"""The attacks of ``attacks.toml``, each with the way it must end."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion.sandbox import SandboxLimits

_ROOMY: Final = SandboxLimits(seconds=20, memory_mb=128, output_bytes=100_000, file_bytes=2_000_000)
"""For code that ends by itself or at another limit than time; generous, because the machine may be busy."""
_LATE: Final = 0.4
"""The seconds of an attack that must end at the limit of time; they begin with its code, not with its process."""
_PROLOG_MEMORY_MB: Final = 256


@dataclass(frozen=True)
class Attack:
    """Code and the ways it may end: at a limit (by name), as ``error``, or as ``value``."""

    name: str
    code: str
    ends: tuple[str, ...]
    value: object
    limits: SandboxLimits
    language: Any


def _attack(row: Mapping[str, Any], parts: Mapping[str, str]) -> Attack:
    language, ends = row.get("language", "python"), tuple(row.get("ends", ("value",)))
    limits = replace(_ROOMY, **row.get("limits", {}))
    if "seconds" in ends:
        limits = replace(limits, seconds=_LATE)
    if language == "prolog":
        limits = replace(limits, memory_mb=_PROLOG_MEMORY_MB)
    code = parts.get(row.get("before", ""), "") + row["code"] + parts.get(row.get("after", ""), "")
    return Attack(row["name"], code, ends, row.get("value"), limits, language)


def _read() -> list[Attack]:
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [_attack(row, data["parts"]) for row in data["attack"]]


_ALL: Final = _read()
ATTACKS: Final = [attack for attack in _ALL if attack.language == "python"]
LUA: Final = [attack for attack in _ALL if attack.language == "lua"]
PROLOG: Final = [attack for attack in _ALL if attack.language == "prolog"]
