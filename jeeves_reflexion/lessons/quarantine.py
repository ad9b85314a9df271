"""Texts that looked like instructions rather than lessons: kept apart, never recalled, until a person decides.

They are records and no chunks, so no search can find one, whatever its filter. One that was let in and is put back
keeps its history, which goes on where it is let in once more.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.keeping import HISTORY, entry_key, from_whole
from jeeves_reflexion.lessons.records import face_ids
from jeeves_reflexion.lessons.schema import HeldFields, checked
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.lessons.shelf import Change, Rewriting, Shelf, whole
from jeeves_reflexion.lessons.undoing import PUT_BACK, Undoing
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import ConflictError, Record, RecordWrite

QUARANTINE: Final = "quarantine"
_TAKEN_BACK: Final = "it was put back into quarantine"


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
        await self._records.append_once(QUARANTINE, lesson.id, _value(held))
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
        """Let a held text in after all, to be recalled; doing it twice is doing it once."""
        lesson = self._shelf.reader.approved(replace(held.lesson, state="active", state_reason=""))
        there = await self._shelf.get(held.id)
        if there is None:
            there = await self._put(held, lesson, change)
        elif _is_taken_back(there):  # and what did that was stopped in between
            there = await self._shelf.change(
                held.id, lambda now: lesson if _is_taken_back(now) else None, change
            )
        await self._records.delete_records(QUARANTINE, [held.id])
        return there

    async def take_back(
        self,
        lesson: Lesson,
        undo: Undoing,
        change: Change,
        others: Sequence[Rewriting] = (),
        more: Sequence[RecordWrite] = (),
    ) -> bool:
        """Put a lesson that was let in into quarantine again, as ``undo`` says; False if it has changed meanwhile.

        It is recalled no more from the first write on, which has the record of the quarantine and the entry of the
        history with it, and ``others`` that change by that with ``more`` records; its faces go with a second one.
        """
        entries = await self._shelf.entries(lesson.id)
        known = dict.fromkeys((*await self._shelf.queries_of(lesson.id), *undo.queries))
        queries = tuple(query for query in known if query not in undo.without)
        held = replace(_first_held(entries, undo.lesson), queries=queries)
        # What a release that was stopped left behind would stay in place of the record.
        await self._records.delete_records(QUARANTINE, [lesson.id])
        away = replace(undo.lesson, state="retired", state_reason=_TAKEN_BACK)
        rewriting = Rewriting(lesson, away, change, undo.queries, undo.without)
        record = RecordWrite(QUARANTINE, lesson.id, _value(held), must_be_new=True)
        if not await self._shelf.rewrite([rewriting, *others], [record, *more]):
            return False
        await self._shelf.store.delete(face_ids(lesson.id))
        return True

    async def drop(self, lesson_id: str) -> bool:
        """Throw a held text away, with the history of one that was let in once; False if there was none."""
        entries = cast("Sequence[Mapping[str, JSON]]", await self._shelf.entries(lesson_id))
        if not await self._records.delete_records(QUARANTINE, [lesson_id]):
            return False
        there = await self._shelf.get(lesson_id)
        if there is None:
            # No more than that: somebody may let it in at this moment.
            past = [entry_key(lesson_id, cast("int", entry["number"])) for entry in entries]
            if past:
                await self._records.delete_records(HISTORY, past)
        elif _is_taken_back(there):
            await self._shelf.remove(lesson_id)
        return True

    async def _put(self, held: Held, lesson: Lesson, change: Change) -> Lesson:
        why: dict[str, JSON] = {"held": {"kind": held.kind, "why": held.why, "at": held.at}}
        entries = cast("Sequence[Mapping[str, JSON]]", await self._shelf.entries(held.id))
        last = entries[-1] if entries else {"number": 0, "operation": PUT_BACK}
        if last["operation"] == PUT_BACK:
            number = cast("int", last["number"])
            # Of two who let it in at the same moment, the second finds the number taken.
            with contextlib.suppress(ConflictError):
                await self._shelf.put(lesson, held.queries or (lesson.text,), change, after=number, more=why)
                return lesson
        there = await self._shelf.get(held.id)
        if there is None:
            raise LessonStoreError(f"the held text {held.id!r} kept changing while it was let in: try again")
        return there


def _is_taken_back(lesson: Lesson) -> bool:
    return lesson.state == "retired" and lesson.state_reason == _TAKEN_BACK


def _first_held(entries: Sequence[JSON], lesson: Lesson) -> Held:
    """Why a lesson was in quarantine before it was let in, as its history says; if it does not, as it looks now."""
    for entry in reversed(cast("Sequence[Mapping[str, JSON]]", entries)):
        if "held" in entry:
            about = cast("Mapping[str, JSON]", entry["held"])
            kind, why, at = about["kind"], about["why"], about["at"]
            return Held(lesson, (), cast("str", kind), cast("str", why), cast("float", at))
    found = screen(lesson.text)
    if found is None:
        return Held(
            lesson, (), "unknown", "it was in quarantine once; why is not known any more", time.time()
        )
    return Held(lesson, (), found.kind, found.why, time.time())


def _value(held: Held) -> JSON:
    return {
        "lesson": whole(held.lesson),
        "tasks": list(held.queries),
        "kind": held.kind,
        "why": held.why,
        "at": held.at,
    }


def _held(record: Record) -> Held:
    try:
        found = checked(HeldFields, record.value)
        lesson = from_whole(cast("Mapping[str, JSON]", record.value).get("lesson"))
    except ConfigurationError as error:
        raise LessonStoreError(f"the held text {record.key!r} can't be read: {error}") from error
    return Held(lesson, found.tasks, found.kind, found.why, found.at)
