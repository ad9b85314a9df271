"""What going back to an earlier change of a lesson means: what it says, its tasks, and the lessons it took in since.

Pure. What happened to a lesson since is no mistake of the change that is taken back: attempts that taught it again
still count, and contradictions that were found still stand. A merge is undone as a whole: the tasks of the lessons that
were taken in go, and these lessons come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from jeeves_reflexion.lessons.merging import COPIES, COPIES_TOTAL, TASKS, WORDINGS
from jeeves_reflexion.types import JSON, Lesson

_LEARNED: Final = ("copy", "contradicted")
"""The operations that attempts cause: these are not taken back."""


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
    those then that came back since, and are merged into it once more.
    """

    lesson: Lesson
    queries: tuple[str, ...]
    without: tuple[str, ...]
    merged: tuple[str, ...]
    back: tuple[str, ...]
    again: tuple[str, ...]


def undoing(entries: Sequence[Entry], to: int) -> Undoing | None:
    """Return what going back to change number ``to`` means; None if the history has no such change."""
    target = next((at for at, entry in enumerate(entries) if entry.number == to), None)
    if target is None:
        return None
    lesson, tasks = entries[target].after, dict[str, bool]()
    for entry in entries[target + 1 :]:
        if entry.operation in _LEARNED and entry.before is not None:
            lesson = _learned(lesson, entry.before, entry.after)
    for entry in reversed(entries[target + 1 :]):
        if entry.operation not in _LEARNED:
            tasks |= dict.fromkeys(entry.added, False) | dict.fromkeys(entry.removed, True)
    then, now = _merged(entries[: target + 1]), _merged(entries)
    return Undoing(
        lesson,
        tuple(query for query, there in tasks.items() if there),
        tuple(query for query, there in tasks.items() if not there),
        merged=then,
        back=tuple(other for other in now if other not in then),
        again=tuple(other for other in then if other not in now),
    )


def _merged(entries: Sequence[Entry]) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    for entry in entries:
        if entry.operation == "merge":
            found = tuple(dict.fromkeys((*found, *entry.others)))
        elif entry.operation == "rollback":
            found = entry.others
    return found


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
