"""What people decide on lessons: approve, reject, retire, restore. For several at once it is one write, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.merging import MERGED_INTO, unmerged
from jeeves_reflexion.lessons.shelf import APART, TRIES, Change, Rewriting, Shelf
from jeeves_reflexion.lessons.together import take_away_forgotten
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Lesson, LessonState
from vectorstores.base import RecordWrite

DeedName: TypeAlias = Literal["approve", "reject", "retire", "restore"]


@dataclass(frozen=True, slots=True)
class _Deed:
    """The state that lessons get, and those that they may have before."""

    to: LessonState
    among: tuple[LessonState, ...] = ("active", "proposed", "retired")


_DEEDS: Final[Mapping[DeedName, _Deed]] = {
    "approve": _Deed("active", ("proposed", "active")),
    "reject": _Deed("retired", ("proposed",)),
    "retire": _Deed("retired"),
    "restore": _Deed("active"),
}


async def do_to_all(
    shelf: Shelf, name: DeedName, lesson_ids: Sequence[str], *, reason: str, by: str
) -> list[Lesson]:
    """Do the same to several lessons in one write, and return them as they are then.

    Those that are so already stay as they are. Raises :class:`LessonStoreError` where it can't be done to one of them,
    and does it to none then.
    """
    if name == "retire" and not reason.strip():
        raise ConfigurationError("a lesson is retired for a reason: say which")
    if name == "reject":
        reason = f"rejected: {reason}" if reason else "rejected"
    change = Change(name, reason, by)
    for _ in range(TRIES):
        changes, apart, after = list[Rewriting](), list[RecordWrite](), list[Lesson]()
        for lesson_id in dict.fromkeys(lesson_ids):
            now = await shelf.get(lesson_id)
            if now is None:
                raise UnknownLessonError(f"there is no lesson {lesson_id!r}")
            done = _done(name, now, shelf.reader.seen(now).state, reason)
            after.append(shelf.reader.approved(done) if name in ("approve", "restore") else done)
            if after[-1] != now:
                changes.append(Rewriting(now, after[-1], change))
            if name == "restore" and MERGED_INTO in now.metadata:
                apart.append(RecordWrite(APART, lesson_id, {}))
        if not changes or await shelf.rewrite(changes, apart):
            gone = await take_away_forgotten(shelf, [each.before.id for each in changes])
            if gone:
                raise UnknownLessonError(f"lesson {gone[0]!r} was forgotten while it was changed")
            return after
    raise LessonStoreError(f"the lessons to {name} kept changing: try again")


def _done(name: DeedName, lesson: Lesson, seen: LessonState, reason: str) -> Lesson:
    """What becomes of a lesson that whoever decides sees in a state, which may not be the stored one."""
    deed = _DEEDS[name]
    if seen not in deed.among:
        wanted = " or ".join(deed.among)
        raise LessonStoreError(f"lesson {lesson.id!r} is {seen}; to {name} one, it must be {wanted}")
    if name == "restore":
        lesson = unmerged(lesson)
    elif lesson.state == deed.to:
        return lesson
    return replace(lesson, state=deed.to, state_reason=redact(reason))
