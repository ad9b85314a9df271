"""Whether an operation over lessons may be made: what a model proposed is held to the rules of any other lesson."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jeeves_reflexion.lessons.consolidation.operations import Operation, least_trust
from jeeves_reflexion.lessons.gate import clean_lesson, shape_problem
from jeeves_reflexion.lessons.likeness.comparing import contradicts, likeness
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.types import Lesson

COPY: Final = 0.85
"""Lessons at least this alike say the same."""
_HARMFUL: Final = ("edit", "merge", "retire", "downvote")
"""The operations by which one lesson could take another's place, or give it its words."""


def cleaned(operation: Operation) -> Operation:
    """Return the operation with its texts as lessons' texts are kept."""
    text = None if operation.text is None else clean_lesson(operation.text)
    return replace(operation, text=text or None, reason=clean_lesson(operation.reason))


def problem_with(operation: Operation, known: Mapping[str, Lesson], taken: Collection[str]) -> str:
    """Say why an operation can't or mustn't be made; empty if it may.

    ``known`` holds the lessons that it may name, ``taken`` the ids of those that are changed already.
    """
    unknown = [lesson_id for lesson_id in operation.ids if lesson_id not in known]
    if unknown:
        return f"there is no lesson {', '.join(unknown)} among these"
    lessons = [known[lesson_id] for lesson_id in operation.ids]
    return (
        _wrong_form(operation)
        or _wrong_state(operation, lessons, taken)
        or (_wrong_text(operation, known) if operation.text is not None else "")
        or (_wrong_merge(lessons) if operation.kind == "merge" else "")
        or (_wrong_trust(lessons, known) if operation.kind in _HARMFUL else "")
    )


def _wrong_trust(lessons: Sequence[Lesson], known: Mapping[str, Lesson]) -> str:
    """Words proposed in sight of a less trusted lesson may be its words; that one is to end may be what it wants."""
    lowest = least_trust(list(known.values()))
    higher = next((lesson for lesson in lessons if lesson.trust != lowest), None)
    if higher is None:
        return ""
    return f"lesson {higher.id} is {higher.trust}, and among these are {lowest} ones: these may not change it"


def _wrong_form(operation: Operation) -> str:
    kind, n = operation.kind, len(operation.ids)
    wrong = {
        "it names a lesson twice": len(set(operation.ids)) != n,
        "a merge takes at least two lessons": kind == "merge" and n < 2,
        "a new lesson must be drawn from at least one of these": kind == "add" and n < 1,
        f"to {kind} takes one lesson, not {n}": kind not in ("merge", "add") and n != 1,
        f"to {kind} takes a text": kind in ("add", "edit") and operation.text is None,
        f"to {kind} takes no text": kind in ("upvote", "downvote", "retire") and operation.text is not None,
        "a lesson is retired for a reason": kind == "retire" and not operation.reason,
    }
    return next((why for why, is_so in wrong.items() if is_so), "")


def _wrong_state(operation: Operation, lessons: Sequence[Lesson], taken: Collection[str]) -> str:
    for lesson in lessons:
        if lesson.state != "active":
            return f"lesson {lesson.id} is {lesson.state}"
        if operation.kind != "add" and lesson.id in taken:
            return f"lesson {lesson.id} is changed by an earlier operation of this plan"
    return ""


def _wrong_text(operation: Operation, known: Mapping[str, Lesson]) -> str:
    text = operation.text or ""
    problem = shape_problem(text)
    if problem:
        return f"its text is no lesson: {problem}"
    finding = screen(text)
    if finding is not None:
        return f"its text gives orders ({finding.kind}): {finding.why}"
    if operation.kind == "edit" and known[operation.ids[0]].text == text:
        return "its text is the one that the lesson has"
    if operation.kind == "add":
        copied = next((one for one in known.values() if likeness(one.text, text) >= COPY), None)
        if copied is not None:
            return f"lesson {copied.id} says so already"
    return ""


def _wrong_merge(lessons: Sequence[Lesson]) -> str:
    if len({lesson.trust for lesson in lessons}) > 1:
        return "lessons of different trust are not merged"
    for number, one in enumerate(lessons):
        for other in lessons[number + 1 :]:
            linked = other.id in one.contradicts or one.id in other.contradicts
            if linked or contradicts(one.text, other.text):
                return f"lessons {one.id} and {other.id} contradict each other: credit decides between them"
    return ""
