"""The arms of an experiment: they share all but memory, so each is a way to keep and recall lessons."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from jeeves_reflexion.lessons.store import LessonSettings, VectorLessonStore
from jeeves_reflexion.protocols import LessonStore
from jeeves_reflexion.types import Evaluation, Lesson, Provenance, Recall, RecalledLesson, Reflection, Task
from vectorstores.base import Filter, VectorStore

ArmName: TypeAlias = Literal["retry", "monotonic", "selective", "own", "irrelevant"]

ARMS: Mapping[ArmName, str] = MappingProxyType(
    {
        "retry": "tries again without any memory: the control",
        "monotonic": "sees every lesson written so far, newest first",
        "selective": "recalls the k lessons nearest to its task from a store shared by all tasks",
        "own": "recalls only the lessons of its own task, as in the paper",
        "irrelevant": "recalls lessons that were written for another kind of task: the placebo",
    }
)


_NOT_KIND = "placebo_for_kind"


def arm_lessons(
    arm: ArmName, store: VectorStore, tasks: Sequence[Task], *, settings: LessonSettings, seed: int
) -> LessonStore | None:
    """Return how an arm remembers, over a store that is its alone; ``None`` for the arm without memory."""
    match arm:
        case "retry":
            return None
        case "monotonic":
            return WholeBlock(VectorLessonStore(store, settings=settings))
        case "selective":
            return VectorLessonStore(store, settings=settings)
        case "own":
            own = replace(settings, where=_same_task, min_similarity=-1.0)
            return VectorLessonStore(store, settings=own)
        case "irrelevant":
            return Placebo(
                VectorLessonStore(
                    store, settings=replace(settings, where=_another_kind, min_similarity=-1.0)
                ),
                tasks,
                seed=seed,
            )


def _same_task(task: Task) -> Filter:
    return {"task_id": task.id}


def _another_kind(decoy: Task) -> Filter:
    return {"task_kind": {"$ne": decoy.metadata[_NOT_KIND]}}


class WholeBlock:
    """Offers every lesson, newest first: the block of seed 004, shared by all tasks."""

    def __init__(self, lessons: VectorLessonStore) -> None:
        self._lessons = lessons

    async def recall(self, task: Task, *, k: int, run_id: str = "", attempt: int = 0) -> Recall:
        """Return all lessons, newest first."""
        found: list[RecalledLesson] = []
        after: str | None = None
        while True:
            page = await self._lessons.list(after=after, limit=500)
            found += [RecalledLesson(lesson, 0.0, "the whole block") for lesson in page.lessons]
            if page.next is None:
                return Recall(uuid.uuid4().hex, task.id, tuple(reversed(found)))
            after = page.next

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson."""
        return await self._lessons.record(task, reflection, provenance=provenance)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """A whole block has no recall to give credit to."""
        return False


class Placebo:
    """Offers lessons of another kind of task: as many words as the others get, and none that should help."""

    def __init__(self, lessons: VectorLessonStore, tasks: Sequence[Task], *, seed: int) -> None:
        self._lessons = lessons
        self._tasks = tasks
        self._seed = seed

    async def recall(self, task: Task, *, k: int, run_id: str = "", attempt: int = 0) -> Recall:
        """Return lessons recalled for a task of another kind (drawn by seed), less this task's kind."""
        others = [other for other in self._tasks if other.kind != task.kind]
        if not others:
            return Recall(uuid.uuid4().hex, task.id)
        decoy = random.Random(f"{self._seed}:{task.id}").choice(others)  # noqa: S311 - a draw, not a secret
        other = replace(decoy, metadata={_NOT_KIND: task.kind})
        recall = await self._lessons.recall(other, k=k, run_id=run_id, attempt=attempt)
        return replace(recall, task_id=task.id)

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson."""
        return await self._lessons.record(task, reflection, provenance=provenance)

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note the outcome."""
        return await self._lessons.outcome(recall_id, evaluation)
