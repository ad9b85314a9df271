"""How much of a merge fits: a lesson is recalled by a few tasks at most, and none of them may be lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jeeves_reflexion.lessons.consolidation.operations import Operation
from jeeves_reflexion.lessons.consolidation.steps import Refused
from jeeves_reflexion.lessons.shelf import Shelf
from jeeves_reflexion.lessons.together import MOST_TASKS, tasks_of


@dataclass
class _Part:
    ids: list[str]
    tasks: set[str]

    def takes(self, tasks: Sequence[str]) -> bool:
        # Without tasks, it is recalled by its own text.
        return not self.tasks or len(self.tasks.union(tasks)) <= MOST_TASKS


async def parts_that_fit(merge: Operation, shelf: Shelf) -> tuple[list[Operation], list[Refused]]:
    """Return a merge as several where one lesson has no room for the tasks of all; what stays alone is refused.

    Each lesson goes to the first part that has room for its tasks, in the order in which they were proposed.
    """
    parts: list[_Part] = []
    known = await shelf.queries_of_all(merge.ids)
    for lesson_id in merge.ids:
        tasks = known.get(lesson_id, ())
        part = next((each for each in parts if each.takes(tasks)), None)
        if part is None:
            parts.append(_Part([lesson_id], set(tasks)))
        else:
            part.ids.append(lesson_id)
            part.tasks.update(tasks)
    merges = [replace(merge, ids=tuple(part.ids)) for part in parts if len(part.ids) > 1]
    alone = [part.ids[0] for part in parts if len(part.ids) == 1]
    if not alone:
        return merges, []
    number = len({task for part in parts for task in part.tasks})
    stays = "stays as it is" if len(alone) == 1 else "stay as they are"
    why = (
        f"together these are recalled by {number} tasks, and a lesson has at most {MOST_TASKS}: "
        f"{', '.join(alone)} {stays}"
    )
    return merges, [Refused(str(merge), why)]


async def note_on_tasks(operation: Operation, shelf: Shelf) -> str:
    """Say by how many of the tasks of the lessons that it is drawn from a new lesson is recalled; empty for all."""
    number = len(await tasks_of(shelf, operation.ids)) if operation.kind == "add" else 0
    if number <= MOST_TASKS:
        return ""
    return f"recalled by {MOST_TASKS} of the {number} tasks of the lessons that it is drawn from"
