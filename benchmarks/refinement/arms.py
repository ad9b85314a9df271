"""Ways to spend tokens, through the house's own evaluator and reviser."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from benchmarks.refinement.play import options
from benchmarks.refinement.problem import Problem
from benchmarks.refinement.rates import THRESHOLD, Rates
from benchmarks.refinement.record import Record, record_of
from benchmarks.refinement.speaking import ModelWriter, OfflineModel
from benchmarks.refinement.tasks import Key, problem_of
from jeeves_reflexion import Decision, Draft, QualityCriterion, Refinement, RefinementOptions
from jeeves_reflexion.drafts import Selection
from jeeves_reflexion.evaluators import CriteriaEvaluator
from jeeves_reflexion.revisers import ModelReviser


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the loop.

    ``together``: one call for all criteria, else one for each. ``panel``: so many judgements, of which the median
    counts. ``always``: revise ``max_revisions`` times whatever the judge says, without any check. ``selection`` says
    which draft is returned then.
    """

    name: str
    max_revisions: int = 3
    together: bool = False
    panel: int = 1
    always: bool = False
    selection: Selection = "highest_score"


@dataclass(frozen=True, slots=True)
class ArmJob:
    """Runs of an arm to make, at some rates."""

    keys: tuple[Key, ...]
    rates: Rates
    arm: Arm


def criteria_of(problem: Problem) -> list[QualityCriterion]:
    """Return a problem's requirements as criteria, each with the default threshold, which vetoes."""
    return [QualityCriterion(one.name, one.description, weight=one.weight) for one in problem.requirements]


async def play_arm(problem: Problem, rates: Rates, arm: Arm) -> Record:
    """Make one run of an arm; ``Record.tokens`` are those of all its calls."""
    model = OfflineModel(problem, rates)
    loop = Refinement(
        ModelWriter(model),
        evaluator=CriteriaEvaluator(
            criteria_of(problem), model=model, threshold=THRESHOLD, together=arm.together, panel=arm.panel
        ),
        reviser=ModelReviser(model, strategy="incremental"),
        max_drafts=arm.max_revisions + 1,
        threshold=THRESHOLD,
        options=_always(arm) if arm.always else options(),
    )
    return record_of(problem, await loop.refine(problem.task))


def records_of_arm(job: ArmJob) -> list[Record]:
    """Make the runs of a job, one after the other."""

    async def all_of_them() -> list[Record]:
        return [await play_arm(problem_of(key), job.rates, job.arm) for key in job.keys]

    return anyio.run(all_of_them)


class _Onward:
    """Hooks that have the loop go on whatever the judge says."""

    async def on_draft(self, draft: str, number: int) -> None:
        """Nothing to do."""

    async def on_judged(self, draft: Draft) -> Decision:
        """Go on, up to the bound."""
        return Decision.CONTINUE

    async def on_revised(self, old: str, new: str, number: int) -> None:
        """Nothing to do."""


def _always(arm: Arm) -> RefinementOptions:
    return RefinementOptions(convergence=None, selection=arm.selection, hooks=_Onward())
