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
        """Run the tests on one program. Raises :class:`SandboxError` where code could not be run at all."""
        return (await self.check_all([program], entry_point, tests))[0]

    async def check_all(
        self, programs: Sequence[str], entry_point: str, tests: Sequence[OwnTest], *, first: bool = False
    ) -> list[Checked]:
        """Run the tests on several programs, which share one process; with ``first``, up to the first that passes.

        A program that can't be stopped within that process ends it: its neighbours are then run again in halves.
        """
        if not programs:
            return []
        each = self._seconds * (2 * len(tests) + 1) + 1
        limits = SandboxLimits(seconds=min(each * len(programs), _MOST_SECONDS), memory_mb=MEMORY_MB)
        inputs: dict[str, JSON] = {
            "tests": [{"source": test.source, "actual": test.actual} for test in tests],
            "programs": len(programs),
            "entry_point": entry_point,
            "seconds": self._seconds,
            "room": _SHOWN,
            "first": first,
        }
        try:
            ran = await self._sandbox.run_pair(
                harness.source(
                    "result = OwnJudge(tests, entry_point, seconds, room).check(programs, first=first)"
                ),
                harness.source("Candidate(programs, seconds).serve()"),
                inputs=inputs,
                other_inputs={
                    "programs": [_plain(program) for program in programs],
                    "seconds": self._seconds,
                },
                limits=limits,
            )
        except (CodeError, CodeLimitError) as error:
            if len(programs) == 1:
                return [Checked(problem=str(error))]
            half = len(programs) // 2
            found = await self.check_all(programs[:half], entry_point, tests, first=first)
            if first and any(one.passed for one in found):
                return found
            return found + await self.check_all(programs[half:], entry_point, tests, first=first)
        return _read(ran.value, tests)


def _plain(program: str) -> str:
    return program.encode("utf-8", "replace").decode()


def _read(value: JSON, tests: Sequence[OwnTest]) -> list[Checked]:
    """Read what the judge says."""
    items = cast("list[dict[str, Any]]", value)
    return [
        Checked(
            tuple(
                Outcome(test, each["passed"], each["got"])
                for test, each in zip(tests, item["outcomes"], strict=not item["problem"])
            ),
            item["problem"],
        )
        for item in items
    ]
