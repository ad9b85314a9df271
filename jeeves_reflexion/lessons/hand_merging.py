"""A merge that a person asks for: one lesson speaks for others, which are retired. It is one write, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.merging import MERGED_INTO, joined, merged_away
from jeeves_reflexion.lessons.shelf import TRIES, Change, Rewriting, Shelf
from jeeves_reflexion.lessons.together import counted_already, lack_of_room, take_away_forgotten
from jeeves_reflexion.types import Lesson


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be merged into the lesson ``into``, in its words or a checked ``text``, by whom and why."""

    into: str
    others: tuple[str, ...]
    text: str | None = None
    reason: str = ""
    by: str = ""


async def merge_by_hand(shelf: Shelf, wish: Wish) -> Lesson:
    """Merge lessons as somebody wishes, and return the one that speaks for all.

    What was merged into it before is passed over. Raises :class:`LessonStoreError` for a lesson that can't be merged,
    and merges nothing then.
    """
    for _ in range(TRIES):
        kept, others = await _found(shelf, wish)
        await check_room(shelf, kept.id, others)
        changes = await _changes(shelf, wish, kept, others)
        if not changes:
            return kept
        if await shelf.rewrite(changes):
            await _check_not_forgotten(shelf, changes)
            return changes[0].after
    raise LessonStoreError(f"the lessons to be merged into {wish.into!r} kept changing: try again")


def check_mergeable(lesson: Lesson, into: str) -> None:
    """Raise :class:`LessonStoreError` for a lesson that a third one speaks for, or for ``into`` if it is retired."""
    speaker = lesson.metadata.get(MERGED_INTO)
    if speaker is not None and speaker != into:
        raise LessonStoreError(
            f"lesson {lesson.id!r} was merged into {speaker!r}: name that one, or take the merge back by rolling "
            "that one back"
        )
    if lesson.id == into and lesson.state == "retired":
        raise LessonStoreError(f"lesson {into!r} is retired, and can't speak for others: restore it first")


async def check_room(shelf: Shelf, into: str, others: Sequence[Lesson]) -> None:
    """Raise :class:`LessonStoreError` where a task by which one of the lessons is recalled would be lost."""
    problem = await lack_of_room(
        shelf, into, [copy.id for copy in others if MERGED_INTO not in copy.metadata]
    )
    if problem:
        raise LessonStoreError(problem)


async def _found(shelf: Shelf, wish: Wish) -> tuple[Lesson, list[Lesson]]:
    found = []
    for lesson_id in (wish.into, *wish.others):
        lesson = await shelf.get(lesson_id)
        if lesson is None:
            raise LessonStoreError(f"there is no lesson {lesson_id!r}; nothing was merged")
        check_mergeable(lesson, wish.into)
        found.append(lesson)
    return found[0], found[1:]


async def _changes(shelf: Shelf, wish: Wish, kept: Lesson, others: Sequence[Lesson]) -> list[Rewriting]:
    """What the merge changes, first the lesson that stays; nothing where it is done."""
    made, queries, away = kept, list[str](), list[Rewriting]()
    coming = [copy for copy in others if MERGED_INTO not in copy.metadata]
    counted = await counted_already(shelf, kept.id, [copy.id for copy in coming])
    for copy in coming:
        if copy.id in counted:
            more = max(copy.support - counted[copy.id], 0) * (copy.trust == kept.trust)
            made = replace(made, support=made.support + more)
        else:
            made = joined(made, copy, another_task=True)
        queries += await shelf.queries_of(copy.id)
        change = Change("merge", wish.reason or f"into {kept.id}", wish.by)
        away.append(Rewriting(copy, merged_away(copy, kept.id), change))
    if wish.text is not None:
        made = replace(made, text=wish.text)
    if not away and made == kept:
        return []
    ids = tuple(each.before.id for each in away)
    reason = wish.reason or (f"with {', '.join(ids)}" if ids else "")
    taking = Change("merge" if ids else "edit", reason, wish.by, ids)
    return [Rewriting(kept, made, taking, tuple(queries)), *away]


async def _check_not_forgotten(shelf: Shelf, changes: Sequence[Rewriting]) -> None:
    gone = await take_away_forgotten(shelf, [each.before.id for each in changes])
    if gone:
        raise UnknownLessonError(f"lesson {gone[0]!r} was forgotten while it was merged")
