"""Changes to stored lessons by people, rules and models: approve, reject, retire, edit, merge, roll back.

Each change is one write, with an entry in the history of every lesson that it touches, and can be rolled back.
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
from jeeves_reflexion.lessons.records import MERGED_INTO, MOST_TASKS, StoredLesson
from jeeves_reflexion.lessons.repository import Repository, Revision, store_errors
from jeeves_reflexion.lessons.traces import STRUCK
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Lesson, LessonState

Decision: TypeAlias = Literal["approve", "reject", "retire", "restore"]

# For each decision: the state that it gives a lesson, and the states that the lesson may be in before.
_DECISIONS: Final[Mapping[Decision, tuple[LessonState, tuple[LessonState, ...]]]] = {
    "approve": ("active", ("proposed", "active")),
    "reject": ("retired", ("proposed",)),
    "retire": ("retired", ("active", "proposed", "retired")),
    "restore": ("active", ("active", "proposed", "retired")),
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person to decide: proposed lessons and texts in quarantine."""

    proposed: tuple[Lesson, ...]
    held: tuple[Held, ...]


class Curator:
    """Changes the lessons of one repository. The history names ``by`` as the author of each change."""

    def __init__(self, repository: Repository, *, by: str = "") -> None:
        self._repository = repository
        self._quarantine = Quarantine(repository)
        self._by = by

    async def waiting(self) -> Waiting:
        """Return what waits for a decision, oldest first, including lessons of writers that are not accepted here."""
        async with store_errors("read what waits for review"):
            reader = self._repository.reader
            seen = [reader.seen(lesson) async for lesson in self._repository.each()]
            proposed = tuple(lesson for lesson in seen if lesson.state == "proposed")
            return Waiting(proposed, tuple(await self._quarantine.all()))

    async def approve(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a proposed lesson active, or release a text from quarantine. An active lesson stays as it is.

        A lesson of another principal becomes advice to the principal of this store, and to those that accept this
        principal, until somebody changes its words.
        """
        async with store_errors("approve a lesson"):
            held = await self._quarantine.get(lesson_id)
            if held is not None:
                return await self._quarantine.release(held, Change(LET_IN, reason, self._by))
        return (await self.decide("approve", [lesson_id], reason=reason))[0]

    async def reject(self, lesson_id: str, *, reason: str = "") -> Lesson | None:
        """Retire a proposed lesson, so that it is not learned again, or delete a text in quarantine (returns None)."""
        async with store_errors("reject a lesson"):
            if await self._quarantine.drop(lesson_id):
                return None
        return (await self.decide("reject", [lesson_id], reason=reason))[0]

    async def retire(self, lesson_id: str, *, reason: str) -> Lesson:
        """Keep a lesson but stop recalling it. Learning it again does not bring it back."""
        return (await self.decide("retire", [lesson_id], reason=reason))[0]

    async def restore(self, lesson_id: str, *, reason: str = "") -> Lesson:
        """Make a retired lesson active again. To bring a merged lesson back, roll back the one it was merged into."""
        return (await self.decide("restore", [lesson_id], reason=reason))[0]

    async def decide(
        self, decision: Decision, lesson_ids: Sequence[str], *, reason: str = ""
    ) -> list[Lesson]:
        """Approve, reject, retire or restore several lessons in one write; return the changed lessons.

        Raises :class:`LessonStoreError` if the decision is impossible for one of them; none is changed then. Texts in
        quarantine do not count as lessons.
        """
        if decision == "retire" and not reason.strip():
            raise ConfigurationError("pass the reason why the lesson is retired")
        if decision == "reject":
            reason = f"rejected: {reason}" if reason else "rejected"
        change, reader = Change(decision, reason, self._by), self._repository.reader
        (to, among), why = _DECISIONS[decision], redact(reason)

        async def revise() -> list[Revision]:
            revisions = []
            for lesson_id in dict.fromkeys(lesson_ids):
                stored = await self._repository.known(lesson_id)
                after, seen = stored.lesson, reader.seen(stored.lesson).state
                if seen not in among:
                    wanted = " or ".join(among)
                    raise LessonStoreError(
                        f"lesson {after.id!r} is {seen}; to {decision} it, it must be {wanted}"
                    )
                if decision == "restore":
                    await self._check_alone(after)
                    after = unmerged(after)
                if decision == "restore" or after.state != to:
                    after = replace(after, state=to, state_reason=why)
                if to == "active":
                    after = reader.approved(after)
                revisions.append(Revision(stored, after, change))
            return revisions

        async with store_errors(f"{decision} lessons"):
            return await self._repository.transact(revise, f"the lessons to {decision}")

    async def edit(self, lesson_id: str, text: str, *, reason: str = "") -> Lesson:
        """Change the words of a lesson. They pass the same checks as the words of a reflector."""
        words = await clean_words(lesson_id, text, screen=self._repository.screen)
        change = Change("edit", reason, self._by)
        async with store_errors("edit a lesson"):
            return await self._repository.change(
                lesson_id, lambda lesson: replace(lesson, text=words), change
            )

    async def merge(
        self, into: str, others: Sequence[str], *, text: str | None = None, reason: str = ""
    ) -> Lesson:
        """Merge ``others`` into one lesson: it takes over their support and tasks, and they are retired.

        The lesson keeps its words unless ``text`` replaces them. The merge is one write, and repeating it changes
        nothing. Raises an error, and merges nothing, if ``text`` is not a lesson, if one of the others was merged into
        a third lesson, or if ``into`` is retired.
        """
        ids = tuple(dict.fromkeys(others))
        if not ids or into in ids:
            raise ConfigurationError(
                "a merge needs at least one other lesson, and can't merge a lesson into itself"
            )
        words = None if text is None else await clean_words(into, text, screen=self._repository.screen)
        change = Change("merge", reason, self._by)

        async def revise() -> list[Revision]:
            stored = [await self._repository.known(lesson_id) for lesson_id in (into, *ids)]
            return merge_revisions(stored, words, change)

        async with store_errors("merge lessons"):
            what = f"the lessons to be merged into {into!r}"
            return (await self._repository.transact(revise, what))[0]

    async def check_merge(self, into: str, others: Sequence[str]) -> None:
        """Raise the :class:`LessonStoreError` that :meth:`merge` would raise, but change nothing."""
        async with store_errors("merge lessons"):
            stored = [await self._repository.known(lesson_id) for lesson_id in (into, *others)]
            merge_revisions(stored, None, Change("merge"))

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; empty if the lesson does not exist."""
        async with store_errors("read a lesson's history"):
            return await self._repository.history(lesson_id)

    async def rollback(self, lesson_id: str, *, to: int, reason: str = "") -> Lesson:
        """Return a lesson to its state after change number ``to``; the rollback is itself a change, in one write.

        What attempts taught since then stays: support and contradictions. Lessons that were merged into it since then
        come back, and it is no longer recalled for their tasks.

        Raises :class:`LessonStoreError` if there is no such change, if its words were those of a lesson that was
        forgotten since, if the lesson is merged into another one now, if a merge of that time was taken back since, or
        if the lesson would be recalled by too many tasks.
        """

        async def revise() -> list[Revision]:
            # Before its history, which may be newer: then the write conflicts, and both are read again.
            stored = await self._repository.known(lesson_id)
            back = await self.preview(lesson_id, to=to)
            change = Change("rollback", reason or f"back to change {to}", self._by, back.merged)
            revisions = [Revision(stored, back.lesson, change, back.tasks, back.without)]
            change = Change("unmerge", reason or f"the merge into {lesson_id} was taken back", self._by)
            for each in back.back:
                other = await self._repository.read(each)
                if other is not None and other.lesson.metadata.get(MERGED_INTO) == lesson_id:
                    state, why = _state_before(await self._repository.history(each), lesson_id)
                    alone = replace(unmerged(other.lesson), state=state, state_reason=why)
                    revisions.append(Revision(other, alone, change))
            return revisions

        async with store_errors("roll a lesson back"):
            return (await self._repository.transact(revise, f"lesson {lesson_id!r}"))[0]

    async def preview(self, lesson_id: str, *, to: int) -> Rollback:
        """Return what :meth:`rollback` would do, with the same errors, but change nothing."""
        async with store_errors("roll a lesson back"):
            stored = await self._repository.known(lesson_id)
            history = await self._repository.history(lesson_id)
            back = rollback_to(history, to)
            if back is None:
                known = f": it has {history[0].number} to {history[-1].number}" if history else ""
                raise LessonStoreError(f"lesson {lesson_id!r} has no change number {to}{known}")
            if back.lesson.text == STRUCK:
                raise LessonStoreError(
                    f"change {to} of lesson {lesson_id!r} had the words of a forgotten lesson"
                )
            await self._check_alone(stored.lesson)
            if MERGED_INTO in back.lesson.metadata or not set(back.merged) <= set(merged_in(history)):
                raise LessonStoreError(
                    f"at change {to} lesson {lesson_id!r} was merged with lessons that are separate now: "
                    "merge them again"
                )
            if stored.tasks and back.tasks:
                tasks = {*stored.tasks, *back.tasks} - {*back.without}
                _check_room(lesson_id, tasks, "it learned more of them since")
            return back

    async def _check_alone(self, lesson: Lesson) -> None:
        """Raise an error for a lesson that is merged into another one, which has its support."""
        into = _merged_into(lesson)
        if into is not None and await self._repository.get(into) is not None:
            raise LessonStoreError(
                f"lesson {lesson.id!r} was merged into {into!r}: roll that one back to undo the merge"
            )


def merge_revisions(stored: Sequence[StoredLesson], text: str | None, change: Change) -> list[Revision]:
    """Return the revisions of a merge into the first lesson. Lessons that are merged into it already are skipped.

    Raises :class:`LessonStoreError` if the first is retired, if one is merged into a third one, or if the tasks of all
    would be too many for one lesson.
    """
    target, *rest = stored
    into = target.lesson.id
    for each in stored:
        third = _merged_into(each.lesson)
        if third is not None and third != into:
            raise LessonStoreError(
                f"lesson {each.lesson.id!r} was merged into {third!r}: name that one, or roll it back to undo the merge"
            )
    if target.lesson.state == "retired":
        raise LessonStoreError(
            f"lesson {into!r} is retired, and other lessons can't be merged into it: restore it first"
        )
    new = [each for each in rest if _merged_into(each.lesson) is None]
    tasks = tuple(dict.fromkeys(task for each in new for task in each.tasks))
    if target.tasks:
        _check_room(into, {*target.tasks, *tasks}, "merge fewer into it, or some into another one")
    after = merged(target.lesson, [each.lesson for each in new])
    after = after if text is None else replace(after, text=text)
    ids = tuple(each.lesson.id for each in new)
    why = change.reason or (f"with {', '.join(ids)}" if ids else "")
    takes_in = Change("merge" if ids else "edit", why, change.by, ids)
    retires = Change("merge", change.reason or f"into {into}", change.by)
    return [
        Revision(target, after, takes_in, tasks),
        *(Revision(each, merged_away(each.lesson, into), retires) for each in new),
    ]


def _check_room(lesson_id: str, tasks: Collection[str], advice: str) -> None:
    if len(tasks) > MOST_TASKS:
        raise LessonStoreError(
            f"lesson {lesson_id!r} would be recalled by {len(tasks)} tasks, and a lesson has at most {MOST_TASKS}: "
            f"{advice}"
        )


def _merged_into(lesson: Lesson) -> str | None:
    """Return the id of the lesson that this one is merged into, unless that lesson was forgotten."""
    into = lesson.metadata.get(MERGED_INTO)
    return None if into in (None, STRUCK) else str(into)


def _state_before(history: Sequence[Entry], into: str) -> tuple[LessonState, str]:
    """Return the state, and its reason, that a lesson had before it was last merged into another."""
    state: tuple[LessonState, str] = ("active", "")
    for entry in history:
        before, now = entry.before, entry.after.metadata.get(MERGED_INTO)
        if before is not None and now == into != before.metadata.get(MERGED_INTO):
            state = before.state, before.state_reason
    return state
