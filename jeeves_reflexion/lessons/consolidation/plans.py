"""Consolidation: small, checked changes over lessons that speak of the same thing, shown before they are made.

:func:`clusters` finds lessons that are near one another. A consolidator (a language model, or rules) proposes
operations on one cluster at a time, :func:`plan` checks each and says what it makes of the lessons concerned,
:func:`apply` makes them: each is one write with an entry in the history of every lesson that it changes, so that it can
be rolled back, and is skipped where somebody changed one of these meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from jeeves_reflexion.errors import (
    BudgetExceededError,
    ConfigurationError,
    LessonStoreError,
    ModelError,
    ReflexionError,
    UnreadableReplyError,
)
from jeeves_reflexion.lessons.consolidation.operations import (
    Delta,
    Operation,
    Sight,
    cleaned,
    deltas,
    problem_with,
)
from jeeves_reflexion.lessons.curation import merge_revisions
from jeeves_reflexion.lessons.gate import CleanLesson
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.records import MERGED_INTO, MOST_TASKS, TEXT_CHUNKS
from jeeves_reflexion.lessons.repository import Repository, Revision, StoredLesson, store_errors
from jeeves_reflexion.lessons.screening.screens import Screen, screened
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import ConflictError

NEAR: Final = 0.75
"""Lessons whose words are so near, as cosine similarity, are looked at together."""
MOST: Final = 12
_NEIGHBOURS: Final = 20


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
        return "\n".join(_lines(self)) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a plan: steps done now, done before, and left undone with the reason."""

    done: tuple[Step, ...] = ()
    already: tuple[Step, ...] = ()
    skipped: tuple[tuple[Step, str], ...] = ()


async def clusters(
    repository: Repository, lessons: Iterable[Lesson], *, near: float = NEAR, most: int = MOST
) -> list[tuple[Lesson, ...]]:
    """Group active lessons of one task kind and trust whose words are near; those near no other are left out.

    Lessons of different trust never share a group: what a stranger's lesson says, to rules or a model, changes no own.
    A group is connected by similarities of at least ``near`` (single link), and split where it has more than ``most``,
    those of the same task together. One search for each lesson.
    """
    if most < 2:
        raise ConfigurationError(f"most must be at least 2, not {most}")
    active = {each.id: each for each in lessons if each.state == "active"}
    group_of = {lesson_id: {lesson_id} for lesson_id in active}
    async with store_errors("look for lessons that are alike"):
        for lesson in active.values():
            where: dict[str, JSON] = {**TEXT_CHUNKS, "task_kind": lesson.task_kind, "trust": lesson.trust}
            hits = await repository.store.search(lesson.text, k=_NEIGHBOURS, filter=where, min_score=near)
            for other in {str(hit.chunk.metadata["lesson_id"]) for hit in hits} & active.keys():
                if group_of[other] is not group_of[lesson.id] and active[other].trust == lesson.trust:
                    together = group_of[lesson.id] | group_of[other]
                    group_of |= dict.fromkeys(together, together)
    groups = {id(group): sorted(group) for group in group_of.values() if len(group) > 1}
    found = []
    for ids in sorted(groups.values()):
        # Together with those of the same task: merged, these need no more room than one of them.
        members = sorted(
            (active[each] for each in ids), key=lambda one: (one.task_excerpt, one.task_id, one.id)
        )
        parts = [members[start : start + most] for start in range(0, len(members), most)]
        found += [tuple(part) for part in parts if len(part) > 1]
    return found


async def plan(
    groups: Iterable[Sequence[Lesson]], consolidator: Consolidator, *, screen: Screen | None = None
) -> Plan:
    """Ask for operations over each cluster and check them; nothing is changed.

    Operations that can't or mustn't be made are refused one by one, with the reason; the others stand. A lesson is
    changed by one operation of a plan at most. A cluster whose answer could not be read is refused as a whole, and the
    others stand. A model that can't be asked any more, or a budget that is used up, ends the plan with what was
    proposed until then, and is its ``stopped``; where nothing was answered at all it is raised, as is what else the
    consolidator raises. ``screen`` judges new texts besides the rules.
    """
    at, steps, refused = time.time(), list[Step](), list[Refused]()
    review: list[tuple[Lesson, ...]] = []
    changed: set[str] = set()
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
        sight = Sight({lesson.id: lesson for lesson in cluster}, changed)
        for operation in map(cleaned, proposals.operations):
            why = problem_with(operation, sight)
            if not why and operation.text:
                found = await screened(operation.text, screen)
                why = "" if found is None else f"its text is not let in ({found.kind}): it {found.why}"
            if why:
                refused.append(Refused(str(operation), why))
                continue
            sight.take(operation)
            steps.append(Step(operation, deltas(operation, sight.known, at=at)))
            changed |= {delta.after.id for delta in steps[-1].deltas}
    return Plan(tuple(steps), tuple(refused), tuple(review), stopped)


