"""Recalls the labelled queries from libraries in the real lesson store, one way of recall after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import cast

from benchmarks.lessons.retrieval_data import Document, Query, grade
from benchmarks.lessons.retrieval_figures import DEPTH, Asked
from jeeves_reflexion import (
    LessonSettings,
    Provenance,
    Reflection,
    Task,
    VectorLessonStore,
)
from jeeves_reflexion.errors import LessonRefusedError
from jeeves_reflexion.lessons.likeness.comparing import likeness
from jeeves_reflexion.lessons.merging import TASKS, MergeSettings
from jeeves_reflexion.lessons.narrowing import Narrowing
from jeeves_reflexion.lessons.recalling import Candidate, Picking, Ranked
from jeeves_reflexion.lessons.records import Key
from jeeves_reflexion.lessons.store import POOL
from vectorstores import Embedder, Filter, InMemoryVectorStore

ALIKE = 0.6
"""From this likeness on, two lessons say much the same: what a merge takes for a copy."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to recall.

    With ``kinds`` False the recall is not told what kind of task it is for; ``pool`` is how many times k candidates are
    looked at.
    """

    name: str
    key: Key = "task"
    floor: float = 0.3
    picking: Picking = field(default_factory=Picking)
    kinds: bool = True
    pool: int = POOL


@dataclass(frozen=True, slots=True)
class Answers:
    """What one way offered to all queries, and how much of it was said twice.

    ``alike`` is the share of offered pairs that say much the same, ``tasks`` how many different tasks the offered
    lessons came from, on average.
    """

    asked: tuple[Asked, ...]
    alike: float
    tasks: float


class Library:
    """Lessons in the real store: the same documents once for each key."""

    def __init__(self, documents: Sequence[Document], embedder: Embedder, *, merging: bool = False) -> None:
        self.documents = documents
        self.refused = 0
        self._goals = {each.task.id: each.goal for each in documents}
        self._embedder = embedder
        self._merging = MergeSettings() if merging else None
        self._stores: dict[Key, InMemoryVectorStore] = {}

    async def ask(self, queries: Sequence[Query], way: Way) -> Answers:
        """Recall for each query."""
        store = await self._filled(way.key)
        settings = LessonSettings(key=way.key, min_similarity=way.floor, picking=way.picking, where=_apart)
        lessons = _Pooled(store, settings=settings, pool=way.pool)
        asked, found = [], []
        for query in queries:
            task = replace(
                query.task, kind=query.task.kind if way.kinds else None, metadata={"apart": query.apart}
            )
            recall = await lessons.recall(task, k=DEPTH)
            found.append(recall)
            possible = tuple(
                grade(query.goal, each.goal) for each in self.documents if each.task.id != query.apart
            )
            offered = tuple(
                self._grade(query, item.lesson.metadata, item.lesson.task_id) for item in recall.offered
            )
            near = tuple(item.similarity for item in recall.offered)
            asked.append(Asked(query.task.id, query.cluster, offered, possible, near))
        pairs = [pair for recall in found for pair in combinations(recall.texts, 2)]
        alike = sum(likeness(*pair) > ALIKE for pair in pairs) / len(pairs) if pairs else 0.0
        filled = [recall for recall in found if recall.offered]
        tasks = sum(len({item.lesson.task_id for item in recall.offered}) for recall in filled)
        return Answers(tuple(asked), alike, tasks / len(filled) if filled else 0.0)

    async def close(self) -> None:
        """Let go of the stores."""
        for store in self._stores.values():
            await store.close()

    def _grade(self, query: Query, metadata: Mapping[str, object], task_id: str) -> int:
        """A merged lesson bears on what any of its tasks asked for."""
        others = cast("Sequence[str]", metadata.get(TASKS, ()))
        return max(grade(query.goal, self._goals[id]) for id in (task_id, *others))

    async def _filled(self, key: Key) -> InMemoryVectorStore:
        if key not in self._stores:
            store = InMemoryVectorStore(self._embedder, namespace="lessons")
            lessons = VectorLessonStore(store, settings=LessonSettings(key=key, merging=self._merging))
            for number, each in enumerate(self.documents):
                source = Provenance(f"run{number}", 1, 0.0, created_at=1.0 + number)
                try:
                    await lessons.record(each.task, Reflection(each.text), provenance=source)
                except LessonRefusedError:
                    self.refused += 1
            self._stores[key] = store
        return self._stores[key]

    async def size(self, key: Key) -> int:
        """Count the lessons in a store."""
        return await VectorLessonStore(await self._filled(key)).count()


class _Pooled(VectorLessonStore):
    """Looks at ``pool`` times k candidates instead of the store's own number."""

    def __init__(self, store: InMemoryVectorStore, *, settings: LessonSettings, pool: int) -> None:
        super().__init__(store, settings=settings)
        self._pool = pool

    async def _found(
        self, query: str, number: int, where: Narrowing
    ) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
        return await super()._found(query, number // POOL * self._pool, where)


def same_kind_first(task: Task, candidates: Sequence[Candidate]) -> list[Ranked]:
    """Lessons of the same kind of task first, and by similarity within: for comparison."""
    ordered = sorted(candidates, key=lambda c: (c.lesson.task_kind != task.kind, -c.similarity))
    return [Ranked(c, c.similarity, "same kind first") for c in ordered]


def _apart(task: Task) -> Filter | None:
    apart = cast("str", task.metadata.get("apart"))
    return {"task_id": {"$ne": apart}} if apart else None
