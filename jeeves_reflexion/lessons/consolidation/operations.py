"""What may be done to lessons that are there already: each operation changes one lesson, or a few, and can be undone.

They are those of ExpeL (Zhao et al. 2023, arXiv 2308.10144) but for its votes, since measured effects say what a lesson
is worth, and follow ACE (Agentic Context Engineering, Zhang et al. 2025, arXiv 2510.04618): small changes applied by
deterministic code, because a model that rewrites the whole lets detail collapse. Nothing is removed: what is wrong is
retired, with its reason. What a model proposed is held to the rules of any other lesson.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from jeeves_reflexion.lessons.duplicates import least_trust, merged, merged_away, normalised, scope_of
from jeeves_reflexion.lessons.gate import clean_lesson, shape_problem
from jeeves_reflexion.lessons.records import DRAWN_FROM
from jeeves_reflexion.lessons.screening.rules import screen
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Lesson, Provenance

OperationKind: TypeAlias = Literal["add", "edit", "merge", "contradict", "retire"]

MOST_ADDED: Final = 3
"""So many new lessons are drawn from one cluster at most: a library is to become smaller."""
_LONGEST_REASON: Final = 300
_HARMFUL: Final = ("edit", "merge", "contradict", "retire")
"""The operations by which one lesson could take another's place, or give it its words."""
_OF_SEVERAL: Final = ("add", "merge", "contradict")


@dataclass(frozen=True, slots=True)
class Operation:
    """One change, as it is proposed.

    ``ids`` are the lessons concerned: the one that is edited or retired; the ones that are merged, the one
    that stays first; the two that contradict each other; the ones that a new lesson is drawn from. ``text`` is the new
    wording of an add or edit, and may be that of a merge.
    """

    kind: OperationKind
    ids: tuple[str, ...]
    text: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        what = f"{self.kind.upper()} {' + '.join(self.ids)}"
        text = f': "{self.text}"' if self.text is not None else ""
        return what + text + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Delta:
    """What one lesson is before an operation (None: it is new) and after it."""

    before: Lesson | None
    after: Lesson


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


def deltas(operation: Operation, lessons: Mapping[str, Lesson], *, at: float) -> tuple[Delta, ...]:
    """Return what an operation makes of the lessons; in a merge the one that stays comes first.

    ``lessons`` holds those of ``operation.ids`` and the others in whose sight it was proposed: a new lesson is trusted
    no more than the least trusted of them. ``at`` is when it comes to be (seconds since 1970).
    """
    concerned = [lessons[lesson_id] for lesson_id in operation.ids]
    first, *others = concerned
    match operation.kind:
        case "add":
            return (Delta(None, _drawn(operation, concerned, list(lessons.values()), at)),)
        case "edit":
            return (Delta(first, replace(first, text=operation.text or first.text)),)
        case "merge":
            stays = merged(first, others, {})
            stays = replace(stays, text=operation.text or stays.text)
            return (Delta(first, stays), *(Delta(each, merged_away(each, first.id)) for each in others))
        case "contradict":
            return tuple(
                Delta(one, _against(one, other)) for one, other in ((first, others[0]), (others[0], first))
            )
        case "retire":
            return (Delta(first, replace(first, state="retired", state_reason=operation.reason)),)


# -- what is let through


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
        or (_wrong_text(operation, lessons) if operation.text is not None else "")
        or (_wrong_merge(lessons) if operation.kind == "merge" else "")
        or (_wrong_trust(lessons, known) if operation.kind in _HARMFUL else "")
        or (_said_already(operation, lessons, sight) if operation.text is not None else "")
    )


def _wrong_form(operation: Operation) -> str:
    kind, n = operation.kind, len(operation.ids)
    wrong = {
        "it names a lesson twice": len(set(operation.ids)) != n,
        "a merge takes at least two lessons": kind == "merge" and n < 2,
        "a contradiction is between two lessons": kind == "contradict" and n != 2,
        "a new lesson must be drawn from at least one of these": kind == "add" and n < 1,
        f"to {kind} takes one lesson, not {n}": kind not in _OF_SEVERAL and n != 1,
        f"to {kind} takes a text": kind in ("add", "edit") and operation.text is None,
        f"to {kind} takes no text": kind not in ("add", "edit", "merge") and operation.text is not None,
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


def _wrong_text(operation: Operation, lessons: Sequence[Lesson]) -> str:
    text = operation.text or ""
    problem = shape_problem(text)
    if problem:
        return f"its text is no lesson: {problem}"
    finding = screen(text)
    if finding is not None:
        return f"its text gives orders ({finding.kind}): {finding.why}"
    if operation.kind == "edit" and lessons[0].text == text:
        return "its text is the one that the lesson has"
    return ""


def _said_already(operation: Operation, lessons: Sequence[Lesson], sight: Sight) -> str:
    text = normalised(operation.text or "")
    others = lessons if operation.kind != "add" else []
    said = {normalised(each.text): each.id for each in sight.known.values() if each not in others}
    if text in said:
        return f"lesson {said[text]} says so already"
    if text in map(normalised, sight.said):
        return "an earlier operation of this plan says so already"
    return ""


def _wrong_trust(lessons: Sequence[Lesson], known: Mapping[str, Lesson]) -> str:
    """Words proposed in sight of a less trusted lesson may be its words; that one is to end may be what it wants."""
    lowest = least_trust(known.values())
    higher = next((lesson for lesson in lessons if lesson.trust != lowest), None)
    if higher is None:
        return ""
    return f"lesson {higher.id} is {higher.trust}, and among these are {lowest} ones: these may not change it"


def _wrong_merge(lessons: Sequence[Lesson]) -> str:
    first, *others = lessons
    if len({lesson.trust for lesson in lessons}) > 1:
        return "lessons of different trust are not merged"
    other = next((each for each in others if scope_of(each) != scope_of(first)), None)
    if other is not None:
        return (
            f"lessons {first.id} and {other.id} are of different agents or kinds of task: recalls that are "
            "narrowed to one of these would lose the other"
        )
    for number, one in enumerate(lessons):
        for other in lessons[number + 1 :]:
            if other.id in one.contradicts or one.id in other.contradicts:
                return f"lessons {one.id} and {other.id} contradict each other: credit decides between them"
    return ""


def _against(lesson: Lesson, other: Lesson) -> Lesson:
    return replace(lesson, contradicts=tuple(dict.fromkeys((*lesson.contradicts, other.id))))


def _drawn(operation: Operation, sources: Sequence[Lesson], seen: Sequence[Lesson], at: float) -> Lesson:
    """A new lesson; its id follows from its text and sources, so that it is the same when it is added again."""
    text = operation.text or ""
    digest = hashlib.sha256("\x00".join([text, *sorted(operation.ids)]).encode("utf-8", "surrogatepass"))
    first = sources[0]
    kinds = {source.task_kind for source in sources}
    agents = {source.provenance.agent for source in sources}
    agent = first.provenance.agent if len(agents) == 1 else None
    return Lesson(
        id=digest.hexdigest()[:32],
        text=text,
        task_id=first.task_id,
        task_excerpt=first.task_excerpt,
        provenance=Provenance("consolidation", 0, None, agent=agent, created_at=at),
        task_kind=first.task_kind if len(kinds) == 1 else None,
        tools=tuple(dict.fromkeys(tool for source in sources for tool in source.tools)),
        outcome=first.outcome,
        metadata={DRAWN_FROM: list(operation.ids)},
        trust=least_trust(seen),
    )
