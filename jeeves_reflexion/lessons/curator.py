"""What people, rules and models do to lessons after they were learned: approve, reject, retire, edit, merge, roll back.

Every deed is a change with an entry in the lesson's history, so each can be undone; none rewrites the whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jeeves_reflexion.errors import (
    ConfigurationError,
    LessonRefusedError,
    LessonStoreError,
    UnknownLessonError,
)
from jeeves_reflexion.lessons.forgetting import STRUCK
from jeeves_reflexion.lessons.gate import clean_lesson, shape_problem
from jeeves_reflexion.lessons.hand_merging import Wish, merge_by_hand
from jeeves_reflexion.lessons.merging import MERGED_INTO, merged_away
from jeeves_reflexion.lessons.quarantine import Held, Quarantine
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.lessons.shelf import TRIES, Change, Shelf, store_errors
from jeeves_reflexion.lessons.undoing import LET_IN, PUT_BACK, Entry, Undoing, entries_of, undoing
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Lesson, LessonState


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
                return await self._quarantine.release(held, Change(LET_IN, reason, self._by))
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

        It is one write: all of it is done, or nothing. Doing it again does nothing more. Nothing is merged where the
        new words are no lesson, where one of the others was merged into a third lesson, or into a retired one.
        """
        ids = tuple(dict.fromkeys(others))
        if not ids or into in ids:
            raise ConfigurationError("a merge takes at least one other lesson, and none into itself")
        cleaned = None if text is None else checked_text(into, text)
        async with store_errors("merge lessons"):
            return await merge_by_hand(self._shelf, Wish(into, ids, cleaned, reason, self._by))

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; none where there is no such lesson."""
        async with store_errors("read a lesson's history"):
            return await entries_of(self._shelf, lesson_id)

    async def rollback(self, lesson_id: str, *, to: int, reason: str = "") -> Lesson:
        """Make a lesson again what it was after its change number ``to``; that is a change as well.

        What attempts taught since stays: support, copies and contradictions. Lessons that were merged into it since
        come back as they were, and it is no more recalled for their tasks; going back to before a rollback merges them
        again. A text that was let in from quarantine goes there again with ``to=0``, with its history, and with the
        words that it had then; to let it in once more, approve it. Raises :class:`LessonStoreError` for a number that
        there is not, and for words of a lesson that was forgotten since.
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
            operation = PUT_BACK if undo.held else "rollback"
            change = Change(operation, reason or f"back to change {to}", self._by, undo.merged)
            async with store_errors("roll a lesson back"):
                if await self._undo(lesson_id, start, undo, change):
                    return undo.lesson
        raise LessonStoreError(f"lesson {lesson_id!r} kept changing while it was rolled back: try again")

    async def undoing(self, lesson_id: str, *, to: int) -> Undoing:
        """Return what :meth:`rollback` would do, with the same errors, and do nothing."""
        history = await self.history(lesson_id)
        undo = undoing(history, to)
        if undo is None:
            begins = f": it begins with {history[0].number}" if history and to < history[0].number else ""
            raise LessonStoreError(f"lesson {lesson_id!r} has no change number {to}{begins}")
        await self._check_undone(lesson_id, undo)
        if undo.lesson.text == STRUCK:
            raise LessonStoreError(f"change {to} of lesson {lesson_id!r} had the words of a forgotten lesson")
        return undo

    # -- how

    async def _check_undone(self, lesson_id: str, undo: Undoing) -> None:
        async with store_errors("roll a lesson back"):
            now = await self._shelf.get(lesson_id)
            if now is None and await self._quarantine.get(lesson_id) is not None:
                raise LessonStoreError(f"{lesson_id!r} is in quarantine: approve or reject it")
        if undo.held and now is not None and MERGED_INTO in now.metadata:
            raise LessonStoreError(
                f"lesson {lesson_id!r} was merged into {now.metadata[MERGED_INTO]!r}: take the merge back by rolling "
                "that one back first"
            )

    async def _undo(self, lesson_id: str, start: Lesson | None, undo: Undoing, change: Change) -> bool:
        """Whether the lesson was still what it was when the undoing was thought out, and is undone."""
        if undo.held:
            return start is not None and await self._quarantine.take_back(start, undo, change)
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


def _merged_again(lesson: Lesson, into: str) -> Lesson | None:
    return None if MERGED_INTO in lesson.metadata else merged_away(lesson, into)


def _unmerged(lesson: Lesson) -> Lesson:
    kept = {name: value for name, value in lesson.metadata.items() if name != MERGED_INTO}
    return replace(lesson, metadata=kept)
