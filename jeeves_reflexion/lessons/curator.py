"""What people, rules and models do to lessons after they were learned: approve, reject, retire, edit, merge, roll back.

Every deed is a change with an entry in the lesson's history, so each can be undone; none rewrites the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jeeves_reflexion.errors import (
    ConfigurationError,
    LessonRefusedError,
)
from jeeves_reflexion.lessons.deeds import DeedName, do_to_all
from jeeves_reflexion.lessons.gate import clean_lesson, shape_problem
from jeeves_reflexion.lessons.hand_merging import Wish, merge_by_hand
from jeeves_reflexion.lessons.quarantine import Held, Quarantine
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.lessons.screening.screens import screened
from jeeves_reflexion.lessons.shelf import Change, Shelf, store_errors
from jeeves_reflexion.lessons.taking_back import Order, roll_back, what_it_would_do
from jeeves_reflexion.lessons.undoing import LET_IN, Entry, Undoing, entries_of
from jeeves_reflexion.types import Lesson


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
        """Return what waits for a decision, oldest first; also what others wrote whom nobody accepted here."""
        async with store_errors("read what waits for review"):
            seen = [self._shelf.reader.seen(lesson) async for lesson in self._shelf.each()]
            proposed = tuple(lesson for lesson in seen if lesson.state == "proposed")
            return Waiting(proposed, tuple(await self._quarantine.all()))

    async def approve(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a proposed lesson active, or let a held text in; one that is active already stays as it is.

        One that another principal wrote is advice from then on to the principal of this shelf, and to those that accept
        it, until its words are changed.
        """
        async with store_errors("approve a lesson"):
            held = await self._quarantine.get(lesson_id)
            if held is not None:
                return await self._quarantine.release(held, Change(LET_IN, reason, self._by))
        return (await self.decide("approve", [lesson_id], reason=reason))[0]

    async def reject(self, lesson_id: str, *, reason: str = "") -> Lesson | None:
        """Retire a proposed lesson, so that it is not learned again, or throw a held text away (then None)."""
        async with store_errors("reject a lesson"):
            if await self._quarantine.drop(lesson_id):
                return None
        return (await self.decide("reject", [lesson_id], reason=reason))[0]

    async def retire(self, lesson_id: str, *, reason: str) -> Lesson:
        """Keep a lesson, and recall it no more; it does not come back by being learned again."""
        return (await self.decide("retire", [lesson_id], reason=reason))[0]

    async def restore(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a retired lesson active again; one that was merged into another is not merged by a write any more."""
        return (await self.decide("restore", [lesson_id], reason=reason))[0]

    async def decide(self, deed: DeedName, lesson_ids: Sequence[str], *, reason: str = "") -> list[Lesson]:
        """Approve, reject, retire or restore several lessons in one write, and return them as they are then.

        Raises :class:`LessonStoreError` where it can't be done to one of them, and does it to none then. Texts in
        quarantine are no lessons.
        """
        async with store_errors(f"{deed} lessons"):
            return await do_to_all(self._shelf, deed, lesson_ids, reason=reason, by=self._by)

    async def edit(self, lesson_id: str, text: str, *, reason: str = "") -> Lesson:
        """Say a lesson in other words, which pass the same gate as those of a reflector."""
        cleaned = await self._checked(lesson_id, text)
        change = Change("edit", reason, self._by)
        async with store_errors("edit a lesson"):
            return await self._shelf.change(lesson_id, lambda lesson: replace(lesson, text=cleaned), change)

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
        cleaned = None if text is None else await self._checked(into, text)
        async with store_errors("merge lessons"):
            return await merge_by_hand(self._shelf, Wish(into, ids, cleaned, reason, self._by))

    async def _checked(self, lesson_id: str, text: str) -> str:
        cleaned = checked_text(lesson_id, text)
        found = await screened(cleaned, self._shelf.screen)
        if found is not None:
            raise LessonRefusedError(f"the new text is not let in ({found.kind}): it {found.why}", lesson_id)
        return cleaned

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; none where there is no such lesson."""
        async with store_errors("read a lesson's history"):
            return await entries_of(self._shelf, lesson_id)

    async def rollback(self, lesson_id: str, *, to: int, reason: str = "") -> Lesson:
        """Make a lesson again what it was after its change number ``to``; that is a change as well.

        What attempts taught since stays: support, copies and contradictions. Lessons that were merged into it since
        come back as they were, and it is no more recalled for their tasks; going back to before a rollback merges them
        again. It is one write: all of it is done, or nothing. A text that was let in from quarantine goes there again
        with ``to=0``, with its history, and with the words that it had then; to let it in once more, approve it. A
        lesson that a consolidation added is retired with ``to=0``. Raises :class:`LessonStoreError` for a number that
        there is not, for words of a lesson that was forgotten since, for a state in which another lesson spoke for it
        that does not now, and where a task by which it is recalled would be lost.
        """
        async with store_errors("roll a lesson back"):
            return await roll_back(self._shelf, self._quarantine, Order(lesson_id, to, reason, self._by))

    async def undoing(self, lesson_id: str, *, to: int) -> Undoing:
        """Return what :meth:`rollback` would do, with the same errors, and do nothing."""
        async with store_errors("roll a lesson back"):
            return await what_it_would_do(self._shelf, self._quarantine, lesson_id, to)


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
