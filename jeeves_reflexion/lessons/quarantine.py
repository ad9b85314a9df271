"""Texts that looked like instructions rather than lessons: kept apart, never recalled, until a person decides.

They are records and no chunks, so no search can find one, whatever its filter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons.records import lesson_from_fields
from jeeves_reflexion.lessons.shelf import Change, Shelf, whole
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import Record

QUARANTINE: Final = "quarantine"


@dataclass(frozen=True, slots=True)
class Held:
    """A text that was not let in: the lesson that it would be, the texts of its tasks, why, and when (since 1970)."""

    lesson: Lesson
    queries: tuple[str, ...]
    kind: str
    why: str
    at: float

    @property
    def id(self) -> str:
        """The id that the lesson has and keeps."""
        return self.lesson.id


class Quarantine:
    """The held texts of one shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._records = shelf.records

    async def hold(self, lesson: Lesson, queries: Sequence[str], *, kind: str, why: str) -> Held:
        """Keep a text apart."""
        held = Held(lesson, tuple(queries), kind, why, time.time())
        value: JSON = {
            "lesson": whole(lesson),
            "tasks": list(queries),
            "kind": kind,
            "why": why,
            "at": held.at,
        }
        await self._records.append_once(QUARANTINE, lesson.id, value)
        return held

    async def get(self, lesson_id: str) -> Held | None:
        """Return a held text, or None."""
        record = await self._records.get(QUARANTINE, lesson_id)
        return None if record is None else _held(record)

    async def all(self) -> list[Held]:
        """Return all held texts, oldest first."""
        found: list[Held] = []
        after: str | None = None
        while True:
            page = await self._records.scan_records(QUARANTINE, after=after)
            found += map(_held, page.records)
            if page.next is None:
                return found
            after = page.next

    async def release(self, held: Held, change: Change) -> Lesson:
        """Let a held text in after all; doing it twice is doing it once."""
        lesson = await self._shelf.get(held.id)
        if lesson is None:
            lesson = held.lesson
            await self._shelf.put(lesson, held.queries, change)
        await self._records.delete_records(QUARANTINE, [held.id])
        return lesson

    async def drop(self, lesson_id: str) -> bool:
        """Throw a held text away; False if there was none."""
        return await self._records.delete_records(QUARANTINE, [lesson_id]) > 0


def _held(record: Record) -> Held:
    try:
        data = cast("Mapping[str, JSON]", record.value)
        lesson = cast("Mapping[str, JSON]", data["lesson"])
        return Held(
            lesson=lesson_from_fields(cast("str", lesson["text"]), lesson),
            queries=tuple(cast("Sequence[str]", data["tasks"])),
            kind=cast("str", data["kind"]),
            why=cast("str", data["why"]),
            at=cast("float", data["at"]),
        )
    except (KeyError, TypeError) as error:
        raise LessonStoreError(f"the held text {record.key!r} can't be read: {error}") from error
