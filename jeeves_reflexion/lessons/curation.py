"""What people, rules and models do to lessons after they were learned: approve, reject, retire, edit, merge, roll back.

Each is one write with an entry in the history of every lesson that it changes, so each can be rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.duplicates import merged, merged_away, unmerged
from jeeves_reflexion.lessons.gate import clean_words
from jeeves_reflexion.lessons.history import LET_IN, Change, Entry, Rollback, merged_in, rollback_to
from jeeves_reflexion.lessons.quarantine import Held, Quarantine
from jeeves_reflexion.lessons.records import MERGED_INTO, MOST_TASKS
from jeeves_reflexion.lessons.repository import Repository, Revision, StoredLesson, store_errors
from jeeves_reflexion.lessons.traces import STRUCK
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Lesson, LessonState

Decision: TypeAlias = Literal["approve", "reject", "retire", "restore"]

# The state that lessons get, and those that they may have before.
_DECISIONS: Final[Mapping[Decision, tuple[LessonState, tuple[LessonState, ...]]]] = {
    "approve": ("active", ("proposed", "active")),
    "reject": ("retired", ("proposed",)),
    "retire": ("retired", ("active", "proposed", "retired")),
    "restore": ("active", ("active", "proposed", "retired")),
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person: proposed lessons, and texts that were not let in."""

    proposed: tuple[Lesson, ...]
    held: tuple[Held, ...]


