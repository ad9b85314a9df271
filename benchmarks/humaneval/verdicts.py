"""Measures how own tests judge wrong programs (mutants) and right ones.

All failures in the logs of the paper are empty programs, which fail any test. A mutant is wrong and not empty: it is
one change away from the canonical solution, and fails the hidden tests in time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Final, get_args

from jeeves_reflexion.types import JSON

from ..report import counted_share
from ..runs import some_at_a_time
from .checking import OwnTestRunner
from .evaluator import OwnTestSource
from .experiment import task_of
from .figures import Confusion, Pair, confusion_table
from .mutants import Mutant, mutants
from .problems import Problem, Sample
from .programs import program_of
from .scoring import HiddenTests, Status

CANONICAL: Final = "canonical solutions"
LOGGED: Final = "logged solutions"
MUTANTS: Final = "mutants"


@dataclass(slots=True)
class Judges:
    """The hidden tests, a problem's own tests and their runner, and the verdicts so far.

    ``pairs`` has the verdicts on the programs, by group; ``drawn`` counts mutants by the verdict of the hidden tests.
    """

    hidden: HiddenTests
    tests: OwnTestSource
    runner: OwnTestRunner
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    drawn: Counter[str] = field(default_factory=Counter)

    async def judge(
        self,
        problems: Sequence[Problem],
        right: Mapping[str, Sequence[Sample]],
        *,
        wrong: int,
        seed: int = 0,
        workers: int = 2,
    ) -> dict[str, Confusion]:
        """Judge the solutions in ``right`` by group, and ``wrong`` mutants of each canonical solution.

        Mutants are drawn by seed, each operator in turn, until ``wrong`` of them fail the hidden tests in time. A
        mutant that runs out of time does not count, because its verdict would depend on the machine's load. Empty
        solutions are left out.
        """
        known = {problem.id: problem for problem in problems}

        async def judge_one(group: str, sample: Sample) -> None:
            problem = known[sample.task_id]
            program = program_of(problem.prompt, problem.entry_point, sample.solution)
            passed = (await self.hidden.verdict(problem, sample.solution)).passed
            await self._note(problem, program, [group], hidden=passed)
            if group == CANONICAL and passed:
                await self._wrong(problem, in_turn(mutants(program), f"{seed}:{problem.id}"), wrong)

        calls = [
            partial(judge_one, group, sample)
            for group, samples in right.items()
            for sample in samples
            if sample.task_id in known and sample.solution.strip()
        ]
        await some_at_a_time(calls, workers)
        return {group: Confusion(tuple(self.pairs[group])) for group in sorted(self.pairs)}

    async def _wrong(self, problem: Problem, drawn: Sequence[Mutant], number: int) -> None:
        for mutant in drawn:
            if not number:
                return
            verdict = await self.hidden.verdict(problem, mutant.source)
            self.drawn[verdict.status] += 1
            if verdict.status == "failed":
                number -= 1
                groups = (MUTANTS, f"{MUTANTS}, {mutant.operator}")
                await self._note(problem, mutant.source, groups, hidden=False)

    async def _note(self, problem: Problem, program: str, groups: Sequence[str], *, hidden: bool) -> None:
        tests = await self.tests(task_of(problem).public())
        checked = await self.runner.check(program, problem.entry_point, tests)
        pair = Pair(problem.id, checked.passed if tests else None, hidden)
        for group in groups:
            self.pairs.setdefault(group, []).append(pair)


def in_turn(drawn: Sequence[Mutant], seed: str) -> list[Mutant]:
    """Return mutants in a random order by seed, in which the operators take turns."""
    rng, by_operator = random.Random(seed), dict[str, list[Mutant]]()
    for mutant in rng.sample(drawn, len(drawn)):
        by_operator.setdefault(mutant.operator, []).append(mutant)
    return [each for turn in zip_longest(*by_operator.values()) for each in turn if each is not None]


def verdicts_json(found: Mapping[str, Confusion], drawn: Mapping[str, int]) -> dict[str, JSON]:
    """Return the figures."""
    return {"drawn": dict(drawn), "groups": {name: each.as_json() for name, each in found.items()}}


def verdicts_page(found: Mapping[str, Confusion], drawn: Mapping[str, int], source: str, command: str) -> str:
    """Return the results page; ``source`` says what the own tests are, ``command`` has the options that were given."""
    wrong, right = found.get(MUTANTS, Confusion()), found[CANONICAL]
    untested = wrong.count(own=None, hidden=False)
    passed, refused, late = (drawn.get(status, 0) for status in get_args(Status))
    return f"""# HumanEval: what own tests say of wrong and of right programs

Made by `python -m benchmarks.humaneval judge {command}`. Own tests: {source}.

- What the logs could not show: {untested} of {len(wrong.pairs)} wrong programs belong to problems without own tests,
  and are handed in unjudged.
- False pass: of the wrong programs with own tests, {counted_share(wrong.passed_among_wrong, 1)} pass them all.
- False fail: of the right programs, the canonical solutions, {counted_share(right.failed_among_right, 1)} fail one.
- The wrong programs are mutants, one change away from a canonical solution. They are near misses; a model's wrong
  programs may be further off and easier to detect. The logs can't tell, because all that fails in them is empty.
- {sum(drawn.values())} mutants were drawn, each operator of a problem in turn. {refused} failed the hidden tests and
  are judged; {passed} passed (equal to the original, or the tests are too weak) and {late} ran out of time.

{confusion_table(found)}

Intervals are 95 %, clustered by problem, because mutants of one problem are similar. A problem without own tests gives
no verdict. A group is all wrong or all right, so only the last two shares are informative.
"""
