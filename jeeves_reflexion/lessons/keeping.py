"""What is read of a lesson's faces, and what a change of it writes: all its faces anew, and an entry of its history."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.records import (
    MOST_FACES,
    Key,
    UnreadableLessonError,
    chunks_of,
    empty_face,
    is_empty,
    lesson_fields,
    lesson_from_fields,
    lesson_of,
)
from jeeves_reflexion.lessons.schema import EntryFields, checked
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import Chunk, RecordWrite

HISTORY: Final = "history"
_NOTHING: Final[Mapping[str, JSON]] = {}


@dataclass(frozen=True, slots=True)
class Change:
    """Why and by whom a lesson is changed; ``operation`` is one word, such as ``retire``.

    ``others`` are the ids of the lessons that a merge takes in; of a rollback, those that are merged into it after it.
    """

    operation: str
    reason: str = ""
    by: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewriting:
    """One of several lessons that are changed in one write: what it was, what it is to be, and why.

    It is recalled by the texts of tasks ``queries`` too from then on, and no more by those ``without``.
    """

    before: Lesson
    after: Lesson
    change: Change
    queries: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A lesson as it lies in the store: with its tasks, the number of its last change, and how many faces it has."""

    lesson: Lesson
    queries: tuple[str, ...]
    key: Key
    changes: int
    faces: int

    @classmethod
    def of(cls, there: Sequence[Chunk]) -> Self | None:
        """Read a lesson from its faces; None where there are none."""
        chunks = [face for face in there if not is_empty(face)]
        if not chunks:
            return None
        first = chunks[0]
        key = first.metadata.get("key") or _old_key(chunks)
        changes = first.metadata.get("changes", 0)
        return cls(lesson_of(first), queries_of(chunks), cast("Key", key), cast("int", changes), len(there))

    def written(
        self,
        lesson: Lesson,
        change: Change,
        *,
        queries: Sequence[str] = (),
        without: Collection[str] = (),
    ) -> tuple[list[Chunk], RecordWrite]:
        """Return the faces of the lesson as it is after a change, and the entry of its history."""
        number = self.changes + 1
        known = self._tasks(queries, without) or (lesson.text,)
        faces = chunks_of(lesson, known, self.key, changes=number)
        lost = [empty_face(faces[0], each) for each in range(len(faces), self.faces)]
        retold = _retold(self.queries, known)
        return [*faces, *lost], entry_of(number, self.lesson, lesson, change, retold)

    def _tasks(self, queries: Sequence[str], without: Collection[str]) -> tuple[str, ...]:
        known = dict.fromkeys((*self.queries, *queries))
        return tuple(query for query in known if query not in without)[: MOST_FACES - 1]


def queries_of(faces: Sequence[Chunk]) -> tuple[str, ...]:
    """Return the tasks among the faces of a lesson: all but its own text, the second face unless it is the only one."""
    if (faces[0].metadata.get("key") or _old_key(faces)) == "lesson":
        return ()
    return tuple(_searched(chunk) for chunk in (faces[0], *faces[2:]))


def entry_key(lesson_id: str, number: int) -> str:
    """Return the key of an entry of a lesson's history."""
    return f"{lesson_id}:{number:06d}"


def entry_of(
    number: int, before: Lesson | None, after: Lesson, change: Change, more: Mapping[str, JSON] = _NOTHING
) -> RecordWrite:
    """Return an entry of a lesson's history, with ``more`` fields."""
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


def read_entry(value: JSON, key: str = "") -> tuple[EntryFields, Lesson | None, Lesson]:
    """Return what an entry of a history says, and the lesson before and after it.

    Raises :class:`UnreadableLessonError` that names the entry by its ``key``, and what does not fit.
    """
    try:
        fields = checked(EntryFields, value)
        entry = cast("Mapping[str, JSON]", value)
        before = None if entry.get("before") is None else from_whole(entry["before"])
        return fields, before, from_whole(entry.get("after"))
    except ConfigurationError as error:
        message = f"the entry {key!r} of a lesson's history can't be read: {error}"
        raise UnreadableLessonError(message, key) from error


def whole(lesson: Lesson) -> dict[str, JSON]:
    """Return a lesson with its text, as JSON."""
    return {"text": lesson.text, **lesson_fields(lesson)}


def from_whole(value: JSON) -> Lesson:
    """Read what :func:`whole` wrote; raises :class:`ConfigurationError` as ``lesson_from_fields`` does."""
    return lesson_from_fields(cast("str", value.get("text") if isinstance(value, Mapping) else None), value)


def _retold(before: Sequence[str], after: Sequence[str]) -> dict[str, JSON]:
    """What a change does to the tasks that a lesson is recalled by, as its entry keeps it; empty if nothing."""
    if not before:  # it is recalled by its own text
        return {}
    added = [query for query in after if query not in before]
    removed = [query for query in before if query not in after]
    return {"tasks": {"added": added, "removed": removed}} if added or removed else {}


def _old_key(chunks: Sequence[Chunk]) -> Key:
    """How a lesson of the first format was found, which did not say."""
    if len(chunks) > 1:
        return "both"
    return "lesson" if _searched(chunks[0]) == chunks[0].content else "task"


def _searched(chunk: Chunk) -> str:
    return chunk.content if chunk.embed_text is None else chunk.embed_text
