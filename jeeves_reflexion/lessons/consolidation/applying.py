"""Making the steps of a plan: each is one write, done or not, and skipped where its lessons were changed meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jeeves_reflexion.lessons.consolidation.room import note_on_tasks
from jeeves_reflexion.lessons.consolidation.steps import Applied, Plan, Step
from jeeves_reflexion.lessons.shelf import TRIES, Change, Rewriting, Shelf, store_errors
from jeeves_reflexion.lessons.together import MOST_TASKS, lack_of_room, take_away_forgotten, tasks_of
from vectorstores.base import ConflictError

_CHANGED: Final = "lesson {} was changed since the plan was made"
_GONE: Final = "lesson {} is gone"
_STRANGE: Final = "lesson {} was written by somebody whom nobody accepted here: approve it first"


async def apply(plan: Plan, shelf: Shelf, *, by: str = "consolidation") -> Applied:
    """Make the changes of a plan; making them twice changes nothing more.

    A step is one write, of all its lessons or of none, and skipped where one of its lessons is no longer what it was
    when the plan was made, or where a merge would lose a task by which a lesson is recalled. One that an earlier
    version left half done is carried on. Raises :class:`LessonStoreError` for a store that fails; the steps before are
    done then, and applying the same plan again does the rest.
    """
    done: list[Step] = []
    already: list[Step] = []
    skipped: list[tuple[Step, str]] = []
    async with store_errors("consolidate lessons"):
        for step in plan.steps:
            new = step.deltas[0].before is None
            changed, problem = await (_add(step, shelf, by) if new else _make(step, shelf, by))
            if problem:
                skipped.append((step, problem))
            else:
                (done if changed else already).append(step)
    return Applied(tuple(done), tuple(already), tuple(skipped))


async def _make(step: Step, shelf: Shelf, by: str) -> tuple[bool, str]:
    """Make a step: whether anything had to be done, and why it can't be, if it can't."""
    for _ in range(TRIES):
        changes, problem = await _changes(step, shelf, by)
        if problem or not changes:
            return False, problem
        if await shelf.rewrite(changes):
            gone = await take_away_forgotten(shelf, [each.before.id for each in changes])
            return not gone, _GONE.format(gone[0]) if gone else ""
    return False, "its lessons kept changing while it was made"


async def _changes(step: Step, shelf: Shelf, by: str) -> tuple[list[Rewriting], str]:
    """What a step changes, none of it if it is done; and why it can't be made as planned, if it can't."""
    operation = step.operation
    change = Change(operation.kind, operation.reason, by)
    others = operation.ids[1:] if operation.kind == "merge" else ()
    changes: list[Rewriting] = []
    for delta in step.deltas:
        before, now = delta.before, await shelf.get(delta.after.id)
        if now is None or before is None:
            return [], _GONE.format(delta.after.id)
        if not shelf.reader.trusts(now):
            return [], _STRANGE.format(now.id)
        if now not in (before, delta.after):
            return [], _CHANGED.format(now.id)
        if now != delta.after:
            changes.append(Rewriting(before, delta.after, change))
    first = operation.ids[0]
    if others and changes and changes[0].before.id == first:
        problem = await lack_of_room(shelf, first, others)
        if problem:
            return [], problem
        tasks = await tasks_of(shelf, others)
        changes[0] = replace(changes[0], change=replace(change, others=others), queries=tasks)
    return changes, ""


async def _add(step: Step, shelf: Shelf, by: str) -> tuple[bool, str]:
    """Store a lesson that was drawn from others, unless it is there already, as it was put or changed since."""
    operation, lesson = step.operation, step.deltas[0].after
    if await shelf.get(lesson.id) is not None:
        return False, ""
    if await shelf.is_forgotten(lesson.id):
        return False, f"lesson {lesson.id} was forgotten"
    for source in operation.ids:
        there = await shelf.get(source)
        if there is None:
            return False, _GONE.format(source)
        if not shelf.reader.trusts(there):
            return False, _STRANGE.format(source)
        if not shelf.reader.wrote(there) and lesson.trust == "own":
            lesson = replace(lesson, trust="shared")
    note = await note_on_tasks(operation, shelf)
    tasks = (await tasks_of(shelf, operation.ids))[:MOST_TASKS]
    reason = "; ".join(part for part in (operation.reason, note) if part)
    try:
        await shelf.put(lesson, tasks or (lesson.text,), Change(operation.kind, reason, by))
    except ConflictError:  # another process made the same plan's step a moment ago
        return False, ""
    return await _kept(step, operation.ids, shelf)


async def _kept(step: Step, sources: Sequence[str], shelf: Shelf) -> tuple[bool, str]:
    """Take a new lesson away again if one that it was drawn from was forgotten while it was written."""
    for source in sources:
        if await shelf.is_forgotten(source):
            await shelf.remove(step.deltas[0].after.id)
            return False, _GONE.format(source)
    return True, ""