async def apply(planned: Plan, repository: Repository, *, by: str = "consolidation") -> Applied:
    """Make the changes of a plan; making them twice changes nothing more.

    A step is one write, of all its lessons or of none, and skipped where one of its lessons is no longer what it was
    when the plan was made, or where a merge would lose a task by which a lesson is recalled. Raises
    :class:`LessonStoreError` for a store that fails; the steps before are done then, and applying the same plan again
    does the rest.
    """
    done, already, skipped = list[Step](), list[Step](), list[tuple[Step, str]]()
    async with store_errors("consolidate lessons"):
        for step in planned.steps:
            change = Change(step.operation.kind, step.operation.reason, by)
            make = _add if step.operation.kind == "add" else _make
            try:
                (done if await make(step, repository, change) else already).append(step)
            except LessonStoreError as error:
                skipped.append((step, str(error)))
    return Applied(tuple(done), tuple(already), tuple(skipped))


async def _make(step: Step, repository: Repository, change: Change) -> bool:
    """Make a step, and return whether anything had to be done; raises :class:`LessonStoreError` where it can't be."""
    operation, ids = step.operation, step.operation.ids

    async def revise() -> tuple[list[Revision], bool]:
        there = [await _trusted(each, repository) for each in ids]
        now = [each.lesson for each in there]
        merge = operation.kind == "merge"
        if merge and all(each.metadata.get(MERGED_INTO) == ids[0] for each in now[1:]):
            return [], False
        if now == [delta.after for delta in step.deltas]:
            return [], False
        for each, delta in zip(now, step.deltas, strict=True):
            if each != delta.before:
                raise LessonStoreError(f"lesson {each.id} was changed since the plan was made")
        if merge:
            return await merge_revisions(repository, ids[0], ids[1:], operation.text, change), True
        return [Revision(a, delta.after, change) for a, delta in zip(there, step.deltas, strict=True)], True

    return await repository.transact(revise, "its lessons")


async def _add(step: Step, repository: Repository, change: Change) -> bool:
    """Store a lesson that was drawn from others, unless it is there already, as it was put or changed since."""
    lesson, sources = step.deltas[0].after, step.operation.ids
    if await repository.get(lesson.id) is not None:
        return False
    if await repository.is_forgotten(lesson.id):
        raise LessonStoreError(f"lesson {lesson.id} was forgotten")
    there = [await _trusted(source, repository) for source in sources]
    if lesson.trust == "own" and not all(repository.reader.wrote(each.lesson) for each in there):
        lesson = replace(lesson, trust="shared")
    tasks = tuple(dict.fromkeys(task for each in there for task in each.tasks))
    try:
        await repository.put(CleanLesson(lesson, tasks[:MOST_TASKS] or (lesson.text,)), change)
    except ConflictError:  # another process made the same plan's step a moment ago
        return False
    for source in sources:
        if await repository.is_forgotten(source):  # while it was written
            await repository.remove(lesson.id)
            raise LessonStoreError(f"lesson {source} is gone")
    return True


async def _trusted(lesson_id: str, repository: Repository) -> StoredLesson:
    stored = await repository.read(lesson_id)
    if stored is None:
        raise LessonStoreError(f"lesson {lesson_id} is gone")
    if not repository.reader.trusts(stored.lesson):
        raise LessonStoreError(
            f"lesson {lesson_id} was written by somebody whom nobody accepted here: approve it first"
        )
    return stored


def _lines(planned: Plan) -> Iterator[str]:
    for step in planned.steps:
        reason = f"  ({step.operation.reason})" if step.operation.reason else ""
        yield f"{step.operation.kind}{reason}"
        for delta in step.deltas:
            yield from _change_lines(delta)
    for group in planned.review:
        yield "may say the same: look at these, or have a model look at them"
        yield from (f"    {lesson.id}  {lesson.text}" for lesson in group)
    if planned.refused:
        yield f"refused: {len(planned.refused)}"
        yield from (f"  {refused.proposal}: {refused.why}" for refused in planned.refused)


def _change_lines(delta: Delta) -> Iterator[str]:
    before, after = delta.before, delta.after
    if before is None:
        yield f"  + {after.id}  {after.text}"
        return
    yield f"  - {before.id}  {before.text}"
    if before.text != after.text:
        yield f"  + {after.id}  {after.text}"
    if before.state != after.state:
        yield f"    {before.state} -> {after.state}: {after.state_reason}"
    if before.support != after.support:
        yield f"    support {before.support} -> {after.support}"
    if before.contradicts != after.contradicts:
        yield f"    contradicts {', '.join(after.contradicts)}"
