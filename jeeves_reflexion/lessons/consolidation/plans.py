"""Consolidation: small, checked changes over lessons that speak of the same thing, shown before they are made.

:func:`clusters` finds lessons that are near one another. A consolidator (a language model, or rules) proposes
operations on one cluster at a time, :func:`plan` checks each and says what it makes of the lessons concerned,
:func:`apply` makes them: each is one write with an entry in the history of every lesson that it changes, so that it can
be rolled back. Nothing is removed or reworded: lessons are merged, noted as contradicting each other, or retired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from jeeves_reflexion.lessons.repository import Repository, Revision, StoredLesson, store_errors
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Lesson

OperationKind: TypeAlias = Literal["merge", "contradict", "retire"]

NEAR: Final = 0.75
"""Lessons whose words are so near, as cosine similarity, are looked at together."""
MOST: Final = 12
_NEIGHBOURS: Final = 20
_LONGEST_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class Operation:
    """One change, as it is proposed.

    ``ids`` are the lessons concerned: the ones that are merged, the one that stays first; the two that contradict each
    other; the one that is retired.
    """

    kind: OperationKind
    ids: tuple[str, ...]
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {' + '.join(self.ids)}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Delta:
    """What one lesson is before an operation and after it."""

    before: Lesson
    after: Lesson


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that will not be made, as it was proposed, and why."""

    proposal: str
    why: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a consolidator proposes for one cluster, and what of its answer was no operation.

    ``review`` are lessons that a person should look at, since they may say the same.
    """

    operations: tuple[Operation, ...] = ()
    refused: tuple[Refused, ...] = ()
    review: tuple[Lesson, ...] = ()


class Consolidator(Protocol):
    """Proposes operations over lessons that speak of similar things."""

    async def __call__(self, cluster: Sequence[Lesson]) -> Proposals:
        """Return what should be done with these lessons; nothing is a good answer."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that was checked, and what it makes of each lesson."""

    operation: Operation
    deltas: tuple[Delta, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a consolidation would do; ``str()`` of it is for people.

    ``review`` are groups of lessons that a person should look at. ``stopped`` is why a model could not be asked about
    all that it was to be asked about.
    """

    steps: tuple[Step, ...] = ()
    refused: tuple[Refused, ...] = ()
    review: tuple[tuple[Lesson, ...], ...] = ()
    stopped: ReflexionError | None = None

    def __str__(self) -> str:
        return "\n".join(self._lines()) or "nothing to do"

    def _lines(self) -> Iterator[str]:
        for step in self.steps:
            yield str(step.operation)
            yield from (f"    {each.before.id}  {each.before.text}" for each in step.deltas)
        for group in self.review:
            yield "may say the same: look at these, or have a model look at them"
            yield from (f"    {lesson.id}  {lesson.text}" for lesson in group)
        yield from (f"refused: {each.proposal}: {each.why}" for each in self.refused)


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a plan: steps that were made, and those that were not, with the reason."""

    done: tuple[Step, ...] = ()
    skipped: tuple[tuple[Step, str], ...] = ()


async def clusters(repository: Repository, lessons: Iterable[Lesson]) -> list[tuple[Lesson, ...]]:
    """Group the stored ``lessons`` that are near one another; lessons near no other are left out.

    A group holds lessons of one task kind and one trust that are active, both as the repository's reader sees them: a
    stranger's lesson must not lead rules or a model to change the reader's own. Similarities of at least 0.75 connect
    a group (single link). A group of more than twelve is split, with the lessons of a task kept together. Makes one
    search for each lesson.
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
    found = []
    for ids in sorted(groups.values()):
        # Together with those of the same task: merged, these need no more room than one of them.
        members = sorted(
            (active[each] for each in ids), key=lambda one: (one.task_excerpt, one.task_id, one.id)
        )
        parts = [members[start : start + MOST] for start in range(0, len(members), MOST)]
        found += [tuple(part) for part in parts if len(part) > 1]
    return found


async def plan(groups: Iterable[Sequence[Lesson]], consolidator: Consolidator) -> Plan:
    """Ask for operations over each cluster and check them; nothing is changed.

    Operations that can't or mustn't be made are refused one by one, with the reason; the others stand. A lesson is
    changed by one operation of a plan at most. A cluster whose answer could not be read is refused as a whole, and the
    others stand. A model that can't be asked any more, or a budget that is used up, ends the plan with what was
    proposed until then, and is its ``stopped``; where nothing was answered at all it is raised, as is what else the
    consolidator raises.
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
            steps.append(Step(operation, _deltas(operation, [known[each] for each in operation.ids])))
            changed.update(operation.ids)
    return Plan(tuple(steps), tuple(refused), tuple(review), stopped)


async def apply(planned: Plan, repository: Repository, *, by: str = "consolidation") -> Applied:
    """Make the changes of a plan; making them twice changes nothing more.

    A step is one write, of all its lessons or of none, and skipped where one of its lessons is no longer what it was
    when the plan was made, or where a merge would lose a task by which a lesson is recalled. Raises
    :class:`LessonStoreError` for a store that fails; the steps before are done then, and applying the same plan again
    does the rest.
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
    """Make a step; raises :class:`LessonStoreError` where it can't be made."""
    operation, ids = step.operation, step.operation.ids

    async def revise() -> tuple[list[Revision], None]:
        there = [await _trusted(each, repository) for each in ids]
        for each, delta in zip(there, step.deltas, strict=True):
            if each.lesson != delta.before:
                raise LessonStoreError(f"lesson {each.lesson.id} was changed since the plan was made")
        if operation.kind == "merge":
            return await merge_revisions(repository, ids[0], ids[1:], None, change), None
        return [Revision(a, delta.after, change) for a, delta in zip(there, step.deltas, strict=True)], None

    await repository.transact(revise, "its lessons")


async def _trusted(lesson_id: str, repository: Repository) -> StoredLesson:
    stored = await repository.read(lesson_id)
    if stored is None:
        raise LessonStoreError(f"lesson {lesson_id} is gone")
    if not repository.reader.trusts(stored.lesson):
        raise LessonStoreError(
            f"lesson {lesson_id} was written by somebody whom nobody accepted here: approve it first"
        )
    return stored


def _deltas(operation: Operation, lessons: Sequence[Lesson]) -> tuple[Delta, ...]:
    """Return what an operation makes of its lessons; in a merge the one that stays comes first."""
    first, *others = lessons
    match operation.kind:
        case "merge":
            after = [merged(first, others), *(merged_away(each, first.id) for each in others)]
        case "contradict":
            after = [_against(first, others[0]), _against(others[0], first)]
        case "retire":
            after = [replace(first, state="retired", state_reason=operation.reason)]
    return tuple(Delta(one, then) for one, then in zip(lessons, after, strict=True))


def _against(lesson: Lesson, other: Lesson) -> Lesson:
    return replace(lesson, contradicts=tuple(dict.fromkeys((*lesson.contradicts, other.id))))


def _problem(operation: Operation, known: Mapping[str, Lesson], changed: set[str]) -> str:
    """Say why an operation can't or mustn't be made; empty if it may."""
    kind, ids = operation.kind, operation.ids
    if unknown := [each for each in ids if each not in known]:
        return f"there is no lesson {', '.join(unknown)} among these"
    lessons = [known[each] for each in ids]
    inactive = [f"lesson {each.id} is {each.state}" for each in lessons if each.state != "active"]
    taken = [
        f"lesson {each} is changed by an earlier operation of this plan" for each in ids if each in changed
    ]
    wrong = {
        "it names a lesson twice": len(set(ids)) != len(ids),
        "a merge takes at least two lessons": kind == "merge" and len(ids) < 2,
        "a contradiction is between two lessons": kind == "contradict" and len(ids) != 2,
        f"to retire takes one lesson, not {len(ids)}": kind == "retire" and len(ids) != 1,
        "a lesson is retired for a reason": kind == "retire" and not operation.reason,
        # Words proposed in sight of a less trusted lesson may be its words.
        "these lessons are of different trust: one of them may not change another": len(
            {each.trust for each in known.values()}
        )
        > 1,
        "these lessons are of different agents, writers or kinds of task: recalls that are narrowed to one of these "
        "would lose the others": kind == "merge" and len(set(map(scope_of, lessons))) > 1,
        "two of these lessons contradict each other: credit decides between them": kind == "merge"
        and any(set(each.contradicts) & set(ids) for each in lessons),
    }
    return next(iter([*(why for why, is_so in wrong.items() if is_so), *inactive, *taken]), "")
