"""What people, rules and models do to lessons after they were learned: approve, reject, retire, edit, merge, roll back.

Every deed is a change with an entry in the lesson's history, so each can be undone; none rewrites the whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from jeeves_reflexion.errors import (
    ConfigurationError,
    LessonRefusedError,
    LessonStoreError,
    UnknownLessonError,
)
from jeeves_reflexion.lessons.forgetting import STRUCK
from jeeves_reflexion.lessons.gate import clean_lesson, shape_problem
from jeeves_reflexion.lessons.merging import MERGED_INTO, absorbed, merged_away
from jeeves_reflexion.lessons.quarantine import Held, Quarantine
from jeeves_reflexion.lessons.records import lesson_from_fields
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.lessons.shelf import TRIES, Change, Shelf, store_errors
from jeeves_reflexion.lessons.undoing import Entry, Undoing, undoing
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import JSON, Lesson, LessonState


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person: proposed lessons, and texts that were not let in."""

    proposed: tuple[Lesson, ...]
    held: tuple[Held, ...]


class Curator:
    """Changes the lessons of one shelf, on behalf of ``by``, whose name goes into the history."""

    def __init__(self, shelf: Shelf, *, by: str = "") -> None:
        self._shelf = shelf
        self._quarantine = Quarantine(shelf)
        self._by = by

    async def waiting(self) -> Waiting:
        """Return what waits for a decision, oldest first."""
        async with store_errors("read what waits for review"):
            proposed = [lesson async for lesson in self._shelf.each() if lesson.state == "proposed"]
            return Waiting(tuple(proposed), tuple(await self._quarantine.all()))

    async def approve(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a proposed lesson active, or let a held text in; one that is active already stays as it is."""
        async with store_errors("approve a lesson"):
            held = await self._quarantine.get(lesson_id)
            if held is not None:
                return await self._quarantine.release(held, Change("approve", reason, self._by))
        return await self._to(lesson_id, "active", "approve", reason, among=("proposed", "active"))

    async def reject(self, lesson_id: str, *, reason: str = "") -> Lesson | None:
        """Retire a proposed lesson, so that it is not learned again, or throw a held text away (then None)."""
        async with store_errors("reject a lesson"):
            if await self._quarantine.drop(lesson_id):
                return None
        why = f"rejected: {reason}" if reason else "rejected"
        return await self._to(lesson_id, "retired", "reject", why, among=("proposed",))

    async def retire(self, lesson_id: str, *, reason: str) -> Lesson:
        """Keep a lesson, and recall it no more; it does not come back by being learned again."""
        if not reason.strip():
            raise ConfigurationError("a lesson is retired for a reason: say which")
        return await self._to(lesson_id, "retired", "retire", reason)

    async def restore(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a retired lesson active again; one that was merged into another is not merged by a write any more."""

        def make(lesson: Lesson) -> Lesson:
            return replace(_unmerged(lesson), state="active", state_reason=redact(reason))

        async with store_errors("restore a lesson"):
            there = await self._shelf.get(lesson_id)
        if there is not None and MERGED_INTO in there.metadata:
            await self._keep_apart(lesson_id)
        return await self._change(lesson_id, make, "restore", reason)

    async def edit(self, lesson_id: str, text: str, *, reason: str = "") -> Lesson:
        """Say a lesson in other words, which pass the same gate as those of a reflector."""
        cleaned = checked_text(lesson_id, text)
        return await self._change(lesson_id, lambda lesson: replace(lesson, text=cleaned), "edit", reason)

    async def merge(
        self, into: str, others: Sequence[str], *, text: str | None = None, reason: str = ""
    ) -> Lesson:
        """Let one lesson speak for others, in its words or new ones: it takes over their support, they are retired.

        Doing it again does nothing more, so one that was cut short is carried on by the same call. Nothing is merged
        where the new words are no lesson, or where one of the others was merged into a third lesson.
        """
        ids = list(dict.fromkeys(others))
        if not ids or into in ids:
            raise ConfigurationError("a merge takes at least one other lesson, and none into itself")
        if text is not None:
            checked_text(into, text)
        async with store_errors("merge lessons"):
            found = {lesson_id: await self._shelf.get(lesson_id) for lesson_id in (into, *ids)}
        for lesson_id, lesson in found.items():
            if lesson is None:
                raise LessonStoreError(f"there is no lesson {lesson_id!r}; nothing was merged")
            check_mergeable(lesson, into)
        for lesson_id in ids:
            await self._absorb(into, cast("Lesson", found[lesson_id]), reason)
        if text is not None:
            await self.edit(into, text, reason=reason)
        return await self._change(into, lambda _: None, "merge", reason)

    async def _absorb(self, into: str, copy: Lesson, reason: str) -> None:
        change = Change("merge", reason or f"with {copy.id}", self._by)
        taking = replace(change, others=(copy.id,))
        async with store_errors("merge lessons"):
            if copy.metadata.get(MERGED_INTO) == into:
                return
            queries = await self._shelf.queries_of(copy.id)
            await self._shelf.change(
                into, lambda now: absorbed(now, copy, another_task=True), taking, queries=queries
            )
            await self._shelf.change(copy.id, lambda now: merged_away(now, into), change)

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; none where there is no such lesson."""
        async with store_errors("read a lesson's history"):
            return [_entry(value) for value in await self._shelf.entries(lesson_id)]

    async def rollback(self, lesson_id: str, *, to: int, reason: str = "") -> Lesson:
        """Make a lesson again what it was after its change number ``to``; that is a change as well.

        What attempts taught since stays: support, copies and contradictions. Lessons that were merged into it since
        come back as they were, and it is no more recalled for their tasks; going back to before a rollback merges them
        again. Raises :class:`LessonStoreError` for a number that there is not, and for words of a lesson that was
        forgotten since.
        """
        for _ in range(TRIES):
            async with store_errors("roll a lesson back"):
                start = await self._shelf.get(lesson_id)
            undo = await self.undoing(lesson_id, to=to)
            # The others first: one that is cut short has lost nothing then, and is carried on by the same call.
            for other in undo.back:
                await self._unmerge(other, lesson_id, reason)
            for other in undo.again:
                with contextlib.suppress(UnknownLessonError):
                    await self._change(other, lambda now: _merged_again(now, lesson_id), "merge", reason)
            change = Change("rollback", reason or f"back to change {to}", self._by, undo.merged)
            async with store_errors("roll a lesson back"):
                if await self._undo(lesson_id, start, undo, change):
                    return undo.lesson
        raise LessonStoreError(f"lesson {lesson_id!r} kept changing while it was rolled back: try again")

    async def undoing(self, lesson_id: str, *, to: int) -> Undoing:
        """Return what :meth:`rollback` would do, with the same errors, and do nothing."""
        undo = undoing(await self.history(lesson_id), to)
        if undo is None:
            raise LessonStoreError(f"lesson {lesson_id!r} has no change number {to}")
        if undo.lesson.text == STRUCK:
            raise LessonStoreError(f"change {to} of lesson {lesson_id!r} had the words of a forgotten lesson")
        return undo

    # -- how

    async def _undo(self, lesson_id: str, start: Lesson | None, undo: Undoing, change: Change) -> bool:
        """Whether the lesson was still what it was when the undoing was thought out, and is undone."""
        now = await self._shelf.change(
            lesson_id,
            lambda now: undo.lesson if now == start else None,
            change,
            queries=undo.queries,
            without=undo.without,
        )
        return now == undo.lesson

    async def _unmerge(self, lesson_id: str, into: str, reason: str) -> None:
        """Bring a merged lesson back in the state that it had before; one that was forgotten stays so."""
        state: LessonState = "active"
        why = ""
        for entry in await self.history(lesson_id):
            before, now = entry.before, entry.after.metadata.get(MERGED_INTO)
            if before is not None and now == into != before.metadata.get(MERGED_INTO):
                state, why = before.state, before.state_reason

        def make(lesson: Lesson) -> Lesson | None:
            if lesson.metadata.get(MERGED_INTO) != into:
                return None
            return replace(_unmerged(lesson), state=state, state_reason=why)

        await self._keep_apart(lesson_id)
        with contextlib.suppress(UnknownLessonError):
            await self._change(lesson_id, make, "unmerge", reason or f"the merge into {into} was taken back")

    async def _keep_apart(self, lesson_id: str) -> None:
        async with store_errors("keep a lesson apart"):
            if await self._shelf.get(lesson_id) is not None:
                await self._shelf.keep_apart(lesson_id)

    async def _to(
        self,
        lesson_id: str,
        state: LessonState,
        operation: str,
        reason: str,
        *,
        among: Sequence[LessonState] = ("active", "proposed", "retired"),
    ) -> Lesson:
        def make(lesson: Lesson) -> Lesson | None:
            if lesson.state not in among:
                raise LessonStoreError(
                    f"lesson {lesson_id!r} is {lesson.state}; to {operation} one, it must be {' or '.join(among)}"
                )
            return (
                None if lesson.state == state else replace(lesson, state=state, state_reason=redact(reason))
            )

        return await self._change(lesson_id, make, operation, reason)

    async def _change(
        self, lesson_id: str, make: Callable[[Lesson], Lesson | None], operation: str, reason: str
    ) -> Lesson:
        async with store_errors(f"{operation} a lesson"):
            return await self._shelf.change(lesson_id, make, Change(operation, reason, self._by))


def checked_text(lesson_id: str, text: str) -> str:
    """Return new words for a lesson as they are to be stored.

    Raises ``ConfigurationError`` for what is no lesson, and :class:`LessonRefusedError` for what gives orders.
    """
    problem = shape_problem(text)
    if problem is not None:
        raise ConfigurationError(f"the new text is no lesson: {problem}")
    cleaned = clean_lesson(text)
    finding = screen(cleaned)
    if finding is not None:
        raise LessonRefusedError(f"the new text gives orders ({finding.kind}): {finding.why}", lesson_id)
    return cleaned


def check_mergeable(lesson: Lesson, into: str) -> None:
    """Raise :class:`LessonStoreError` for a lesson that a third one speaks for, or would count twice."""
    speaker = lesson.metadata.get(MERGED_INTO)
    if speaker is not None and speaker != into:
        raise LessonStoreError(
            f"lesson {lesson.id!r} was merged into {speaker!r}: name that one, or take the merge back by rolling "
            "that one back"
        )


def _merged_again(lesson: Lesson, into: str) -> Lesson | None:
    return None if MERGED_INTO in lesson.metadata else merged_away(lesson, into)


def _unmerged(lesson: Lesson) -> Lesson:
    kept = {name: value for name, value in lesson.metadata.items() if name != MERGED_INTO}
    return replace(lesson, metadata=kept)


def _entry(value: JSON) -> Entry:
    try:
        data = cast("Mapping[str, JSON]", value)
        before, after = data["before"], data["after"]
        tasks = cast("Mapping[str, Sequence[str]]", data.get("tasks", {}))
        return Entry(
            number=cast("int", data["number"]),
            at=cast("float", data["at"]),
            operation=cast("str", data["operation"]),
            by=cast("str", data["by"]),
            reason=cast("str", data["reason"]),
            before=None if before is None else _whole(before),
            after=_whole(after),
            others=tuple(cast("Sequence[str]", data.get("others", ()))),
            added=tuple(tasks.get("added", ())),
            removed=tuple(tasks.get("removed", ())),
        )
    except (KeyError, TypeError) as error:
        raise LessonStoreError(f"an entry of a lesson's history can't be read: {error}") from error


def _whole(value: JSON) -> Lesson:
    data = cast("Mapping[str, JSON]", value)
    return lesson_from_fields(cast("str", data["text"]), data)
