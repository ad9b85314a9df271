"""Whether an operation over lessons may be made: what a model proposed is held to the rules of any other lesson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jeeves_reflexion.lessons.consolidation.operations import Operation, least_trust
from jeeves_reflexion.lessons.gate import clean_lesson, shape_problem
from jeeves_reflexion.lessons.likeness.comparing import contradicts, likeness
from jeeves_reflexion.lessons.sameness import same_scope
from jeeves_reflexion.lessons.screening.detecting import screen
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Lesson

COPY: Final = 0.85
"""Lessons at least this alike say the same."""
_HARMFUL: Final = ("edit", "merge", "retire", "downvote")
"""The operations by which one lesson could take another's place, or give it its words."""


MOST_ADDED: Final = 3
"""So many new lessons are drawn from one cluster at most: a library is to become smaller."""
_LONGEST_REASON: Final = 300


@dataclass
class Sight:
    """What the operations over a cluster are checked against.

    ``known`` are the lessons that they may name, ``taken`` the ids of those that the plan changes already, and ``said``
    the texts that earlier operations gave lessons of this cluster.
    """

    known: Mapping[str, Lesson]
    taken: set[str]
    said: list[str] = field(default_factory=list)
    added: int = 0

    def take(self, operation: Operation) -> None:
        """Note an operation that was found right."""
        if operation.text is not None:
            self.said.append(operation.text)
        if operation.kind == "add":
            self.added += 1
        else:
            self.taken.update(operation.ids)


def cleaned(operation: Operation) -> Operation:
    """Return the operation with its texts as lessons' texts are kept."""
    text = None if operation.text is None else clean_lesson(operation.text)
    reason = abridge(clean_lesson(operation.reason), _LONGEST_REASON)
    return replace(operation, text=text or None, reason=reason)


def problem_with(operation: Operation, sight: Sight) -> str:
    """Say why an operation can't or mustn't be made; empty if it may."""
    known = sight.known
    unknown = [lesson_id for lesson_id in operation.ids if lesson_id not in known]
    if unknown:
        return f"there is no lesson {', '.join(unknown)} among these"
    lessons = [known[lesson_id] for lesson_id in operation.ids]
    return (
        _wrong_form(operation)
        or _wrong_state(operation, lessons, sight)
        or (_wrong_text(operation, lessons, sight) if operation.text is not None else "")
        or (_wrong_merge(lessons) if operation.kind == "merge" else "")
        or (_wrong_trust(lessons, known) if operation.kind in _HARMFUL else "")
        or (
            _wrong_rewording(operation.text, lessons, sight)
            if operation.text and operation.kind != "add"
            else ""
        )
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


def _wrong_state(operation: Operation, lessons: Sequence[Lesson], sight: Sight) -> str:
    for lesson in lessons:
        if lesson.state != "active":
            return f"lesson {lesson.id} is {lesson.state}"
        if operation.kind != "add" and lesson.id in sight.taken:
            return f"lesson {lesson.id} is changed by an earlier operation of this plan"
    if operation.kind == "add" and sight.added >= MOST_ADDED:
        return (
            f"{MOST_ADDED} new lessons are drawn from these already: more would not make the library smaller"
        )
    return ""


def _wrong_text(operation: Operation, lessons: Sequence[Lesson], sight: Sight) -> str:
    text = operation.text or ""
    problem = shape_problem(text)
    if problem:
        return f"its text is no lesson: {problem}"
    finding = screen(text)
    if finding is not None:
        return f"its text gives orders ({finding.kind}): {finding.why}"
    if operation.kind == "add":
        return _said_already(text, sight)
    own = operation.kind == "edit" and lessons[0].text == text
    return "its text is the one that the lesson has" if own else ""


def _wrong_rewording(text: str, lessons: Sequence[Lesson], sight: Sight) -> str:
    # How often it was learned and what is known of its effect stay with the lesson, and speak for what it said.
    opposite = next((each.id for each in lessons if contradicts(each.text, text)), None)
    if opposite is not None:
        return f"its text advises the opposite of lesson {opposite}: retire that one, and add a new one"
    same = next((each.id for each in sight.known.values() if each.text == text and each not in lessons), None)
    if same is not None:
        return f"lesson {same} says so already: merge them"
    return ""


def _said_already(text: str, sight: Sight) -> str:
    copied = next((one for one in sight.known.values() if likeness(one.text, text) >= COPY), None)
    if copied is not None:
        return f"lesson {copied.id} says so already"
    if any(likeness(said, text) >= COPY for said in sight.said):
        return "an earlier operation of this plan says so already"
    return ""


def _wrong_merge(lessons: Sequence[Lesson]) -> str:
    if len({lesson.trust for lesson in lessons}) > 1:
        return "lessons of different trust are not merged"
    other = next((each for each in lessons if not same_scope(lessons[0], each)), None)
    if other is not None:
        return (
            f"lessons {lessons[0].id} and {other.id} are of different agents or kinds of task: recalls that are "
            "narrowed to one of these would lose the other"
        )
    for number, one in enumerate(lessons):
        for other in lessons[number + 1 :]:
            linked = other.id in one.contradicts or one.id in other.contradicts
            if linked or contradicts(one.text, other.text):
                return f"lessons {one.id} and {other.id} contradict each other: credit decides between them"
    return ""
