"""Stored lessons that turn out to be copies of one another are merged when a newcomer is merged into one of them.

Each such merge is one write and an entry in both histories, so that it can be rolled back like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.lessons.deciding import copies_near
from jeeves_reflexion.lessons.forgetting import forget_traces
from jeeves_reflexion.lessons.merging import TASKS, MergeSettings, joined, listed, merged_away
from jeeves_reflexion.lessons.sameness import Neighbour, foremost
from jeeves_reflexion.lessons.shelf import Change, Shelf
from jeeves_reflexion.types import Lesson

_WHY: Final = "they say the same by a wording that was learned"


async def join_copies(
    shelf: Shelf, lesson: Lesson, near: Sequence[Neighbour], settings: MergeSettings, *, by: str = ""
) -> Lesson:
    """Merge a lesson that took a newcomer in with the lessons near it that are its copies; return what speaks for it.

    The one with the most support, the oldest of equals, speaks for both. Nothing happens to two of which one is
    changed or forgotten at the same moment, or was taken out of another lesson by a person, nor where a task by which
    one is recalled would be lost: a later newcomer or a consolidation finds them again.
    """
    for other in copies_near(lesson, [each.lesson for each in near], settings):
        # Read again: what was near when the newcomer looked may have been changed since.
        now = await shelf.get(other.id)
        if now is not None and copies_near(lesson, [now], settings):
            lesson = await _join(shelf, lesson, now, settings, by)
    return lesson


async def _join(shelf: Shelf, lesson: Lesson, other: Lesson, settings: MergeSettings, by: str) -> Lesson:
    first, copy = sorted((lesson, other), key=foremost)
    new = []
    for query in await shelf.queries_of(copy.id):
        known = await shelf.task_similarities(query, [first.id])
        if known.get(first.id, -1.0) < settings.same_task:
            new.append(query)
    made = joined(first, copy, another_task=bool(new), settings=settings)
    if len(listed(made, TASKS)) + 1 > settings.tasks:
        return lesson
    change = Change("merge", f"{_WHY}: {first.id} and {copy.id}", by)
    if not await shelf.join((first, made), (copy, merged_away(copy, first.id)), change, queries=new):
        return lesson
    for each in (copy.id, first.id):
        if await shelf.is_forgotten(each):
            # While this was written: what struck its words from the others may have passed them by then.
            await forget_traces(shelf, each)
            await shelf.remove(each)
    return await shelf.get(first.id) or made
