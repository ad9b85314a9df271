"""What a problem's own tests say of programs that are wrong (mutants) and of programs that are right.

The failures in the logs of the paper are empty programs, which any test refuses. A mutant is wrong and not empty: it is
one change away from the canonical solution, and the hidden tests refuse it in time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import anyio

from jeeves_reflexion.types import JSON

from ..report import Scores, level, percent, table
from .checking import OwnTestRunner
from .evaluator import OwnTestSource
from .experiment import task_of
from .mutants import Mutant, mutants
from .problems import Problem, Sample
from .programs import program_of
from .scoring import HiddenTests, first_of

CANONICAL: Final = "canonical solutions"
LOGGED: Final = "logged solutions"
MUTANTS: Final = "mutants"


@dataclass(frozen=True, slots=True)
class Judged:
    """A program with both verdicts; ``own`` is None where its problem has no test of its own."""

    problem: str
    group: str
    hidden: bool
    own: bool | None


@dataclass(slots=True)
class Found:
    """What was judged; ``drawn`` counts mutants by what the hidden tests said of them."""

    judged: list[Judged] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)

    def among(self, group: str, *, hidden: bool) -> list[Judged]:
        """Return the programs of a group (or of all that begin so) that are right, or wrong, by the hidden tests."""
        return [each for each in self.judged if each.group.startswith(group) and each.hidden is hidden]


@dataclass(frozen=True, slots=True)
class Judges:
    """The hidden tests, and a problem's own tests with what runs them."""

    hidden: HiddenTests
    tests: OwnTestSource
    runner: OwnTestRunner

    async def own(self, problem: Problem, program: str) -> bool | None:
        """Return the verdict of the problem's own tests, as the evaluator gives it."""
        tests = await self.tests(task_of(problem).public())
        checked = await self.runner.check(program, problem.entry_point, tests)
        return checked.passed if tests else None


async def judge(
    problems: Sequence[Problem],
    right: Mapping[str, Sequence[Sample]],
    judges: Judges,
    *,
    wrong: int,
    seed: int = 0,
    workers: int = 2,
) -> Found:
    """Judge programs: those in ``right`` by group, and ``wrong`` mutants of each problem's canonical solution.

    Mutants are drawn by seed, each operator in turn, until so many are refused by the hidden tests in time. One that
    runs out of time is left out: a busy machine would decide.
    """
    known, found = {problem.id: problem for problem in problems}, Found()
    limiter = anyio.CapacityLimiter(workers)

    async def one(group: str, sample: Sample) -> None:
        problem = known[sample.task_id]
        program = program_of(problem.prompt, problem.entry_point, sample.solution)
        async with limiter:
            passed = (await judges.hidden.verdict(problem, sample.solution)).passed
            if sample.solution.strip():
                own = await judges.own(problem, program)
                found.judged.append(Judged(problem.id, group, passed, own))
            if group == CANONICAL and passed:
                await _mutants(problem, program, judges, found, wrong=wrong, seed=seed)

    try:
        async with anyio.create_task_group() as tasks:
            for group, samples in right.items():
                for sample in samples:
                    if sample.task_id in known:
                        tasks.start_soon(one, group, sample)
    except ExceptionGroup as errors:
        raise first_of(errors) from errors
    return found


async def _mutants(
    problem: Problem, program: str, judges: Judges, found: Found, *, wrong: int, seed: int
) -> None:
    for mutant in in_turn(mutants(program), f"{seed}:{problem.id}"):
        if not wrong:
            return
        verdict = await judges.hidden.verdict(problem, mutant.source)
        found.drawn[verdict.status] += 1
        if verdict.status == "failed":
            wrong -= 1
            own = await judges.own(problem, mutant.source)
            found.judged.append(Judged(problem.id, f"{MUTANTS}, {mutant.operator}", hidden=False, own=own))


def in_turn(drawn: Sequence[Mutant], seed: str) -> list[Mutant]:
    """Return mutants in a random order by seed in which each operator has its turn."""
    rng, by_operator = random.Random(seed), dict[str, list[Mutant]]()
    for mutant in rng.sample(drawn, len(drawn)):
        by_operator.setdefault(mutant.operator, []).append(mutant)
    return [each for turn in zip_longest(*by_operator.values()) for each in turn if each is not None]


