"""The history of a lesson: numbered changes, each with the lesson before and after it, and how to roll them back.

A rollback keeps what attempts taught in the meantime (support and contradictions), for the changes that it takes back
did not cause that.
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
from vectorstores.base import Record, RecordWrite

HISTORY: Final = "history"
SUPPORT: Final = "support"
"""The operation by which an attempt that teaches a lesson again adds to its support."""
LET_IN: Final = "approve"
"""The first operation in the history of a text that was released from quarantine."""
# Rollbacks keep what these operations added. Earlier versions called support "copy".
_LEARNED: Final = (SUPPORT, "copy", "contradicted", "contradict")
# These replace the lessons that are merged in. An earlier version put texts back into quarantine.
_RESETS_MERGES: Final = ("rollback", "quarantine")


@dataclass(frozen=True, slots=True)
class Change:
    """Why and by whom a lesson is changed; ``operation`` is one word, such as ``retire``.

    ``others`` are the ids of the lessons that a merge takes in, or that remain merged in after a rollback.
    """

    operation: str
    reason: str = ""
    by: str = ""
    others: tuple[str, ...] = ()


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(strict=True))
class Entry:
    """One change of a lesson. ``before`` is None for the first; ``at`` is in seconds since 1970.

    ``others`` are those of the :class:`Change`. ``added`` and ``removed`` are the texts of tasks by which the lesson is
    recalled from then on, or no longer.
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
    """The result of a rollback: the lesson, the tasks that it gets and loses (``without``), and the merges.

    ``merged`` holds the ids of the lessons that remain merged into it, ``back`` of those that come back.
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


def read_entry(record: Record) -> Entry:
    """Read what :func:`entry_of` wrote; raises :class:`UnreadableLessonError`, which names the key and wrong fields."""
    try:
        fields = cast("Mapping[str, Any]", record.value)
        return checked(Entry, {**fields, **fields.get("tasks", {})})
    except (ConfigurationError, AttributeError, TypeError) as error:
        message = f"the entry {record.key!r} of a lesson's history can't be read: {error}"
        raise UnreadableLessonError(message, record.key) from error


def merged_in(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the ids of the lessons that are merged into a lesson, given its history."""
    merged: tuple[str, ...] = ()
    for entry in entries:
        if entry.operation == "merge":
            merged = tuple(dict.fromkeys((*merged, *entry.others)))
        elif entry.operation in _RESETS_MERGES:
            merged = entry.others
    return merged


def rollback_to(entries: Sequence[Entry], to: int) -> Rollback | None:
    """Return the result of a rollback to change number ``to``; None if the history has no such change."""
    number = next((at for at, entry in enumerate(entries, 1) if entry.number == to), 0)
    if not number:
        return None
    lesson = entries[number - 1].after
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
        # A task on which an attempt taught the lesson since then stays, whatever merges added or removed.
        tuple(task for task, there in tasks.items() if there and task not in taught),
        tuple(task for task, there in tasks.items() if not there and task not in taught),
        merged=then,
        back=tuple(other for other in now if other not in then),
    )


def _learned(lesson: Lesson, before: Lesson, after: Lesson) -> Lesson:
    """Return a lesson with what one change taught, which turned ``before`` into ``after``."""
    metadata = dict(lesson.metadata)
    for key in (COPIES, TASKS):
        old, known = listed(lesson, key), listed(before, key)
        new = [item for item in listed(after, key) if item not in known and item not in old]
        if new:
            metadata[key] = [*old, *new]
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
    """Return a list from a lesson's metadata; empty if the key is missing."""
    return cast("Sequence[JSON]", lesson.metadata.get(key, ()))
