"""What going back to an earlier change of a lesson means: what it says, its tasks, and the lessons it took in since.

What happened to a lesson since is no mistake of the change that is taken back: attempts that taught it again
still count, and contradictions that were found still stand. A merge is undone as a whole: the tasks of the lessons that
were taken in go, and these lessons come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from jeeves_reflexion.lessons.keeping import read_entry
from jeeves_reflexion.lessons.merging import COPIES, COPIES_TOTAL, TASKS, WORDINGS
from jeeves_reflexion.lessons.shelf import Shelf
from jeeves_reflexion.types import JSON, Lesson

_LEARNED: Final = ("copy", "contradicted")
"""The operations that attempts cause: these are not taken back."""
LET_IN: Final = "approve"
"""The operation that a history begins with, or goes on with, where a text in quarantine is let in."""
ADDED: Final = "add"
"""The operation that a history begins with where a consolidation drew a lesson from others."""
_TAKEN_BACK: Final = "it was taken back"
PUT_BACK: Final = "quarantine"
"""The operation that puts a text that was let in into quarantine again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of a lesson. ``before`` is None for its beginning; ``at`` is in seconds since 1970.

    ``others`` are the ids of the lessons that a merge took in; of a rollback, those that were merged into it after it.
    ``added`` and ``removed`` are the texts of tasks that it was recalled by from then on, and no more.
    """

    number: int
    at: float
    operation: str
    by: str
    reason: str
    before: Lesson | None
    after: Lesson
    others: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Undoing:
    """What going back makes of a lesson: the lesson, the tasks it gets and loses, and what becomes of others.

    ``merged`` are the ids of all that are merged into it then; ``back`` those of them now that come back, ``again``
    those then that came back since, and are merged into it once more. ``held`` says that it was no lesson then, and
    goes back into quarantine.
    """

    lesson: Lesson
    queries: tuple[str, ...]
    without: tuple[str, ...]
    merged: tuple[str, ...]
    back: tuple[str, ...]
    again: tuple[str, ...]
    held: bool = False


async def entries_of(shelf: Shelf, lesson_id: str) -> list[Entry]:
    """Return every change of a lesson, oldest first; none where there is no such lesson."""
    return [_entry(value) for value in await shelf.entries(lesson_id)]


def merged_in(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the ids of the lessons that are merged into one, given its history."""
    found: tuple[str, ...] = ()
    for entry in entries:
        if entry.operation == "merge":
            found = tuple(dict.fromkeys((*found, *entry.others)))
        elif entry.operation in ("rollback", PUT_BACK):
            found = entry.others
    return found


def undoing(entries: Sequence[Entry], to: int) -> Undoing | None:
    """Return what going back to change number ``to`` means; None if the history has no such change.

    0 is what was before the first: the quarantine, of a text that was let in from there; retirement, of a lesson that a
    consolidation added; of a lesson of the first format, whose history does not say how it was written, the lesson as
    it was.
    """
    found = _target(entries, to)
    if found is None:
        return None
    lesson, number, held = found
    tasks = dict[str, bool]()
    for entry in entries[number:]:
        if entry.operation in _LEARNED and entry.before is not None:
            lesson = _learned(lesson, entry.before, entry.after)
    for entry in reversed(entries[number:]):
        if entry.operation not in _LEARNED:
            tasks |= dict.fromkeys(entry.added, False) | dict.fromkeys(entry.removed, True)
    then, now = merged_in(entries[:number]), merged_in(entries)
    return Undoing(
        lesson,
        tuple(query for query, there in tasks.items() if there),
        tuple(query for query, there in tasks.items() if not there),
        merged=then,
        back=tuple(other for other in now if other not in then),
        again=tuple(other for other in then if other not in now),
        held=held,
    )


def _target(entries: Sequence[Entry], to: int) -> tuple[Lesson, int, bool] | None:
    """The lesson as it was after a change, how many entries lead to it, and whether it was in quarantine then."""
    for number, entry in enumerate(entries, 1):
        if entry.number == to:
            return entry.after, number, entry.operation == PUT_BACK
    if to != 0 or not entries or not has_before(entries[0]):
        return None
    first = entries[0]
    if first.before is not None:
        return first.before, 0, False
    if first.operation == ADDED:
        return replace(first.after, state="retired", state_reason=_TAKEN_BACK), 1, False
    return first.after, 1, True


def has_before(entry: Entry) -> bool:
    """Whether there is something that the first change of a history can be taken back to."""
    return entry.number == 1 and (entry.before is not None or is_let_in(entry) or entry.operation == ADDED)


def is_let_in(entry: Entry) -> bool:
    """Whether a change let a text in from quarantine."""
    return entry.operation == LET_IN and entry.before is None


def _learned(lesson: Lesson, before: Lesson, after: Lesson) -> Lesson:
    """Return the lesson with what one change added to another state of it."""
    metadata = dict(lesson.metadata)
    for key in (COPIES, WORDINGS, TASKS):
        old, known = _listed(lesson, key), _listed(before, key)
        new = [item for item in _listed(after, key) if item not in known and item not in old]
        if new:
            metadata[key] = [*old, *new]
    total = _total(after) - _total(before)
    if total:
        metadata[COPIES_TOTAL] = _total(lesson) + total
    return replace(
        lesson,
        support=lesson.support + max(0, after.support - before.support),
        tools=tuple(dict.fromkeys((*lesson.tools, *(t for t in after.tools if t not in before.tools)))),
        contradicts=tuple(
            dict.fromkeys(
                (*lesson.contradicts, *(i for i in after.contradicts if i not in before.contradicts))
            )
        ),
        metadata=metadata,
    )


def _listed(lesson: Lesson, key: str) -> Sequence[JSON]:
    return cast("Sequence[JSON]", lesson.metadata.get(key, ()))


def _total(lesson: Lesson) -> int:
    return cast("int", lesson.metadata.get(COPIES_TOTAL, 0))


def _entry(value: JSON) -> Entry:
    found, before, after = read_entry(value)
    return Entry(
        number=found.number,
        at=found.at,
        operation=found.operation,
        by=found.by,
        reason=found.reason,
        before=before,
        after=after,
        others=found.others,
        added=found.tasks.added,
        removed=found.tasks.removed,
    )
