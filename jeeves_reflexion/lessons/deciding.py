"""What becomes of a newcomer: merged into a lesson that says the same, linked to one that says the opposite, or kept.

Pure: the store finds the neighbours, this module decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from jeeves_reflexion.lessons.likeness.comparing import compare
from jeeves_reflexion.lessons.merging import (
    MERGED_INTO,
    TASKS,
    MergeSettings,
    absorbed,
    evidence_of,
    known_evidence,
    known_tasks,
    listed,
)
from jeeves_reflexion.lessons.sameness import Neighbour, one_lesson, same_scope, slip_of, strength_of
from jeeves_reflexion.types import Lesson

Kind: TypeAlias = Literal["merge", "link", "new"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a newcomer.

    ``merge``: ``lesson`` is the stored lesson as it is to be now, under its own id; with ``keeps_task`` the newcomer's
    task becomes another face of it, and with ``rewrites`` its text changed and is to be embedded anew. ``link``:
    ``lesson`` is the newcomer with the ids of ``others``, which are to name it in turn; all are kept. ``new``:
    ``lesson`` is the newcomer as it came. ``reason`` is for people.
    """

    kind: Kind
    lesson: Lesson
    reason: str
    others: tuple[str, ...] = ()
    keeps_task: bool = False
    rewrites: bool = False


def decide(newcomer: Lesson, near: Sequence[Neighbour], settings: MergeSettings | None = None) -> Decision:
    """Decide what becomes of a newcomer, given its nearest lessons (five are enough) in any order.

    The text of the stored lesson stays: its credit was earned with these words, and copies of copies can't drift away
    from them. Only words of higher trust replace it. A copy of lower trust adds no support, so that nobody from
    outside can push a lesson up; a retired lesson takes its copies in and stays retired, so that what was found to
    harm does not come back under another id.
    """
    settings = settings or MergeSettings()
    found: list[tuple[tuple[float, float, int, str], Neighbour]] = []
    opposed = []
    for each in near:
        if each.lesson.id == newcomer.id or MERGED_INTO in each.lesson.metadata:
            continue
        seen = compare(newcomer.text, each.lesson.text)
        strength = strength_of(newcomer, each, seen, settings)
        if strength is None and slip_of(newcomer, each.lesson):
            strength = seen.likeness
        if strength is not None and _compatible(newcomer, each, settings):
            order = (strength, each.lesson_similarity, each.lesson.support, each.lesson.id)
            found.append((order, each))
        elif seen.contradictory and _opposes(newcomer, each, settings):
            opposed.append(each.lesson.id)
    if found:
        (strength, similarity, _, _), best = max(found, key=lambda item: item[0])
        return _merged(newcomer, best, settings, f"alike {strength:.2f}, similar {similarity:.2f}")
    if opposed:
        known = dict.fromkeys((*newcomer.contradicts, *opposed))
        reason = f"advises the opposite of {', '.join(opposed)}"
        return Decision("link", replace(newcomer, contradicts=tuple(known)), reason, tuple(opposed))
    return Decision("new", newcomer, "says what no lesson near it says")


def copies_near(
    lesson: Lesson, near: Sequence[Lesson], settings: MergeSettings | None = None
) -> tuple[Lesson, ...]:
    """Return those lessons near one that took a copy in which are copies of it too, now that it keeps that wording.

    Each is compared with the lesson by itself, never by way of another: that both are alike a third is not enough.
    """
    settings = settings or MergeSettings()
    if lesson.state != "active" or MERGED_INTO in lesson.metadata:
        return ()
    others = {each.id: each for each in near if each.state == "active" and each.id != lesson.id}
    return tuple(each for each in others.values() if one_lesson(lesson, each, settings))


def unsettled(
    newcomer: Lesson, near: Sequence[Neighbour], settings: MergeSettings | None = None
) -> tuple[str, ...]:
    """Return the ids of those neighbours whose ``task_similarity`` :func:`decide` needs; it may be unknown of others.

    These are few, since most newcomers neither say nor contradict what a lesson of another task says.
    """
    settings = settings or MergeSettings()
    found = []
    for each in near:
        seen = compare(newcomer.text, each.lesson.text)
        if newcomer.task_id not in known_tasks(each.lesson) and (
            seen.contradictory
            or strength_of(newcomer, each, seen, settings) is not None
            or slip_of(newcomer, each.lesson)
        ):
            found.append(each.lesson.id)
    return tuple(found)


def _compatible(newcomer: Lesson, each: Neighbour, settings: MergeSettings) -> bool:
    """Whether merging loses no way to recall the newcomer: recalls may be narrowed by kind of task and by agent."""
    old = each.lesson
    if not same_scope(newcomer, old):
        return False
    return not _another_task(newcomer, each, settings) or len(listed(old, TASKS)) + 1 < settings.tasks


def _opposes(newcomer: Lesson, each: Neighbour, settings: MergeSettings) -> bool:
    return (
        newcomer.task_kind == each.lesson.task_kind
        and each.lesson.state != "retired"
        and each.lesson_similarity >= settings.link_similarity
        and not _another_task(newcomer, each, settings)
    )


def _another_task(newcomer: Lesson, each: Neighbour, settings: MergeSettings) -> bool:
    if newcomer.task_id in known_tasks(each.lesson):
        return False
    return each.task_similarity is None or each.task_similarity < settings.same_task


def _merged(newcomer: Lesson, best: Neighbour, settings: MergeSettings, reason: str) -> Decision:
    another = _another_task(newcomer, best, settings)
    lesson = absorbed(best.lesson, newcomer, another_task=another, settings=settings)
    return Decision(
        "merge",
        lesson,
        reason,
        keeps_task=another and evidence_of(newcomer) not in known_evidence(best.lesson),
        rewrites=lesson.text != best.lesson.text,
    )
