"""Consolidation: small, checked changes over lessons that speak of the same thing, shown before they are made.

A consolidator (a language model, or rules) proposes operations on one cluster at a time; this module checks each, plans
what it makes of the lessons concerned, and applies the plan as deltas. Nothing is rewritten as a whole, each change has
its entry in the lesson's history and can be rolled back, and a lesson that somebody changed meanwhile is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from jeeves_reflexion.errors import LessonStoreError, UnreadableReplyError
from jeeves_reflexion.lessons.consolidation.checking import cleaned, problem_with
from jeeves_reflexion.lessons.consolidation.operations import VOTES, Delta, Operation, deltas
from jeeves_reflexion.lessons.shelf import Change, Shelf, store_errors
from jeeves_reflexion.types import Lesson
from vectorstores.base import ConflictError


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that will not be made, as it was proposed, and why."""

    proposal: str
    why: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a consolidator proposes for one cluster, and what of its answer was no operation."""

    operations: tuple[Operation, ...] = ()
    refused: tuple[Refused, ...] = ()


class Consolidator(Protocol):
    """Proposes operations over lessons that speak of similar things."""

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return what should be done with these lessons; nothing is a good answer."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that was checked, and what it makes of each lesson."""

    operation: Operation
    deltas: tuple[Delta, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a consolidation would do; ``str()`` of it is for people."""

    steps: tuple[Step, ...] = ()
    refused: tuple[Refused, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self)) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a plan: steps done now, done before, and left undone with the reason."""

    done: tuple[Step, ...] = ()
    already: tuple[Step, ...] = ()
    skipped: tuple[tuple[Step, str], ...] = ()


async def plan(clusters: Iterable[Sequence[Lesson]], consolidator: Consolidator) -> Plan:
    """Ask for operations over each cluster and check them; nothing is changed.

    Operations that can't or mustn't be made are refused one by one, with the reason; the others stand. A lesson is
    changed by one operation of a plan at most. A cluster whose answer could not be read is refused as a whole, and the
    others stand. Raises what else the consolidator raises.
    """
    at = time.time()
    steps: list[Step] = []
    refused: list[Refused] = []
    for cluster in clusters:
        try:
            proposals = await consolidator(cluster)
        except UnreadableReplyError as error:
            ids = ", ".join(lesson.id for lesson in cluster)
            refused.append(Refused(f"the answer about {ids}", str(error)))
            continue
        refused += proposals.refused
        known = {lesson.id: lesson for lesson in cluster}
        taken: set[str] = {delta.after.id for step in steps for delta in step.deltas}
        for proposed in proposals.operations:
            operation = cleaned(proposed)
            why = problem_with(operation, known, taken)
            if why:
                refused.append(Refused(str(operation), why))
                continue
            step = Step(operation, deltas(operation, known, at=at))
            steps.append(step)
            taken |= {delta.after.id for delta in step.deltas}
    return Plan(tuple(steps), tuple(refused))


async def apply(plan: Plan, shelf: Shelf, *, by: str = "consolidation") -> Applied:
    """Make the changes of a plan; making them twice changes nothing more.

    A step is made whole or not at all, and skipped where one of its lessons is no longer what it was when the plan was
    made. One that was cut short by a crash is carried on by applying the same plan again. Raises
    :class:`LessonStoreError` for a store that fails.
    """
    done: list[Step] = []
    already: list[Step] = []
    skipped: list[tuple[Step, str]] = []
    async with store_errors("consolidate lessons"):
        for step in plan.steps:
            problem = await _in_the_way(step, shelf)
            if problem:
                skipped.append((step, problem))
                continue
            changed, problem = await _make(step, shelf, by)
            if problem:
                skipped.append((step, problem))
            else:
                (done if changed else already).append(step)
    return Applied(tuple(done), tuple(already), tuple(skipped))


# -- applying ----------------------------------------------------------------------------------------------------

_CHANGED: Final = "lesson {} was changed since the plan was made"
_GONE: Final = "lesson {} is gone"


async def _in_the_way(step: Step, shelf: Shelf) -> str:
    """Why a step can't be made as planned; empty if each of its lessons is as it was, or as it is to be."""
    for delta in step.deltas:
        now = await shelf.get(delta.after.id)
        if delta.before is None:
            continue  # a new lesson, there already or not
        if now is None:
            return _GONE.format(delta.after.id)
        if now not in (delta.before, delta.after):
            return _CHANGED.format(delta.after.id)
    return ""


async def _make(step: Step, shelf: Shelf, by: str) -> tuple[bool, str]:
    """Make a step: whether anything had to be done, and why it was taken back, if it was."""
    operation = step.operation
    change = Change(operation.kind, operation.reason, by)
    others = operation.ids[1:] if operation.kind == "merge" else ()
    own = await _queries(operation.ids[:1], shelf) if others else ()
    queries = [query for query in await _queries(others, shelf) if query not in own]
    made: list[Delta] = []
    for number, delta in enumerate(step.deltas):
        before = delta.before
        if before is None:
            return await _put(delta.after, operation.ids, shelf, change)
        swap = _Swap(before, delta.after)
        await swap.on(
            shelf, replace(change, others=others) if number == 0 else change, queries if number == 0 else ()
        )
        if swap.problem:
            back = Change("undo", f"{operation.kind} was not finished: {swap.problem}", by)
            for earlier in reversed(made):
                taken = queries if earlier is step.deltas[0] else ()
                await _Swap(earlier.after, earlier.before or earlier.after).on(shelf, back, without=taken)
            return False, swap.problem
        if swap.changed:
            made.append(delta)
    return bool(made), ""


@dataclass
class _Swap:
    """Puts one version of a lesson in place of another, and of no third."""

    old: Lesson
    new: Lesson
    changed: bool = field(default=False, init=False)
    problem: str = field(default="", init=False)

    async def on(
        self, shelf: Shelf, change: Change, queries: Sequence[str] = (), *, without: Sequence[str] = ()
    ) -> None:
        try:
            await shelf.change(self.new.id, self._next, change, queries=queries, without=without)
        except LessonStoreError:
            if await shelf.get(self.new.id) is not None:
                raise
            self.problem = _GONE.format(self.new.id)

    def _next(self, now: Lesson) -> Lesson | None:
        self.changed = now == self.old and now != self.new
        self.problem = "" if now in (self.old, self.new) else _CHANGED.format(now.id)
        return self.new if self.changed else None


async def _put(lesson: Lesson, sources: Sequence[str], shelf: Shelf, change: Change) -> tuple[bool, str]:
    """Store a lesson that was drawn from others, unless it is there already, as it was put or changed since."""
    if await shelf.get(lesson.id) is not None:
        return False, ""
    if not any([await shelf.get(source) for source in sources]):
        return False, "the lessons that it was drawn from are gone"
    queries = await _queries(sources, shelf)
    try:
        await shelf.put(lesson, queries or (lesson.text,), change)
    except ConflictError:  # another process made the same plan's step a moment ago
        return False, ""
    return True, ""


async def _queries(lesson_ids: Sequence[str], shelf: Shelf) -> tuple[str, ...]:
    """The tasks that lessons are recalled by, each once."""
    found = [query for lesson_id in lesson_ids for query in await shelf.queries_of(lesson_id)]
    return tuple(dict.fromkeys(found))


# -- for people --------------------------------------------------------------------------------------------------


def _lines(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        reason = f"  ({step.operation.reason})" if step.operation.reason else ""
        yield f"{step.operation.kind}{reason}"
        for delta in step.deltas:
            yield from _change_lines(delta)
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
