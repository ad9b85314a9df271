"""The sides take turns in one run, so that what else the machine does meets all of them alike."""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import anyio.to_thread

from jeeves_reflexion.errors import SandboxUnavailableError
from jeeves_reflexion.sandbox import Language, Sandbox, probe
from jeeves_reflexion.types import JSON

BARE = "bare subprocess"
_PAUSE = 0.3
"""Seconds in which the interpreters that wait get ready again; not measured."""

_EVALUATOR = """
import json
data = json.loads(output)
score = (bool(data.get("name")) + ("@" in data.get("email", ""))) / 2
result = {"valid": score >= 1.0, "score": score}
"""
_OUTPUT = '{"name": "Ada", "email": "ada@example.com"}'
_LUA = "return {valid = output:find('@') ~= nil, score = 1.0}"
_PROLOG = 'evaluate(Output, _, _{valid: true, score: 1.0}) :- sub_string(Output, _, _, _, "@").'

_Once = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Side:
    """One way to run an evaluator once: the seconds that each run took."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Measurement:
    """All sides, the bare process first, and what they ran on."""

    machine: str
    way: str
    sides: tuple[Side, ...]

    def as_json(self) -> dict[str, JSON]:
        """Return everything that was measured."""
        bare = self.sides[0].median
        return {
            "machine": self.machine,
            "isolation": self.way,
            "sides": [
                {
                    "name": side.name,
                    "seconds": list(side.seconds),
                    "median": side.median,
                    "ratio": side.median / bare,
                }
                for side in self.sides
            ],
        }


async def measure(repetitions: int) -> Measurement:
    """Run every side ``repetitions`` times, taking turns. Raises when this machine can't isolate code."""
    guarantees = await anyio.to_thread.run_sync(probe)
    async with Sandbox() as cold, Sandbox(warm=1) as warm:
        sides: dict[str, _Once] = {
            BARE: _bare,
            "sandbox, cold": _evaluation(cold, "python", _EVALUATOR),
            "sandbox, warm": _evaluation(warm, "python", _EVALUATOR),
        }
        others: tuple[tuple[Language, str], ...] = (("lua", _LUA), ("prolog", _PROLOG))
        for language, code in others:
            once = _evaluation(cold, language, code)
            try:
                await once()
            except SandboxUnavailableError:
                continue
            sides[f"sandbox, cold, {language.title()}"] = once
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for once in sides.values():
            await once()
        for _ in range(repetitions):
            for name, once in sides.items():
                await anyio.sleep(_PAUSE if "warm" in name else 0)
                begun = time.perf_counter()
                await once()
                seconds[name].append(time.perf_counter() - begun)
    machine = f"Python {platform.python_version()}, {platform.machine()}, Linux {platform.release()}"
    return Measurement(
        machine, guarantees.way, tuple(Side(name, tuple(taken)) for name, taken in seconds.items())
    )


def _evaluation(sandbox: Sandbox, language: Language, code: str) -> _Once:
    async def once() -> None:
        ran = await sandbox.run(code, language=language, inputs={"output": _OUTPUT})
        if ran.value != {"valid": True, "score": 1.0}:
            raise AssertionError(f"{language}: {ran.value!r}")

    return once


async def _bare() -> None:
    code = f"output = {_OUTPUT!r}{_EVALUATOR}print(json.dumps(result))"
    await anyio.to_thread.run_sync(_bare_now, code)


def _bare_now(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # noqa: S603
    if b'"valid": true' not in done.stdout:
        raise AssertionError(done.stdout)
