"""Quarantine: texts that look like instructions rather than lessons wait here until a person decides.

They are stored as records, not as chunks, so no search can find them, whatever its filter.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

import pydantic.dataclasses

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.gate import CleanLesson
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import Moment, Texts, WholeLesson, checked, whole
from jeeves_reflexion.lessons.repository import Repository
from jeeves_reflexion.lessons.screening.rules import Finding
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import ConflictError, Record

QUARANTINE: Final = "quarantine"


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(strict=True))
class Held:
    """A text in quarantine: the lesson it would be, the texts of its tasks, and why and when (seconds since 1970)."""

    lesson: WholeLesson
    tasks: Texts
    kind: str
    why: str
    at: Moment

    @property
    def id(self) -> str:
        """The id of the lesson."""
        return self.lesson.id


class Quarantine:
    """The texts in quarantine of one namespace."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._records = repository.records

    async def hold(self, clean: CleanLesson, finding: Finding) -> None:
        """Put a text into quarantine."""
        value: dict[str, JSON] = {
            "lesson": whole(clean.lesson),
            "tasks": list(clean.tasks),
            "kind": finding.kind,
            "why": finding.why,
            "at": time.time(),
        }
        await self._records.append_once(QUARANTINE, clean.lesson.id, value)

    async def get(self, lesson_id: str) -> Held | None:
        """Return a text in quarantine, or None."""
        record = await self._records.get(QUARANTINE, lesson_id)
        return None if record is None else _held(record)

    async def all(self) -> list[Held]:
        """Return all texts in quarantine, oldest first."""
        return [_held(record) async for record in each_record(self._records, QUARANTINE)]

    async def release(self, held: Held, change: Change) -> Lesson:
        """Store a text from quarantine as an active lesson; without a reason, its history says why it was held.

        Repeating it changes nothing.
        """
        repository = self._repository
        lesson = repository.reader.approved(replace(held.lesson, state="active", state_reason=""))
        clean = CleanLesson(lesson, held.tasks or (lesson.text,))
        change = replace(change, reason=change.reason or f"it was held ({held.kind}): {held.why}")
        stored = await repository.get(held.id)
        while stored is None:
            try:
                stored = await repository.put(clean, change)
            except ConflictError:  # somebody else released it a moment ago
                stored = await repository.get(held.id)
                if stored is None:  # or an earlier version put it back into quarantine but kept its history
                    await repository.remove(held.id)
        await self._records.delete_records(QUARANTINE, [held.id])
        return stored

    async def drop(self, lesson_id: str) -> bool:
        """Delete a text from quarantine; returns False if it does not exist."""
        return await self._records.delete_records(QUARANTINE, [lesson_id]) > 0


def _held(record: Record) -> Held:
    try:
        return checked(Held, record.value)
    except ConfigurationError as error:
        raise LessonStoreError(f"the text {record.key!r} in quarantine can't be read: {error}") from error
