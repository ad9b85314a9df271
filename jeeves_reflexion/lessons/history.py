"""The history of a lesson: its changes, numbered, each with the lesson before and after it; and what going back means.

A change is never undone by itself alone: what attempts taught meanwhile (support, contradictions) is no mistake of the
change that is taken back, and stays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pydantic.dataclasses

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.records import (
    COPIES,
    COPIES_TOTAL,
    TASKS,
    Count,
    Moment,
    Texts,
    UnreadableLessonError,
    WholeLesson,
    checked,
    whole,
)
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import RecordWrite

HISTORY: Final = "history"
SUPPORT: Final = "support"
"""The operation by which an attempt that taught a lesson again adds to its support."""
LET_IN: Final = "approve"
"""The operation that a history begins with where a text in quarantine is let in."""
# Going back to before the first change retires these; an earlier version's consolidations added lessons.
_TAKEN_BACK: Final = (LET_IN, "add")
# What attempts and comparisons teach is not taken back. Earlier versions called support "copy".
_LEARNED: Final = (SUPPORT, "copy", "contradicted", "contradict")


@dataclass(frozen=True, slots=True)
class Change:
    """Why and by whom a lesson is changed; ``operation`` is one word, such as ``retire``.

    ``others`` are the ids of the lessons that a merge takes in; of a rollback, those that are merged into it then.
    """

    operation: str
    reason: str = ""
    by: str = ""
    others: tuple[str, ...] = ()


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(strict=True))
class Entry:
    """One change of a lesson. ``before`` is None for its beginning; ``at`` is in seconds since 1970.

    ``others`` are those of the :class:`Change`. ``added`` and ``removed`` are the texts of tasks that it was recalled
    by from then on, and no more.
    """

    number: Count
    at: Moment
    operation: str
    by: str
    reason: str
    before: WholeLesson | None
    after: WholeLesson
    others: Texts = ()
    added: Texts = ()
    removed: Texts = ()


@dataclass(frozen=True, slots=True)
class Rollback:
    """What going back makes of a lesson: the lesson, the tasks that it gets and loses, and what becomes of others.

    ``merged`` are the ids of those that are merged into it then, ``back`` of those that come back.
    """

    lesson: Lesson
    tasks: tuple[str, ...]
    without: tuple[str, ...]
    merged: tuple[str, ...]
    back: tuple[str, ...]


def entry_key(lesson_id: str, number: int) -> str:
    """Return the key of an entry of a lesson's history."""
    return f"{lesson_id}:{number:06d}"


def entry_of(
    number: int, before: Lesson | None, after: Lesson, change: Change, more: Mapping[str, JSON]
) -> RecordWrite:
    """Return an entry of a lesson's history, with ``more`` fields; its number must be new."""
    value: dict[str, JSON] = {
        "number": number,
        "at": time.time(),
        "operation": change.operation,
        "by": redact(change.by),
        "reason": redact(change.reason),
        "before": None if before is None else whole(before),
        "after": whole(after),
        **more,
    }
    if change.others:
        value["others"] = list(change.others)
    return RecordWrite(HISTORY, entry_key(after.id, number), value, must_be_new=True)


def tasks_changed(before: Sequence[str], after: Sequence[str]) -> dict[str, JSON]:
    """Return what a change does to the tasks that a lesson is recalled by, as its entry keeps it; empty if nothing."""
    if not before:  # it is recalled by its own text
        return {}
    added = [task for task in after if task not in before]
    removed = [task for task in before if task not in after]
    return {"tasks": {"added": added, "removed": removed}} if added or removed else {}


def read_entry(value: JSON, key: str) -> Entry:
    """Read what :func:`entry_of` wrote.

    Raises :class:`UnreadableLessonError` that names the entry by its ``key``, and what does not fit.
    """
    try:
        fields = cast("Mapping[str, Any]", value)
        return checked(Entry, {**fields, **fields.get("tasks", {})})
    except (ConfigurationError, AttributeError, TypeError) as error:
        message = f"the entry {key!r} of a lesson's history can't be read: {error}"
        raise UnreadableLessonError(message, key) from error


def merged_in(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the ids of the lessons that are merged into one, given its history."""
    found: tuple[str, ...] = ()
    for entry in entries:
        if entry.operation == "merge":
            found = tuple(dict.fromkeys((*found, *entry.others)))
        elif entry.operation in (
            "rollback",
            "quarantine",
        ):  # an earlier version put texts back into quarantine
            found = entry.others
    return found


def has_before(entry: Entry) -> bool:
    """Whether the first change of a history can be taken back: what was let in is retired then."""
    return entry.number == 1 and entry.operation in _TAKEN_BACK


def rollback_to(entries: Sequence[Entry], to: int) -> Rollback | None:
    """Return what going back to change number ``to`` means; None if the history has no such change.

    0 is what was before the first, of a text that was let in from quarantine: retirement.
    """
    number = next((at for at, entry in enumerate(entries, 1) if entry.number == to), 0)
    if number:
        lesson = entries[number - 1].after
    elif to == 0 and entries and has_before(entries[0]):
        lesson, number = entries[0].after, 1
        lesson = replace(lesson, state="retired", state_reason="it was taken back")
    else:
        return None
    tasks, taught = dict[str, bool](), set[str]()
    for entry in entries[number:]:
        if entry.operation in _LEARNED and entry.before is not None:
            lesson = _learned(lesson, entry.before, entry.after)
            taught.update(entry.added)
    for entry in reversed(entries[number:]):
        if entry.operation not in _LEARNED:
            tasks |= dict.fromkeys(entry.added, False) | dict.fromkeys(entry.removed, True)
    then, now = merged_in(entries[:number]), merged_in(entries)
    return Rollback(
        lesson,
        # On those that are taught, an attempt taught it as well.
        tuple(task for task, there in tasks.items() if there and task not in taught),
        tuple(task for task, there in tasks.items() if not there and task not in taught),
        merged=then,
        back=tuple(other for other in now if other not in then),
    )


def _learned(lesson: Lesson, before: Lesson, after: Lesson) -> Lesson:
    """Return the lesson with what one change added to another state of it."""
    metadata = dict(lesson.metadata)
    for key in (COPIES, TASKS):
        old, known = listed(lesson, key), listed(before, key)
        new = [item for item in listed(after, key) if item not in known and item not in old]
        if new:
            metadata[key] = [*old, *new]
    total = copies_total(after) - copies_total(before)
    if total:
        metadata[COPIES_TOTAL] = copies_total(lesson) + total
    tools = dict.fromkeys((*lesson.tools, *(each for each in after.tools if each not in before.tools)))
    against = (*lesson.contradicts, *(each for each in after.contradicts if each not in before.contradicts))
    return replace(
        lesson,
        support=lesson.support + max(0, after.support - before.support),
        tools=tuple(tools),
        contradicts=tuple(dict.fromkeys(against)),
        metadata=metadata,
    )


def listed(lesson: Lesson, key: str) -> Sequence[JSON]:
    """Return a list of a lesson's metadata; empty if there is none."""
    return cast("Sequence[JSON]", lesson.metadata.get(key, ()))


def copies_total(lesson: Lesson) -> int:
    """Return how many copies a lesson took in, also those that it keeps no note of."""
    return cast("int", lesson.metadata.get(COPIES_TOTAL, 0))
