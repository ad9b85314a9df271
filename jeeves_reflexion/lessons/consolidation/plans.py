"""Consolidation: small, checked changes to lessons about the same thing, shown before they are made.

:func:`clusters` groups lessons that are near one another. A consolidator (a language model, or rules) proposes
operations on one group at a time, and :func:`plan` checks them. :func:`apply` makes each as one write, which can be
rolled back. No lesson is removed or reworded: lessons are merged, marked as contradicting each other, or retired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, TypeAlias

from jeeves_reflexion.errors import (
    BudgetExceededError,
    LessonStoreError,
    ModelError,
    ReflexionError,
    UnreadableReplyError,
)
from jeeves_reflexion.lessons.curation import merge_revisions
from jeeves_reflexion.lessons.duplicates import merged, merged_away, scope_of
from jeeves_reflexion.lessons.gate import clean_lesson
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import TEXT_CHUNKS
from jeeves_reflexion.lessons.repository import Repository, Revision, store_errors
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Lesson

OperationKind: TypeAlias = Literal["merge", "contradict", "retire"]

NEAR: Final = 0.75
"""The cosine similarity of words from which lessons go into one group."""
MOST: Final = 12
"""The most lessons of a group."""
_NEIGHBOURS: Final = 20
_LONGEST_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class Operation:
    """One proposed change.

    ``ids`` are the lessons concerned: those to merge, with the one that stays first; the two that contradict each
    other; or the one to retire.
    """

    kind: OperationKind
    ids: tuple[str, ...]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {' + '.join(self.ids)}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Refused:
    """A proposal that was turned down, and why."""

    proposal: str
    why: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a consolidator proposes for one cluster; ``refused`` are parts of its answer that are not operations.

    ``review`` holds lessons that may say the same, for a person to look at.
    """

    operations: tuple[Operation, ...] = ()
    refused: tuple[Refused, ...] = ()
    review: tuple[Lesson, ...] = ()


