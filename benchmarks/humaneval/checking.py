"""Running a problem's own tests on programs, in the sandbox."""

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
"""Time for one of the own tests."""

_MOST_SECONDS = 60.0
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: whether it passed, and where not, what the function gave instead."""

    test: OwnTest
    passed: bool
    got: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a problem's own tests say of a program; ``problem`` is set where it can't be loaded at all."""

    outcomes: tuple[Outcome, ...] = ()
    problem: str = ""

    @property
    def tested(self) -> bool:
        """Whether anything was found out: that a program can't be loaded needs no test."""
        return bool(self.outcomes or self.problem)

    @property
    def passed(self) -> bool:
        """Whether it can be loaded and every test passed (also where there is none)."""
        return not self.problem and all(each.passed for each in self.outcomes)

    @property
    def share(self) -> float:
        """The share of tests that passed."""
        n = len(self.outcomes)
        return 0.0 if self.problem or not n else sum(each.passed for each in self.outcomes) / n

    @property
    def failed(self) -> tuple[str, ...]:
        """The tests that failed, each with what came instead, in the words of the paper's feedback."""
        if self.problem:
            return (f"the code can't be run: {self.problem}",)
        return tuple(f"{each.test.source} # output: {each.got}" for each in self.outcomes if not each.passed)

    def feedback(self) -> str:
        """Return what the agent and the reflector read: which tests passed, which failed, and the value got."""
        passed = "\n".join(each.test.source for each in self.outcomes if each.passed) or "(none)"
        return f"Tests passed:\n{passed}\n\nTests failed:\n" + ("\n".join(self.failed) or "(none)")


class OwnTestRunner:
    """Runs own tests: ``seconds`` for each test; ``concurrency`` runs at once."""

    def __init__(self, *, seconds: float = SECONDS, concurrency: int | None = None) -> None:
        self._seconds = seconds
        self._sandbox = Sandbox(SandboxLimits(memory_mb=MEMORY_MB), concurrency=concurrency)

    async def check(self, program: str, entry_point: str, tests: Sequence[OwnTest]) -> Checked:
        """Run the tests on a program. Raises :class:`SandboxError` where code could not be run at all."""
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
        said = zip(tests, found["outcomes"], strict=not found["problem"])
        return Checked(
            tuple(Outcome(test, each["passed"], each["got"]) for test, each in said), found["problem"]
        )
