"""Texts that looked like instructions rather than lessons: kept apart, never recalled, until a person decides.

They are records and no chunks, so no search can find one, whatever its filter. One that was let in and is put back
keeps its history, which goes on where it is let in once more.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pydantic

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.gate import CleanLesson
from jeeves_reflexion.lessons.history import HISTORY, PUT_BACK, Change, entry_key
from jeeves_reflexion.lessons.records import Moment, Texts, WholeLesson, checked, whole
from jeeves_reflexion.lessons.repository import Repository
from jeeves_reflexion.lessons.screening.rules import Finding, screen
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import ConflictError, Record, RecordWrite

QUARANTINE: Final = "quarantine"
_PUT_BACK: Final = "it was put back into quarantine"


@dataclass(frozen=True, slots=True)
class Held:
    """A text that was not let in: the lesson that it would be, the texts of its tasks, why, and when (since 1970)."""

    lesson: Lesson
    tasks: tuple[str, ...]
    kind: str
    why: str
    at: float

    @property
    def id(self) -> str:
        """The id that the lesson has and keeps."""
        return self.lesson.id


class _StoredText(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    lesson: WholeLesson
    tasks: Texts
    kind: str
    why: str
    at: Moment


class Quarantine:
    """The held texts of one namespace."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._records = repository.records

    async def hold(self, clean: CleanLesson, finding: Finding) -> Held:
        """Keep a text apart."""
        held = Held(clean.lesson, clean.tasks, finding.kind, finding.why, time.time())
        await self._records.append_once(QUARANTINE, held.id, _value(held))
        return held

    async def get(self, lesson_id: str) -> Held | None:
        """Return a held text, or None."""
        record = await self._records.get(QUARANTINE, lesson_id)
        return None if record is None else _held(record)

    async def all(self) -> list[Held]:
        """Return all held texts, oldest first."""
        return [_held(record) async for record in each_record(self._records, QUARANTINE)]

    async def release(self, held: Held, change: Change) -> Lesson:
        """Let a held text in after all, to be recalled; doing it twice is doing it once."""
        repository = self._repository
        lesson = repository.reader.approved(replace(held.lesson, state="active", state_reason=""))
        there = await repository.get(held.id)
        if there is None:
            there = await self._put(held, lesson, change)
        elif is_put_back(there):  # and what did that was stopped in between
            there = await repository.change(held.id, lambda now: lesson if is_put_back(now) else None, change)
        await self._records.delete_records(QUARANTINE, [held.id])
        return there

    async def putting_back(self, lesson: Lesson, tasks: Sequence[str]) -> tuple[Lesson, RecordWrite]:
        """Return what a lesson that was let in is to be, and the record of it, for one write that puts it back.

        It is recalled no more from that write on; its chunks are to be deleted then.
        """
        held = replace(await self._first_held(lesson), tasks=tuple(tasks))
        # What a release that was stopped left behind would stay in place of the record.
        await self._records.delete_records(QUARANTINE, [lesson.id])
        away = replace(lesson, state="retired", state_reason=_PUT_BACK)
        return away, RecordWrite(QUARANTINE, lesson.id, _value(held), must_be_new=True)

    async def drop(self, lesson_id: str) -> bool:
        """Throw a held text away, with the history of one that was let in once; False if there was none."""
        entries = await self._repository.history(lesson_id)
        if not await self._records.delete_records(QUARANTINE, [lesson_id]):
            return False
        there = await self._repository.get(lesson_id)
        if there is None:
            # No more than that: somebody may let it in at this moment.
            past = [entry_key(lesson_id, entry.number) for entry in entries]
            if past:
                await self._records.delete_records(HISTORY, past)
        elif is_put_back(there):
            await self._repository.remove(lesson_id)
        return True

    async def _put(self, held: Held, lesson: Lesson, change: Change) -> Lesson:
        why: dict[str, JSON] = {"held": {"kind": held.kind, "why": held.why, "at": held.at}}
        entries = await self._repository.history(held.id)
        number = entries[-1].number if entries else 0
        if not entries or entries[-1].operation == PUT_BACK:
            clean = CleanLesson(lesson, held.tasks or (lesson.text,))
            # Of two who let it in at the same moment, the second finds the number taken.
            with contextlib.suppress(ConflictError):
                return await self._repository.put(clean, change, after=number, more=why)
        there = await self._repository.get(held.id)
        if there is None:
            raise LessonStoreError(f"the held text {held.id!r} kept changing while it was let in: try again")
        return there

    async def _first_held(self, lesson: Lesson) -> Held:
        """Why a lesson was held before it was let in, as its history says; if it does not, as it looks now."""
        for entry in reversed(await self._repository.entries(lesson.id)):
            if about := cast("Mapping[str, Any]", entry).get("held"):
                return Held(lesson, (), about["kind"], about["why"], about["at"])
        found = screen(lesson.text)
        why = "it was in quarantine once; why is not known any more" if found is None else found.why
        return Held(lesson, (), "unknown" if found is None else found.kind, why, time.time())


def is_put_back(lesson: Lesson) -> bool:
    """Whether a lesson is on its way back into quarantine: what did that was stopped before it took its chunks away."""
    return lesson.state == "retired" and lesson.state_reason == _PUT_BACK


def _value(held: Held) -> JSON:
    return {
        "lesson": whole(held.lesson),
        "tasks": list(held.tasks),
        "kind": held.kind,
        "why": held.why,
        "at": held.at,
    }


def _held(record: Record) -> Held:
    try:
        return Held(**dict(checked(_StoredText, record.value)))
    except ConfigurationError as error:
        raise LessonStoreError(f"the held text {record.key!r} can't be read: {error}") from error
