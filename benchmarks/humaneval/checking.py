"""Runs a problem's own tests on programs, in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jeeves_reflexion.errors import CodeError, CodeLimitError
from jeeves_reflexion.sandbox import Sandbox, SandboxLimits
from jeeves_reflexion.types import JSON

from . import harness
from .own_tests import OwnTest
from .scoring import MEMORY_MB

SECONDS: Final = 1.0
"""Time for one own test."""

_MOST_SECONDS = 60.0
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a test passed; if not, what the function gave instead."""

    test: OwnTest
    passed: bool
    got: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcomes of own tests on a program; ``problem`` says why the program can't be loaded, if so."""

    outcomes: tuple[Outcome, ...] = ()
    problem: str = ""

    @property
    def tested(self) -> bool:
        """Whether there is a verdict: a program that can't be loaded fails without any test."""
        return bool(self.outcomes or self.problem)

    @property
    def passed(self) -> bool:
        """Whether the program can be loaded and every test passed; true without tests."""
        return not self.problem and all(each.passed for each in self.outcomes)

    @property
    def share(self) -> float:
        """The share of tests that passed."""
        n = len(self.outcomes)
        return 0.0 if self.problem or not n else sum(each.passed for each in self.outcomes) / n

    @property
    def failed(self) -> tuple[str, ...]:
        """The tests that failed, each with the value that came instead, in the form of the paper's feedback."""
        if self.problem:
            return (f"the code can't be run: {self.problem}",)
        return tuple(f"{each.test.source} # output: {each.got}" for each in self.outcomes if not each.passed)

    def feedback(self) -> str:
        """Return the feedback for agent and reflector: tests that passed, and tests that failed with their values."""
        passed = "\n".join(each.test.source for each in self.outcomes if each.passed) or "(none)"
        return f"Tests passed:\n{passed}\n\nTests failed:\n" + ("\n".join(self.failed) or "(none)")


class OwnTestRunner:
    """Runs own tests, with ``seconds`` for each test and at most ``concurrency`` runs at a time."""

    def __init__(self, *, seconds: float = SECONDS, concurrency: int | None = None) -> None:
        self._seconds = seconds
        self._sandbox = Sandbox(SandboxLimits(memory_mb=MEMORY_MB), concurrency=concurrency)

    async def check(self, program: str, entry_point: str, tests: Sequence[OwnTest]) -> Checked:
        """Run the tests on a program. Raises :class:`SandboxError` if no code can be run."""
        inputs: dict[str, JSON] = {
            "tests": [{"source": test.source, "actual": test.actual} for test in tests],
            "entry_point": entry_point,
            "seconds": self._seconds,
            "room": _SHOWN,
        }
        plain = program.encode("utf-8", "replace").decode()
        seconds = min(self._seconds * (2 * len(tests) + 1) + 1, _MOST_SECONDS)
        try:
            ran = await self._sandbox.run_pair(
                harness.source("result = judge_own(tests, entry_point, seconds, room)"),
                harness.source("Candidate(program, seconds).serve()"),
                inputs=inputs,
                other_inputs={"program": plain, "seconds": self._seconds},
                limits=SandboxLimits(seconds=seconds, memory_mb=MEMORY_MB),
            )
        except (CodeError, CodeLimitError) as error:
            return Checked(problem=str(error))
        found = cast("dict[str, Any]", ran.value)
        pairs = zip(tests, found["outcomes"], strict=not found["problem"])
        outcomes = tuple(Outcome(test, each["passed"], each["got"]) for test, each in pairs)
        return Checked(outcomes, found["problem"])