def groups_of(found: Found) -> dict[str, tuple[list[Judged], bool]]:
    """Return the rows of the table: wrong programs, all and by operator, and right ones; True for the right."""
    operators = sorted({each.group for each in found.judged if each.group.startswith(MUTANTS)})
    wrong = {group: (found.among(group, hidden=False), False) for group in [MUTANTS, *operators]}
    right = {group: (found.among(group, hidden=True), True) for group in (CANONICAL, LOGGED)}
    return {name: row for name, row in {**wrong, **right}.items() if row[0]}


def misjudged(judged: Iterable[Judged]) -> Scores:
    """Return for each problem with own tests which of its programs these judge otherwise than the hidden tests."""
    scores: Scores = {}
    for each in judged:
        if each.own is not None:
            scores.setdefault(each.problem, []).append(float(each.own is not each.hidden))
    return scores


def verdicts_table(found: Found) -> str:
    """Return the table: shares are means over problems, each once, with the Wilson interval of so many problems."""
    rows = []
    for name, (judged, right) in groups_of(found).items():
        scores = misjudged(judged)
        share = percent(level(scores), 1) if scores else "-"
        untested = sum(each.own is None for each in judged)
        counts = [len(judged), untested, len(judged) - untested, int(sum(map(sum, scores.values())))]
        rows.append([name, *counts, len(scores), *(["-", share] if right else [share, "-"])])
    heads = ("programs", "n", "no own test", "judged", "misjudged", "problems", "false pass", "false fail")
    return table(heads, rows)


def verdicts_json(found: Found) -> dict[str, JSON]:
    """Return the same as JSON."""
    return {
        "drawn": dict(found.drawn),
        "groups": {
            name: {
                "n": len(judged),
                "right": right,
                "untested": sum(each.own is None for each in judged),
                "misjudged": int(sum(map(sum, misjudged(judged).values()))),
                "problems": len(misjudged(judged)),
            }
            for name, (judged, right) in groups_of(found).items()
        },
    }


def verdicts_page(found: Found, source: str, how: Mapping[str, int]) -> str:
    """Return the results page; ``source`` says what the own tests are."""
    wrong, right = found.among(MUTANTS, hidden=False), found.among(CANONICAL, hidden=True)
    drawn, untested = sum(found.drawn.values()), sum(each.own is None for each in wrong)
    return f"""# HumanEval: what own tests say of wrong and of right programs

Made by `python -m benchmarks.humaneval judge --data HumanEval.jsonl.gz --right logged_simple_gpt4.jsonl --mutants
{how["wrong"]} --seed {how["seed"]} --out docs/results`. Own tests: {source}.

- Worse than the logs could show: {untested} of {len(wrong)} wrong programs are of problems without an own test, and
  are handed in unjudged.
- False pass: of the wrong programs with own tests {_share(wrong)} pass them all.
- False fail: of right ones, HumanEval's canonical solutions, {_share(right)} don't.
- The wrong programs are mutants, one change away from a canonical solution: they are near misses, and wrong programs of
  a model may be further off and easier to tell. The logs can't say: all that fails in them is empty.
- {drawn} mutants were drawn, each operator of a problem in turn; the hidden tests refused {found.drawn["failed"]}, let
  {found.drawn["passed"]} pass (equal to the original, or the tests are too weak) and {found.drawn["timed out"]} ran out
  of time. Only those refused in time are judged.

{verdicts_table(found)}

Shares are means over problems, each problem once, with the 95 % Wilson interval of so many problems: several mutants of
a problem narrow nothing. A problem without a test of its own gives no verdict: what it gets is handed in.
"""


def _share(judged: Sequence[Judged]) -> str:
    scores = misjudged(judged)
    if not scores:
        return "an unknown share"
    n = sum(each.own is not None for each in judged)
    return f"{percent(level(scores), 1)}, {n} programs of {len(scores)} problems,"
