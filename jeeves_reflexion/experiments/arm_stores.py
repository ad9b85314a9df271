"""The lesson stores that make an arm: each is a way to recall, over a store of lessons that it leaves as it is."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.effects import Withholding
from jeeves_reflexion.lessons.records import lesson_of
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.retrieval import Candidate, Ranked
from jeeves_reflexion.protocols import LessonStore
from jeeves_reflexion.redaction import redact_id
from jeeves_reflexion.types import Evaluation, Lesson, Provenance, Recall, RecalledLesson, Reflection, Task
from vectorstores.base import Filter

_NOT_KIND: Final = "placebo_for_kind"


def same_task(task: Task) -> Filter:
    """Narrow a recall to the lessons of the task itself."""
    return {"task_id": task.id}


def another_kind(decoy: Task) -> Filter:
    """Narrow a recall to lessons of other kinds than that of the task that a decoy stands for."""
    return {"task_kind": {"$ne": decoy.metadata[_NOT_KIND]}}


def newest(task: Task, candidates: Sequence[Candidate]) -> list[Ranked]:
    """Order lessons by age, the newest first; a recall strategy."""
    ordered = sorted(candidates, key=lambda c: _age(c.lesson), reverse=True)
    return [Ranked(c, c.similarity, "among the last of its task") for c in ordered]


def _age(lesson: Lesson) -> tuple[float, int]:
    return (lesson.provenance.created_at, lesson.provenance.attempt)


class OverLessons:
    """A store that hands everything on to another one."""

    def __init__(self, lessons: LessonStore) -> None:
        self.lessons = lessons

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Recall from the store below."""
        return await self.lessons.recall(task, k=k, run_id=run_id, attempt=attempt, skip_run=skip_run)

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson."""
        return await self.lessons.record(task, reflection, provenance=provenance)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note the outcome."""
        return await self.lessons.outcome(recall_id, evaluation)


class OwnChain(OverLessons):
    """Offers the last k reflections of the task itself, the oldest first, as the paper's prompts have them."""

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return the task's last lessons in the order in which they were written."""
        recall = await super().recall(task, k=k, run_id=run_id, attempt=attempt, skip_run=skip_run)
        return replace(recall, offered=tuple(sorted(recall.offered, key=lambda item: _age(item.lesson))))


class WholeBlock(OverLessons):
    """Offers every lesson, newest first: the block of seed 004, shared by all tasks."""

    def __init__(self, lessons: VectorLessonStore) -> None:
        super().__init__(lessons)
        self._listed = lessons

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return all active lessons, newest first."""
        skipped = redact_id(skip_run)
        found: list[RecalledLesson] = []
        after: str | None = None
        while True:
            page = await self._listed.list(after=after, limit=500)
            found += [
                RecalledLesson(lesson, 0.0, "the whole block")
                for lesson in page.lessons
                if lesson.state == "active" and not (skipped and lesson.provenance.run_id == skipped)
            ]
            if page.next is None:
                return Recall(uuid.uuid4().hex, task.id, tuple(reversed(found)))
            after = page.next

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """A whole block has no recall to give credit to."""
        return False


class Placebo(OverLessons):
    """Offers lessons of another kind of task: as many words as the others get, and none that should help."""

    def __init__(self, lessons: LessonStore, tasks: Sequence[Task], *, seed: int) -> None:
        super().__init__(lessons)
        self._tasks = [task.public() for task in tasks]
        self._seed = seed

    async def recall(
        self, task: Task, *, k: int, run_id: str = "", attempt: int = 0, skip_run: str = ""
    ) -> Recall:
        """Return lessons recalled for a task of another kind (drawn by seed), less this task's kind."""
        others = [other for other in self._tasks if other.kind != task.kind]
        if not others:
            return Recall(uuid.uuid4().hex, task.id)
        decoy = random.Random(f"{self._seed}:{task.id}").choice(others)  # noqa: S311 - a draw, not a secret
        other = replace(decoy, metadata={_NOT_KIND: task.kind})
        recall = await super().recall(other, k=k, run_id=run_id, attempt=attempt, skip_run=skip_run)
        return replace(recall, task_id=task.id)


class ReadOnly(OverLessons):
    """Recalls from a store and changes nothing in it: neither lessons nor their credit."""

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Refuse: held-out tasks write no lesson."""
        raise AssertionError("a held-out task is not to write a lesson")

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note nothing."""
        return False


def without_withholding(lessons: LessonStore) -> LessonStore:
    """Return the store with every lesson offered that is picked; itself where none is ever withheld."""
    if not isinstance(lessons, VectorLessonStore):
        return lessons
    credit = lessons.settings.credit
    if credit is None or not credit.withholding.on:
        return lessons
    settings = replace(lessons.settings, credit=replace(credit, withholding=Withholding()))
    return VectorLessonStore(lessons.store, settings=settings)


def beneath(lessons: LessonStore | None) -> VectorLessonStore | None:
    """Return the store of lessons beneath an arm's; None where there is none that can be looked into."""
    while isinstance(lessons, OverLessons):
        lessons = lessons.lessons
    return lessons if isinstance(lessons, VectorLessonStore) else None


async def written_by(lessons: VectorLessonStore, run_id: str, attempt: int, *, since: float) -> Lesson | None:
    """Return the lesson that an attempt of a run wrote since a time (seconds since 1970), or None.

    A lesson that was merged into another is not found; recording it again changes nothing then.
    """
    kept_as = redact_id(run_id)
    where: Filter = {
        "$and": [{"face": 0}, {"run_id": kept_as}, {"attempt": attempt}, {"created_at": {"$gte": since}}]
    }
    async with store_errors("look for a lesson"):
        page = await lessons.store.scan(filter=where, limit=1)
    return lesson_of(page.chunks[0]) if page.chunks else None


async def any_written(lessons: VectorLessonStore, *, since: float) -> bool:
    """Whether the store has a lesson that was written since a time (seconds since 1970)."""
    where: Filter = {"$and": [{"face": 0}, {"created_at": {"$gte": since}}]}
    async with store_errors("look for a lesson"):
        return await lessons.store.count(filter=where) > 0
