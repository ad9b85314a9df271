"""Rolling a lesson back: with all that were merged into it, or are again, it is one write, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.forgetting import STRUCK
from jeeves_reflexion.lessons.merging import MERGED_INTO, merged_away, unmerged
from jeeves_reflexion.lessons.quarantine import Quarantine
from jeeves_reflexion.lessons.shelf import APART, TRIES, Change, Rewriting, Shelf
from jeeves_reflexion.lessons.together import MOST_TASKS, take_away_forgotten
from jeeves_reflexion.lessons.undoing import PUT_BACK, Entry, Undoing, entries_of, undoing
from jeeves_reflexion.types import Lesson, LessonState
from vectorstores.base import RecordWrite


@dataclass(frozen=True, slots=True)
class Order:
    """Which lesson goes back to which change, by whom and why."""

    lesson_id: str
    to: int
    reason: str = ""
    by: str = ""


async def roll_back(shelf: Shelf, quarantine: Quarantine, order: Order) -> Lesson:
    """Do what :func:`what_it_would_do` says, and return the lesson as it is then."""
    for _ in range(TRIES):
        start = await shelf.get(order.lesson_id)
        undo = await what_it_would_do(shelf, quarantine, order.lesson_id, order.to)
        if start is None:
            raise UnknownLessonError(f"there is no lesson {order.lesson_id!r}")
        rewritings = await _others(shelf, undo, order)
        apart = [each.before.id for each in rewritings if each.change.operation == "unmerge"]
        if MERGED_INTO in start.metadata and MERGED_INTO not in undo.lesson.metadata:
            apart.append(order.lesson_id)
        more = [RecordWrite(APART, each, {}) for each in apart]
        why = order.reason or f"back to change {order.to}"
        change = Change(PUT_BACK if undo.held else "rollback", why, order.by, undo.merged)
        if undo.held:
            done = await quarantine.take_back(start, undo, change, rewritings, more)
        else:
            own = Rewriting(start, undo.lesson, change, undo.queries, undo.without)
            if start != undo.lesson or set(undo.without) & {*await shelf.queries_of(start.id)}:
                rewritings = [own, *rewritings]
            done = not rewritings or await shelf.rewrite(rewritings, more)
        if done:
            gone = await take_away_forgotten(
                shelf, [order.lesson_id, *(each.before.id for each in rewritings)]
            )
            if order.lesson_id in gone:
                raise UnknownLessonError(f"lesson {order.lesson_id!r} was forgotten while it was rolled back")
            return undo.lesson
    raise LessonStoreError(f"lesson {order.lesson_id!r} kept changing while it was rolled back: try again")


async def what_it_would_do(shelf: Shelf, quarantine: Quarantine, lesson_id: str, to: int) -> Undoing:
    """Return what going back to a change means; raises :class:`LessonStoreError` where that can't be."""
    history = await entries_of(shelf, lesson_id)
    undo = undoing(history, to)
    if undo is None and not history and await shelf.is_forgotten(lesson_id):
        raise UnknownLessonError(f"lesson {lesson_id!r} was forgotten")
    if undo is None:
        raise LessonStoreError(f"lesson {lesson_id!r} has no change number {to}{_range(history)}")
    now = await shelf.get(lesson_id)
    if now is None and await quarantine.get(lesson_id) is not None:
        raise LessonStoreError(f"{lesson_id!r} is in quarantine: approve or reject it")
    if undo.lesson.text == STRUCK:
        raise LessonStoreError(f"change {to} of lesson {lesson_id!r} had the words of a forgotten lesson")
    if now is not None:
        _check_merged(now, undo, to)
        await _check_room(shelf, lesson_id, undo)
    return undo


def _range(history: Sequence[Entry]) -> str:
    if not history:
        return ""
    first, last = history[0].number, history[-1].number
    return f": it begins with {first}, and the last is {last}"


def _check_merged(now: Lesson, undo: Undoing, to: int) -> None:
    speaks, spoke = now.metadata.get(MERGED_INTO), undo.lesson.metadata.get(MERGED_INTO)
    if undo.held and speaks is not None:
        raise LessonStoreError(
            f"lesson {now.id!r} was merged into {speaks!r}: take the merge back by rolling that one back first"
        )
    if spoke not in (None, speaks):
        raise LessonStoreError(
            f"at change {to} lesson {now.id!r} was merged into {spoke!r}, which does not speak for it now: merge it "
            "again, or roll that one back"
        )


async def _check_room(shelf: Shelf, lesson_id: str, undo: Undoing) -> None:
    own = await shelf.queries_of(lesson_id)
    number = len({*own, *undo.queries} - {*undo.without})
    if own and undo.queries and number > MOST_TASKS:
        raise LessonStoreError(
            f"lesson {lesson_id!r} would be recalled by {number} tasks, and a lesson has at most {MOST_TASKS}: it "
            "learned more of them since"
        )


async def _others(shelf: Shelf, undo: Undoing, order: Order) -> list[Rewriting]:
    """What becomes of the lessons that come back, and of those that are merged once more; without forgotten ones."""
    into, found = order.lesson_id, list[Rewriting]()
    for other in undo.back:
        now = await shelf.get(other)
        if now is not None and now.metadata.get(MERGED_INTO) == into:
            state, why = await _state_before(shelf, other, into)
            change = Change("unmerge", order.reason or f"the merge into {into} was taken back", order.by)
            back = replace(unmerged(now), state=state, state_reason=why)
            found.append(Rewriting(now, back, change))
    for other in undo.again:
        now = await shelf.get(other)
        if now is not None and MERGED_INTO not in now.metadata:
            found.append(Rewriting(now, merged_away(now, into), Change("merge", order.reason, order.by)))
    return found


async def _state_before(shelf: Shelf, lesson_id: str, into: str) -> tuple[LessonState, str]:
    """The state that a lesson had before it was merged into another."""
    found: tuple[LessonState, str] = ("active", "")
    for entry in await entries_of(shelf, lesson_id):
        before, now = entry.before, entry.after.metadata.get(MERGED_INTO)
        if before is not None and now == into != before.metadata.get(MERGED_INTO):
            found = before.state, before.state_reason
    return found
