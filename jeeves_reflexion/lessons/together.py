"""What every merge of stored lessons heeds: room for tasks, what counts already, and what was forgotten."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from jeeves_reflexion.lessons.forgetting import forget_traces
from jeeves_reflexion.lessons.merging import MERGED_INTO
from jeeves_reflexion.lessons.records import MOST_FACES
from jeeves_reflexion.lessons.shelf import Shelf
from jeeves_reflexion.lessons.undoing import entries_of, merged_in

MOST_TASKS: Final = MOST_FACES - 1
"""So many tasks a lesson is recalled by at most; one of its faces is its own text."""


async def tasks_of(shelf: Shelf, lesson_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the tasks that lessons are recalled by, each once: the first of each lesson, then the second of each."""
    known = await shelf.queries_of_all(lesson_ids)
    rows = itertools.zip_longest(*(known.get(each, ()) for each in lesson_ids))
    return tuple(dict.fromkeys(task for row in rows for task in row if task is not None))


async def lack_of_room(shelf: Shelf, into: str, others: Sequence[str]) -> str:
    """Say why ``into`` can't be recalled by the tasks of the others as well; empty if it can."""
    own = await shelf.queries_of(into)
    if not own:
        return ""  # it is recalled by its own text
    number = len({*own, *await tasks_of(shelf, others)})
    if number <= MOST_TASKS:
        return ""
    return (
        f"lesson {into!r} would be recalled by {number} tasks, and a lesson has at most {MOST_TASKS}: merge fewer "
        "into it, or some into another one"
    )


async def counted_already(shelf: Shelf, into: str, others: Sequence[str]) -> dict[str, int]:
    """Return how much of the support of lessons another has, of those that were merged into it and brought back since.

    Or were never retired, because an earlier version, which wrote one after the other, was stopped in between: then
    it has all of theirs.
    """
    known = set(merged_in(await entries_of(shelf, into)))
    counted: dict[str, int] = {}
    for other in others:
        lesson = await shelf.get(other) if other in known else None
        if lesson is not None:
            counted[other] = lesson.support
            for entry in await entries_of(shelf, other):
                if entry.after.metadata.get(MERGED_INTO) == into:
                    counted[other] = entry.after.support
    return counted


async def take_away_forgotten(shelf: Shelf, lesson_ids: Sequence[str]) -> tuple[str, ...]:
    """Take away those of lessons just written that were forgotten meanwhile, and return their ids.

    What struck their words from other lessons may have passed by those that were being written.
    """
    gone = [each for each in lesson_ids if await shelf.is_forgotten(each)]
    for lesson_id in gone:
        await forget_traces(shelf, lesson_id)
        await shelf.remove(lesson_id)
    return tuple(gone)
