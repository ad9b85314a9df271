"""The player without a model: it begins with a program that somebody wrote, and searches for small repairs.

Its repairs are single changes of operators, constants and conditions (``mutations.py``), one family
a trial, judged by the docstring's examples. It measures the loop and the tests, not programming: where the bug was
seeded by the same operators, the change that takes it back is among those searched.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from jeeves_reflexion import ConfigurationError, Reflection, Session, Task, Trial

from .agent import PREVIOUS_BLOCK, Written, entry_point_of, last_action, lessons_in
from .checking import Checked, OwnTestRunner
from .evaluator import OwnTestSource
from .mutations import FAMILIES, Family, mutants
from .problems import Problem, Sample
from .programs import program_of

MOST_TRIED = 60
"""Changes tried in one attempt."""

_TRIED = "tried changes of kind "


class RepairWriter:
    """Gives the program that it began with, then repairs of the previous one."""

    def __init__(
        self, begun: Mapping[str, str], source: OwnTestSource, runner: OwnTestRunner, *, seed: int
    ) -> None:
        self._begun = begun
        self._source = source
        self._runner = runner
        self._seed = seed

    async def __call__(self, task: Task, session: Session) -> Written:
        """Return the first change that passes all own tests, else the best program; a change has to be better."""
        program = session.blocks.get(PREVIOUS_BLOCK, self._begun[task.id])
        if session.attempt <= 1:
            return Written(program, "gave the program that it began with")
        tests = await self._source(task.public())
        draw = random.Random(f"{self._seed}:{task.id}:{session.attempt}")
        family = self._family(task, session, draw)
        changes = [one for one in mutants(program, entry_point_of(task)) if one.family == family]
        draw.shuffle(changes)
        # The program itself comes last: it was refused, also where its own tests pass.
        programs = [*(one.source for one in changes[:MOST_TRIED]), program]
        found = await self._runner.check_all(programs, entry_point_of(task), tests, first=True)
        best = max(range(len(found)), key=lambda at: (found[at].passed, found[at].share, at))
        return Written(programs[best], f"{_TRIED}{family}: {_how(found[best], best, len(programs) - 1)}")

    def _family(self, task: Task, session: Session, draw: random.Random) -> Family:
        """Draw a family that no lesson on this function rules out."""
        mine = [lesson for lesson in lessons_in(session) if f"in {entry_point_of(task)}," in lesson]
        left = [family for family in FAMILIES if not any(f"the {family} " in lesson for lesson in mine)]
        return draw.choice(left or list(FAMILIES))


def _how(best: Checked, at: int, changes: int) -> str:
    if best.passed and at < changes:
        return f"number {at + 1} of {changes} passes its own tests"
    return f"none of {changes} passes its own tests"


def write_lesson(task: Task, trials: Sequence[Trial]) -> Reflection:
    """Reflect by rules on which changes did not help, and which example shows it; no model is asked."""
    entry, last = entry_point_of(task), trials[-1]
    shown = last.evaluation.issues[0] if last.evaluation.issues else "the tests"
    did = last_action(trials)
    if not did.startswith(_TRIED):
        return Reflection(f"The program for {entry} as it was given fails {shown}: change it.")
    family = did.removeprefix(_TRIED).split(":")[0]
    return Reflection(
        f"Among single changes in {entry}, the {family} ones do not mend {shown}: try another kind of change."
    )


def begun_with(
    problems: Sequence[Problem], samples: Sequence[Sample], *, bugs: int, seed: int
) -> dict[str, str]:
    """Return the program to begin with for each problem: its first logged solution, with ``bugs`` seeded changes.

    Raises :class:`ConfigurationError` for a problem without one.
    """
    first: dict[str, Sample] = {}
    for sample in samples:
        first.setdefault(sample.task_id, sample)
    missing = [problem.id for problem in problems if problem.id not in first]
    if missing:
        raise ConfigurationError(f"there is no logged solution of {', '.join(missing[:5])}")
    return {
        problem.id: with_bugs(
            program_of(problem.prompt, problem.entry_point, first[problem.id].solution),
            problem.entry_point,
            bugs=bugs,
            draw=random.Random(f"bug:{seed}:{problem.id}"),
        )
        for problem in problems
    }


def with_bugs(program: str, entry_point: str, *, bugs: int, draw: random.Random) -> str:
    """Return a program with so many changes drawn at random; fewer where it has nothing to change."""
    for _ in range(bugs):
        changes = mutants(program, entry_point)
        if not changes:
            break
        family = draw.choice(sorted({one.family for one in changes}))
        program = draw.choice([one for one in changes if one.family == family]).source
    return program