class Consolidator(Protocol):
    """Proposes operations on lessons about similar things."""

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return what should be done with these lessons, which may be nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """A checked operation and its lessons, as they were when it was planned."""

    operation: Operation
    lessons: tuple[Lesson, ...]

    @property
    def after(self) -> tuple[Lesson, ...]:
        """The lessons as the operation makes them."""
        first, *others = self.lessons
        match self.operation.kind:
            case "merge":
                return merged(first, others), *(merged_away(each, first.id) for each in others)
            case "contradict":
                return tuple(
                    replace(one, contradicts=tuple(dict.fromkeys((*one.contradicts, other.id))))
                    for one, other in ((first, others[0]), (others[0], first))
                )
            case "retire":
                return (replace(first, state="retired", state_reason=self.operation.reason),)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a consolidation would do; ``str()`` of it is for people.

    ``review`` holds groups of lessons for a person to look at. ``stopped`` is the error that kept a model from being
    asked about the remaining groups.
    """

    steps: tuple[Step, ...] = ()
    refused: tuple[Refused, ...] = ()
    review: tuple[tuple[Lesson, ...], ...] = ()
    stopped: ReflexionError | None = None

    def __str__(self) -> str:
        lines = list[str]()
        for step in self.steps:
            lines += [str(step.operation), *(f"    {each.id}  {each.text}" for each in step.lessons)]
        for group in self.review:
            lines.append("may say the same: look at these, or have a model look at them")
            lines += [f"    {lesson.id}  {lesson.text}" for lesson in group]
        lines += [f"refused: {each.proposal}: {each.why}" for each in self.refused]
        return "\n".join(lines) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Applied:
    """The steps of a plan that were made, and those that were skipped, each with the reason."""

    done: tuple[Step, ...] = ()
    skipped: tuple[tuple[Step, str], ...] = ()


async def clusters(repository: Repository, lessons: Iterable[Lesson]) -> list[tuple[Lesson, ...]]:
    """Group the stored ``lessons`` that are near one another; lessons near no other are left out.

    The lessons of a group are active and of one task kind and one trust, as the repository's reader sees them, so that
    a stranger's lesson can't lead a model to change the reader's own. Similarities of at least 0.75 connect a group
    (single link). A group of more than twelve is split, with the lessons of a task together. One search per lesson.
    """
    lessons = list(lessons)
    seen = {each.id: repository.reader.seen(each) for each in lessons}
    active = {each.id: each for each in lessons if seen[each.id].state == "active"}
    group_of = {lesson_id: {lesson_id} for lesson_id in active}
    async with store_errors("look for lessons that are alike"):
        for lesson in active.values():
            where: dict[str, JSON] = {**TEXT_CHUNKS, "task_kind": lesson.task_kind, "trust": lesson.trust}
            hits = await repository.store.search(lesson.text, k=_NEIGHBOURS, filter=where, min_score=NEAR)
            for other in {str(hit.chunk.metadata["lesson_id"]) for hit in hits} & active.keys():
                if group_of[other] is not group_of[lesson.id] and seen[other].trust == seen[lesson.id].trust:
                    joined = group_of[lesson.id] | group_of[other]
                    group_of |= dict.fromkeys(joined, joined)
    groups = {id(group): sorted(group) for group in group_of.values() if len(group) > 1}
    parts = []
    for ids in sorted(groups.values()):
        # Lessons of one task stay together: merged, they need no more room than one of them.
        members = sorted(
            (active[each] for each in ids), key=lambda one: (one.task_excerpt, one.task_id, one.id)
        )
        parts += [tuple(members[start : start + MOST]) for start in range(0, len(members), MOST)]
    return [part for part in parts if len(part) > 1]


async def plan(groups: Iterable[Sequence[Lesson]], consolidator: Consolidator) -> Plan:
    """Ask for operations on each group and check them; nothing is changed.

    Impossible operations are refused one by one, with the reason, and so is a second change of a lesson. A group whose
    answer can't be read is refused as a whole. When the model fails or the budget is used up, the plan ends with the
    proposals so far, and the error is its ``stopped``; before the first answer it is raised, as other errors are.
    """
    steps, refused, review = list[Step](), list[Refused](), list[tuple[Lesson, ...]]()
    changed = set[str]()
    stopped: ReflexionError | None = None
    looked_at = [tuple(group) for group in groups]
    for number, cluster in enumerate(looked_at):
        try:
            proposals = await consolidator(cluster)
        except (ModelError, BudgetExceededError) as error:
            if not number:
                raise
            left = f"{len(looked_at) - number} of {len(looked_at)} groups of lessons"
            refused.append(Refused(left, f"not looked at: {error}"))
            stopped = error
            break
        except UnreadableReplyError as error:
            ids = ", ".join(lesson.id for lesson in cluster)
            refused.append(Refused(f"the answer about {ids}", str(error)))
            continue
        refused += proposals.refused
        review += [proposals.review] if proposals.review else []
        known = {lesson.id: lesson for lesson in cluster}
        for proposed in proposals.operations:
            reason = abridge(clean_lesson(proposed.reason), _LONGEST_REASON)
            operation = replace(proposed, reason=reason)
            if why := _problem(operation, known, changed):
                refused.append(Refused(str(operation), why))
                continue
            steps.append(Step(operation, tuple(known[each] for each in operation.ids)))
            changed.update(operation.ids)
    return Plan(tuple(steps), tuple(refused), tuple(review), stopped)


async def apply(planned: Plan, repository: Repository, *, by: str = "consolidation") -> Applied:
    """Make the changes of a plan. Applying it again changes nothing more.

    Each step is one write. A step is skipped if one of its lessons has changed since the plan was made, or if a merge
    would be recalled by too many tasks. Raises :class:`LessonStoreError` if the store fails; the steps before are done
    then, and applying the same plan again does the rest.
    """
    done, skipped = list[Step](), list[tuple[Step, str]]()
    async with store_errors("consolidate lessons"):
        for step in planned.steps:
            try:
                await _make(step, repository, Change(step.operation.kind, step.operation.reason, by))
                done.append(step)
            except LessonStoreError as error:
                skipped.append((step, str(error)))
    return Applied(tuple(done), tuple(skipped))


async def _make(step: Step, repository: Repository, change: Change) -> None:
    """Make one step; raises :class:`LessonStoreError` if that is impossible."""

    async def revise() -> list[Revision]:
        stored = []
        for planned in step.lessons:
            read = await repository.read(planned.id)
            if read is None:
                raise LessonStoreError(f"lesson {planned.id} no longer exists")
            if not repository.reader.trusts(read.lesson):
                raise LessonStoreError(
                    f"lesson {planned.id} has a writer who is not accepted here: approve it first"
                )
            if read.lesson != planned:
                raise LessonStoreError(f"lesson {planned.id} was changed since the plan was made")
            stored.append(read)
        if step.operation.kind == "merge":
            return merge_revisions(stored, None, change)
        return [Revision(before, after, change) for before, after in zip(stored, step.after, strict=True)]

    await repository.transact(revise, "its lessons")


def _problem(operation: Operation, known: Mapping[str, Lesson], changed: set[str]) -> str:
    """Return why an operation is impossible or not allowed; empty if it is fine."""
    kind, ids = operation.kind, operation.ids
    if unknown := [each for each in ids if each not in known]:
        return f"there is no lesson {', '.join(unknown)} among these"
    lessons = [known[each] for each in ids]
    inactive = [f"lesson {each.id} is {each.state}" for each in lessons if each.state != "active"]
    taken = [
        f"lesson {each} is changed by an earlier operation of this plan" for each in ids if each in changed
    ]
    merges, retires = kind == "merge", kind == "retire"
    # What a consolidator proposes after it has read a less trusted lesson may be what that lesson wants.
    mixed_trust = len({each.trust for each in known.values()}) > 1
    mixed_scope = len(set(map(scope_of, lessons))) > 1
    contradicting = any(set(each.contradicts) & set(ids) for each in lessons)
    checks = {
        "it names a lesson twice": len(set(ids)) != len(ids),
        "a merge takes at least two lessons": merges and len(ids) < 2,
        "a contradiction is between two lessons": kind == "contradict" and len(ids) != 2,
        f"to retire takes one lesson, not {len(ids)}": retires and len(ids) != 1,
        "a retirement needs a reason": retires and not operation.reason,
        "these lessons are of different trust: one of them may not change another": mixed_trust,
        "these lessons are of different agents, writers or kinds of task: recalls that are narrowed to one of these "
        "would lose the others": merges and mixed_scope,
        "two of these lessons contradict each other: credit decides between them": merges and contradicting,
    }
    return next(iter([*(why for why, wrong in checks.items() if wrong), *inactive, *taken]), "")
