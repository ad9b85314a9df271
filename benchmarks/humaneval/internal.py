"""How often a docstring has examples, and how well they foretell the hidden tests' verdict: no model is needed.

On the logged solutions, and on programs with one seeded change of those that are right: a log may hold few wrong
programs, or only empty ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import anyio

from benchmarks.humaneval.checking import Checked, OwnTestRunner
from benchmarks.humaneval.figures import Confusion, Pair, share
from benchmarks.humaneval.mutations import mutants
from benchmarks.humaneval.own_tests import OwnTest, docstring_tests
from benchmarks.humaneval.problems import Problem, Sample
from benchmarks.humaneval.programs import program_of
from benchmarks.humaneval.scoring import HiddenTests, Scored, first_of, score
from jeeves_reflexion.statistics import Share

Kind = Literal["doctest", "any"]

KINDS: Final[Mapping[Kind, str]] = {
    "doctest": "`>>>` examples alone",
    "any": "`>>>` and calls written before a value",
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many problems have tests in their docstring, and how many tests that is."""

    problems: Share
    tests: int


@dataclass(slots=True)
class Internal:
    """What was found, by kind of example. ``changed`` are the programs with a seeded change."""

    coverage: dict[Kind, Coverage]
    logged: list[Scored]
    empty: int
    pairs: dict[tuple[Kind, str], list[Pair]] = field(default_factory=dict)
    broken_promises: list[tuple[str, str]] = field(default_factory=list)

    def confusion(self, kind: Kind, what: str) -> Confusion:
        """Return the counts for ``"logged"`` or ``"changed"``."""
        return Confusion.of(self.pairs.get((kind, what), []))


async def measure(
    problems: Sequence[Problem],
    samples: Sequence[Sample],
    hidden: HiddenTests,
    runner: OwnTestRunner,
    *,
    changes: int = 3,
    workers: int = 4,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Internal:
    """Score the logged solutions, and ``changes`` seeded ones of each that is right, by both kinds of tests."""
    logged = await score(problems, samples, hidden, workers=workers)
    known = {problem.id: problem for problem in problems}
    found = Internal(
        {kind: _coverage(problems, kind) for kind in KINDS},
        logged,
        sum(not one.sample.solution.strip() for one in logged),
    )
    rows: dict[int, list[tuple[Kind, str, Pair]]] = {}
    limiter = anyio.CapacityLimiter(workers)

    async def one(number: int, scored: Scored) -> None:
        async with limiter:
            judging = _Judging(known[scored.sample.task_id], hidden, runner)
            rows[number] = await judging.rows(scored, changes)
            if scored.verdict.passed:
                found.broken_promises += [(judging.problem.id, said) for said in judging.refused]
        progress(len(rows), len(logged))

    try:
        async with anyio.create_task_group() as group:
            for number, scored in enumerate(logged):
                group.start_soon(one, number, scored)
    except ExceptionGroup as errors:
        raise first_of(errors) from errors
    for _, listed in sorted(rows.items()):
        for kind, what, pair in listed:
            found.pairs.setdefault((kind, what), []).append(pair)
    found.broken_promises.sort()
    return found


class _Judging:
    """One problem's programs, before both kinds of tests."""

    def __init__(self, problem: Problem, hidden: HiddenTests, runner: OwnTestRunner) -> None:
        self.problem = problem
        self.refused: tuple[str, ...] = ()
        self._hidden = hidden
        self._runner = runner
        self._tests = docstring_tests(problem.prompt, problem.entry_point)

    async def rows(self, scored: Scored, changes: int) -> list[tuple[Kind, str, Pair]]:
        problem = self.problem
        program = program_of(problem.prompt, problem.entry_point, scored.sample.solution)
        drawn: list[str] = []
        if scored.verdict.passed:
            all_changes = [one.source for one in mutants(program, problem.entry_point)]
            drawn = random.Random(f"changes:{problem.id}").sample(all_changes, min(changes, len(all_changes)))
        checked = await self._runner.check_all([program, *drawn], problem.entry_point, self._tests)
        self.refused = checked[0].failed
        verdicts = [scored.verdict, *[await self._hidden.verdict(problem, one) for one in drawn]]
        listed: list[tuple[Kind, str, Pair]] = []
        for at, (one, verdict) in enumerate(zip(checked, verdicts, strict=True)):
            what = "changed" if at else "logged"
            listed += [(kind, what, Pair(_own(one, self._tests, kind), verdict.passed)) for kind in KINDS]
        return listed


def _own(checked: Checked, tests: Sequence[OwnTest], kind: Kind) -> bool | None:
    """What the tests of a kind say; nothing where the docstring has none, also of a program that can't be loaded."""
    if not any(kind in {"any", test.origin} for test in tests):
        return None
    if checked.problem:
        return False
    return all(each.passed for each in checked.outcomes if kind in {"any", each.test.origin})


def _coverage(problems: Sequence[Problem], kind: Kind) -> Coverage:
    counts = [
        len(docstring_tests(problem.prompt, problem.entry_point, examples=kind == "any"))
        for problem in problems
    ]
    covered = share(sum(map(bool, counts)), len(counts))
    assert covered is not None  # noqa: S101 - there is no list of no problem
    return Coverage(covered, sum(counts))
