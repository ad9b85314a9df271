"""What may be done to lessons that are there already, as small deltas: each changes one lesson or merges a few.

The operations are those of ExpeL (Zhao et al. 2023, arXiv 2308.10144), where a model adds, edits, upvotes and
downvotes insights and one that lost its votes is removed, and of ACE (Agentic Context Engineering, Zhang et al. 2025,
arXiv 2510.04618), whose point is kept too: small changes applied by deterministic code, because a model that rewrites
the whole lets detail collapse. Here nothing is removed: what loses its votes is retired, with its reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from jeeves_reflexion.lessons.likeness.comparing import contradicts
from jeeves_reflexion.lessons.merging import joined, merged_away
from jeeves_reflexion.types import Lesson, Provenance, Trust

OperationKind: TypeAlias = Literal["add", "edit", "merge", "upvote", "downvote", "retire"]
KINDS: Final[tuple[OperationKind, ...]] = get_args(OperationKind)

VOTES: Final = "votes"
"""The key of a lesson's metadata that holds upvotes less downvotes."""
DRAWN_FROM: Final = "drawn_from"
"""The key of a lesson's metadata that holds the ids of the lessons that a consolidation drew it from."""

_NONE: Final[Mapping[str, int]] = {}
_LEAST_TRUSTED_FIRST: Final[tuple[Trust, ...]] = ("imported", "shared", "own")


@dataclass(frozen=True, slots=True)
class Operation:
    """One delta, as it is proposed.

    ``ids`` are the lessons concerned: the one that is edited, voted on or retired; the ones that are merged, the one
    that stays first; the ones that a new lesson is drawn from. ``text`` is the new wording of an add or edit, and may
    be that of a merge.
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


def deltas(
    operation: Operation, lessons: Mapping[str, Lesson], *, at: float, counted: Mapping[str, int] = _NONE
) -> tuple[Delta, ...]:
    """Return what an operation makes of the lessons; in a merge the one that stays comes first.

    ``lessons`` holds those of ``operation.ids`` and the others in whose sight it was proposed: a new lesson is trusted
    no more than the least trusted of them. ``at`` is when it comes to be (seconds since 1970). ``counted`` says of
    lessons that were merged into that one before how much of their support it has.
    """
    concerned = [lessons[lesson_id] for lesson_id in operation.ids]
    first = concerned[0]
    match operation.kind:
        case "add":
            return (Delta(None, _drawn(operation, concerned, list(lessons.values()), at)),)
        case "edit":
            return (Delta(first, replace(first, text=operation.text or first.text)),)
        case "merge":
            return _merge(first, concerned[1:], operation.text, counted)
        case "upvote":
            return (Delta(first, voted(first, 1, operation.reason)),)
        case "downvote":
            return (Delta(first, voted(first, -1, operation.reason)),)
        case "retire":
            return (Delta(first, replace(first, state="retired", state_reason=operation.reason)),)


def votes_of(lesson: Lesson) -> int:
    """Return upvotes less downvotes of a lesson."""
    votes = lesson.metadata.get(VOTES, 0)
    return votes if isinstance(votes, int) and not isinstance(votes, bool) else 0


def voted(lesson: Lesson, vote: int, reason: str) -> Lesson:
    """Return the lesson with one vote more or less.

    It is retired when downvotes outnumber its support: two for a lesson learned once, as in ExpeL, where an insight
    begins with an importance of two and goes at none.
    """
    votes = votes_of(lesson) + vote
    lesson = replace(lesson, metadata={**lesson.metadata, VOTES: votes})
    if lesson.support + votes >= 0:
        return lesson
    return replace(lesson, state="retired", state_reason=f"voted down: {reason}" if reason else "voted down")


def least_trust(lessons: Sequence[Lesson]) -> Trust:
    """Return the lowest trust among lessons: what is drawn from a stranger's words is a stranger's."""
    return min((lesson.trust for lesson in lessons), key=_LEAST_TRUSTED_FIRST.index)


def _merge(
    first: Lesson, others: Sequence[Lesson], text: str | None, counted: Mapping[str, int]
) -> tuple[Delta, ...]:
    stays = first
    for other in others:
        if other.id in counted:
            stays = replace(stays, support=stays.support + max(other.support - counted[other.id], 0))
        else:
            stays = joined(stays, other, another_task=True)
    gone = [merged_away(other, first.id) for other in others]
    left = tuple(lesson_id for lesson_id in stays.contradicts if lesson_id not in {one.id for one in others})
    stays = replace(stays, text=text or stays.text, contradicts=left)
    return (Delta(first, stays), *(Delta(before, after) for before, after in zip(others, gone, strict=True)))


def _drawn(operation: Operation, sources: Sequence[Lesson], seen: Sequence[Lesson], at: float) -> Lesson:
    """A new lesson, linked to those that it contradicts.

    Its id follows from its text and sources, so that it is the same when it is added again.
    """
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
        contradicts=tuple(each.id for each in seen if contradicts(each.text, text)),
    )