class Curator:
    """Changes the lessons of one repository, on behalf of ``by``, whose name goes into the history."""

    def __init__(self, repository: Repository, *, by: str = "") -> None:
        self._repository = repository
        self._quarantine = Quarantine(repository)
        self._by = by

    async def waiting(self) -> Waiting:
        """Return what waits for a decision, oldest first; also what others wrote whom nobody accepted here."""
        async with store_errors("read what waits for review"):
            reader = self._repository.reader
            seen = [reader.seen(lesson) async for lesson in self._repository.each()]
            proposed = tuple(lesson for lesson in seen if lesson.state == "proposed")
            return Waiting(proposed, tuple(await self._quarantine.all()))

    async def approve(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a proposed lesson active, or let a held text in; one that is active already stays as it is.

        One that another principal wrote is advice from then on to the principal of this store, and to those that accept
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
        """Make a retired lesson active again; one that was merged into another comes back by rolling that one back."""
        return (await self.decide("restore", [lesson_id], reason=reason))[0]

    async def decide(
        self, decision: Decision, lesson_ids: Sequence[str], *, reason: str = ""
    ) -> list[Lesson]:
        """Approve, reject, retire or restore several lessons in one write, and return them as they are then.

        Raises :class:`LessonStoreError` where it can't be done to one of them, and does it to none then. Texts in
        quarantine are no lessons.
        """
        if decision == "retire" and not reason.strip():
            raise ConfigurationError("a lesson is retired for a reason: say which")
        if decision == "reject":
            reason = f"rejected: {reason}" if reason else "rejected"
        change, reader = Change(decision, reason, self._by), self._repository.reader

        async def revise() -> tuple[list[Revision], list[Lesson]]:
            revisions = []
            for lesson_id in dict.fromkeys(lesson_ids):
                stored = await self._repository.known(lesson_id)
                after = _decided(decision, stored.lesson, reader.seen(stored.lesson).state, reason)
                if decision == "restore":
                    await self._check_alone(stored.lesson)
                if decision in ("approve", "restore"):
                    after = reader.approved(after)
                revisions.append(Revision(stored, after, change))
            return revisions, [each.after for each in revisions]

        async with store_errors(f"{decision} lessons"):
            return await self._repository.transact(revise, f"the lessons to {decision}")

    async def edit(self, lesson_id: str, text: str, *, reason: str = "") -> Lesson:
        """Say a lesson in other words, which pass the same gate as those of a reflector."""
        words = await clean_words(lesson_id, text, screen=self._repository.screen)
        change = Change("edit", reason, self._by)
        async with store_errors("edit a lesson"):
            return await self._repository.change(
                lesson_id, lambda lesson: replace(lesson, text=words), change
            )

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
        words = None if text is None else await clean_words(into, text, screen=self._repository.screen)
        change = Change("merge", reason, self._by)

        async def revise() -> tuple[list[Revision], Lesson]:
            revisions = await merge_revisions(self._repository, into, ids, words, change)
            return revisions, revisions[0].after

        async with store_errors("merge lessons"):
            return await self._repository.transact(revise, f"the lessons to be merged into {into!r}")

    async def check_merge(self, into: str, others: Sequence[str]) -> None:
        """Raise the :class:`LessonStoreError` that :meth:`merge` would, and do nothing."""
        async with store_errors("merge lessons"):
            await merge_revisions(self._repository, into, others, None, Change("merge"))

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; none where there is no such lesson."""
        async with store_errors("read a lesson's history"):
            return await self._repository.history(lesson_id)

    async def rollback(self, lesson_id: str, *, to: int, reason: str = "") -> Lesson:
        """Make a lesson again what it was after its change number ``to``; that is a change as well.

        What attempts taught since stays: support and contradictions. Lessons that were merged into it since come back
        as they were, and it is no more recalled for their tasks. It is one write: all of it is done, or nothing. A text
        that was let in from quarantine is retired with ``to=0``. Raises :class:`LessonStoreError` for a number that
        there is not, for words of a lesson that was forgotten since, for a lesson that another speaks for, for a state
        in which it spoke for lessons, or another for it, that are on their own now, and where a task by which it is
        recalled would be lost.
        """

        async def revise() -> tuple[list[Revision], Lesson]:
            back, stored = await self._preview(lesson_id, to)
            change = Change("rollback", reason or f"back to change {to}", self._by, back.merged)
            own = Revision(stored, back.lesson, change, back.tasks, back.without)
            return [own, *await self._unmerged(back, lesson_id, reason)], back.lesson

        async with store_errors("roll a lesson back"):
            return await self._repository.transact(revise, f"lesson {lesson_id!r}")

    async def preview(self, lesson_id: str, *, to: int) -> Rollback:
        """Return what :meth:`rollback` would do, with the same errors, and do nothing."""
        async with store_errors("roll a lesson back"):
            return (await self._preview(lesson_id, to))[0]

    async def _preview(self, lesson_id: str, to: int) -> tuple[Rollback, StoredLesson]:
        # The history second: where it is newer, the next number is taken, and both are read again.
        stored = await self._repository.known(lesson_id)
        history = await self._repository.history(lesson_id)
        back = rollback_to(history, to)
        if back is None:
            known = (
                f": it begins with {history[0].number}, and the last is {history[-1].number}"
                if history
                else ""
            )
            raise LessonStoreError(f"lesson {lesson_id!r} has no change number {to}{known}")
        if back.lesson.text == STRUCK:
            raise LessonStoreError(f"change {to} of lesson {lesson_id!r} had the words of a forgotten lesson")
        await self._check_alone(stored.lesson)
        if MERGED_INTO in back.lesson.metadata or not set(back.merged) <= set(merged_in(history)):
            raise LessonStoreError(
                f"at change {to} lesson {lesson_id!r} was merged with lessons that are on their own now: "
                "merge them again"
            )
        if stored.tasks and back.tasks:
            tasks = {*stored.tasks, *back.tasks} - {*back.without}
            _check_room(lesson_id, tasks, "it learned more of them since")
        return back, stored

    async def _check_alone(self, lesson: Lesson) -> None:
        """Refuse to bring a lesson back that another speaks for, with its support."""
        speaker = _speaker_of(lesson)
        if speaker is not None and await self._repository.get(speaker) is not None:
            raise LessonStoreError(
                f"lesson {lesson.id!r} was merged into {speaker!r}: take the merge back by rolling that one back"
            )

    async def _unmerged(self, back: Rollback, into: str, reason: str) -> list[Revision]:
        """What becomes of those lessons that come back and are still there."""
        found = []
        for other in back.back:
            stored = await self._repository.read(other)
            if stored is not None and stored.lesson.metadata.get(MERGED_INTO) == into:
                state, why = _state_before(await self._repository.history(other), into)
                alone = replace(unmerged(stored.lesson), state=state, state_reason=why)
                change = Change("unmerge", reason or f"the merge into {into} was taken back", self._by)
                found.append(Revision(stored, alone, change))
        return found


async def merge_revisions(
    repository: Repository, into: str, others: Sequence[str], text: str | None, change: Change
) -> list[Revision]:
    """Return what merging lessons changes, first the lesson that stays; those that were merged before are passed over.

    Raises :class:`LessonStoreError` where one is not there, speaks through a third one, or a task by which one is
    recalled would be lost.
    """
    found = []
    for lesson_id in (into, *others):
        stored = await repository.read(lesson_id)
        if stored is None:
            raise LessonStoreError(f"there is no lesson {lesson_id!r}; nothing was merged")
        _check_mergeable(stored.lesson, into)
        found.append(stored)
    kept, *rest = found
    coming = [each for each in rest if _speaker_of(each.lesson) is None]
    tasks = tuple(dict.fromkeys(task for each in coming for task in each.tasks))
    if kept.tasks:
        _check_room(into, {*kept.tasks, *tasks}, "merge fewer into it, or some into another one")
    made = merged(kept.lesson, [each.lesson for each in coming])
    made = made if text is None else replace(made, text=text)
    ids = tuple(each.lesson.id for each in coming)
    why = change.reason or (f"with {', '.join(ids)}" if ids else "")
    own = Change("merge" if ids else "edit", why, change.by, ids)
    gone = Change("merge", change.reason or f"into {into}", change.by)
    return [
        Revision(kept, made, own, tasks),
        *(Revision(each, merged_away(each.lesson, into), gone) for each in coming),
    ]


def _check_room(lesson_id: str, tasks: Collection[str], said: str) -> None:
    if len(tasks) > MOST_TASKS:
        raise LessonStoreError(
            f"lesson {lesson_id!r} would be recalled by {len(tasks)} tasks, and a lesson has at most {MOST_TASKS}: "
            f"{said}"
        )


def _speaker_of(lesson: Lesson) -> str | None:
    """The id of the lesson that another was merged into, unless that one was forgotten."""
    speaker = lesson.metadata.get(MERGED_INTO)
    return None if speaker in (None, STRUCK) else str(speaker)


def _check_mergeable(lesson: Lesson, into: str) -> None:
    speaker = _speaker_of(lesson)
    if speaker is not None and speaker != into:
        raise LessonStoreError(
            f"lesson {lesson.id!r} was merged into {speaker!r}: name that one, or take the merge back by rolling "
            "that one back"
        )
    if lesson.id == into and lesson.state == "retired":
        raise LessonStoreError(
            f"lesson {into!r} is retired, and can't speak for others: restore it, or roll its retirement back, first"
        )


def _decided(decision: Decision, lesson: Lesson, seen: LessonState, reason: str) -> Lesson:
    """What becomes of a lesson that whoever decides sees in a state, which may not be the stored one."""
    to, among = _DECISIONS[decision]
    if seen not in among:
        wanted = " or ".join(among)
        raise LessonStoreError(f"lesson {lesson.id!r} is {seen}; to {decision} one, it must be {wanted}")
    if decision == "restore":
        lesson = unmerged(lesson)
    elif lesson.state == to:
        return lesson
    return replace(lesson, state=to, state_reason=redact(reason))


def _state_before(history: Sequence[Entry], into: str) -> tuple[LessonState, str]:
    """The state that a lesson had before it was merged into another."""
    found: tuple[LessonState, str] = ("active", "")
    for entry in history:
        before, now = entry.before, entry.after.metadata.get(MERGED_INTO)
        if before is not None and now == into != before.metadata.get(MERGED_INTO):
            found = before.state, before.state_reason
    return found
