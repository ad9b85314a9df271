"""Consolidation: small, checked changes over lessons that speak of the same thing, shown before they are made.

A consolidator (a language model, or rules) proposes operations on one cluster at a time; this module checks each and
plans what it makes of the lessons concerned, ``applying.py`` applies the plan as deltas. Nothing is rewritten as a
whole, each change has its entry in the lesson's history and can be rolled back, and a lesson that somebody changed
meanwhile is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from jeeves_reflexion.errors import BudgetExceededError, ModelError, ReflexionError, UnreadableReplyError
from jeeves_reflexion.lessons.consolidation.applying import apply
from jeeves_reflexion.lessons.consolidation.checking import Sight, cleaned, problem_with
from jeeves_reflexion.lessons.consolidation.operations import Operation, deltas
from jeeves_reflexion.lessons.consolidation.room import note_on_tasks, parts_that_fit
from jeeves_reflexion.lessons.consolidation.steps import Applied, Plan, Proposals, Refused, Step
from jeeves_reflexion.lessons.screening.screens import screened
from jeeves_reflexion.lessons.shelf import Shelf, store_errors
from jeeves_reflexion.lessons.together import counted_already
from jeeves_reflexion.types import Lesson

__all__ = ["Applied", "Consolidator", "Plan", "Proposals", "Refused", "Step", "apply", "plan"]


class Consolidator(Protocol):
    """Proposes operations over lessons that speak of similar things."""

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return what should be done with these lessons; nothing is a good answer."""
        ...


async def plan(
    clusters: Iterable[Sequence[Lesson]], consolidator: Consolidator, *, shelf: Shelf | None = None
) -> Plan:
    """Ask for operations over each cluster and check them; nothing is changed.

    Operations that can't or mustn't be made are refused one by one, with the reason; the others stand. A lesson is
    changed by one operation of a plan at most. A cluster whose answer could not be read is refused as a whole, and the
    others stand. A model that can't be asked any more, or a budget that is used up, ends the plan with what was
    proposed until then, and is its ``stopped``; where nothing was answered at all it is raised, as is what else the
    consolidator raises.

    With the ``shelf`` that the lessons lie on, a merge of lessons that are recalled by more tasks together than one may
    be is planned as several that lose none; without it, :func:`apply` leaves such a merge undone. It also tells which
    lessons were merged before and brought back, so that nothing is counted twice.
    """
    at = time.time()
    steps: list[Step] = []
    refused: list[Refused] = []
    changed: set[str] = set()
    stopped: ReflexionError | None = None
    groups = list(clusters)
    for number, cluster in enumerate(groups):
        try:
            proposals = await consolidator(cluster)
        except (ModelError, BudgetExceededError) as error:
            if not number:
                raise
            left = f"{len(groups) - number} of {len(groups)} groups of lessons"
            refused.append(Refused(left, f"not looked at: {error}"))
            stopped = error
            break
        except UnreadableReplyError as error:
            ids = ", ".join(lesson.id for lesson in cluster)
            refused.append(Refused(f"the answer about {ids}", str(error)))
            continue
        refused += proposals.refused
        sight = Sight({lesson.id: lesson for lesson in cluster}, changed)
        for proposed in proposals.operations:
            operation = cleaned(proposed)
            why = problem_with(operation, sight)
            if not why and operation.text and shelf is not None:
                found = await screened(operation.text, shelf.screen)
                why = "" if found is None else f"its text is not let in ({found.kind}): it {found.why}"
            if why:
                refused.append(Refused(str(operation), why))
                continue
            sight.take(operation)
            made, unmade = await _steps(operation, sight.known, at, shelf)
            steps += made
            refused += unmade
            changed |= {delta.after.id for step in made for delta in step.deltas}
    return Plan(tuple(steps), tuple(refused), stopped)


async def _steps(
    operation: Operation, known: Mapping[str, Lesson], at: float, shelf: Shelf | None
) -> tuple[list[Step], list[Refused]]:
    """Return the steps by which an operation is made, and what of it can't be."""
    if shelf is None:
        return [Step(operation, deltas(operation, known, at=at))], []
    async with store_errors("plan a consolidation"):
        if operation.kind != "merge":
            note = await note_on_tasks(operation, shelf)
            return [Step(operation, deltas(operation, known, at=at), note)], []
        parts, left = await parts_that_fit(operation, shelf)
        steps = []
        for part in parts:
            counted = await counted_already(shelf, part.ids[0], part.ids[1:])
            steps.append(Step(part, deltas(part, known, at=at, counted=counted)))
    return steps, left
