"""What a consolidation proposes, plans and has done, as values; a plan can be read by people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jeeves_reflexion.errors import ReflexionError
from jeeves_reflexion.lessons.consolidation.operations import VOTES, Delta, Operation


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that will not be made, or not as far as it goes, as it was proposed, and why."""

    proposal: str
    why: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a consolidator proposes for one cluster, and what of its answer was no operation."""

    operations: tuple[Operation, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that was checked, what it makes of each lesson, and what else is to be known of it."""

    operation: Operation
    deltas: tuple[Delta, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a consolidation would do; ``str()`` of it is for people.

    ``stopped`` is why a model could not be asked about all that it was to be asked about.
    """

    steps: tuple[Step, ...] = ()
    refused: tuple[Refused, ...] = ()
    stopped: ReflexionError | None = None

    def __str__(self) -> str:
        return "\n".join(_lines(self)) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a plan: steps done now, done before, and left undone with the reason."""

    done: tuple[Step, ...] = ()
    already: tuple[Step, ...] = ()
    skipped: tuple[tuple[Step, str], ...] = ()


def _lines(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        reason = f"  ({step.operation.reason})" if step.operation.reason else ""
        yield f"{step.operation.kind}{reason}"
        for delta in step.deltas:
            yield from _change_lines(delta)
        if step.note:
            yield f"    {step.note}"
    if plan.refused:
        yield f"refused: {len(plan.refused)}"
        yield from (f"  {refused.proposal}: {refused.why}" for refused in plan.refused)


def _change_lines(delta: Delta) -> Iterator[str]:
    before, after = delta.before, delta.after
    if before is None:
        yield f"  + {after.id}  {after.text}"
        return
    yield f"  - {before.id}  {before.text}"
    if before.text != after.text:
        yield f"  + {after.id}  {after.text}"
    if before.state != after.state:
        yield f"    {before.state} -> {after.state}: {after.state_reason}"
    if before.support != after.support:
        yield f"    support {before.support} -> {after.support}"
    votes = (before.metadata.get(VOTES, 0), after.metadata.get(VOTES, 0))
    if votes[0] != votes[1]:
        yield f"    votes {votes[0]} -> {votes[1]}"
