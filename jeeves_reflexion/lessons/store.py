"""The lesson store: lessons as embedded chunks of a vector store, and a ledger of what was recalled.

The task is embedded and the lesson stored (``key="task"``): ExpeL's ablation on ALFWorld found recall by task ahead
of recall by reasoning (Zhao et al. 2023, arXiv 2308.10144). Everything written is redacted first, the task's text too.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.recalling import Candidate, Picking, pick
from jeeves_reflexion.lessons.records import RECALLED, Key, ledger_entry, lesson_of, one_each
from jeeves_reflexion.lessons.shelf import Change, LessonPage, Shelf, store_errors
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import (
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    RecalledLesson,
    Reflection,
    Task,
    Trust,
)
from vectorstores.base import ConflictError, Filter, RecordStore, VectorStore

_Found: TypeAlias = list[RecalledLesson]  # the class below has a method called list

RECALLS = "recalls"
OUTCOMES = "outcomes"
EXCERPT_CHARACTERS = 200
FORGET_TRIES = 20
POOL = 4
"""So many times k lessons are looked at to pick k of them."""


@dataclass(frozen=True, slots=True)
class LessonSettings:
    """How lessons are kept and picked.

    ``key`` is what a lesson is found by: the task that taught it, its own text, or both. ``min_similarity`` is the
    floor below which nothing is recalled, as cosine similarity; ``picking`` says how lessons are picked from those
    above it. ``where`` narrows a recall by metadata, given the task (such as ``{"task_id": task.id}``).
    ``trust`` is whose lessons this store writes; with ``propose`` they wait for a person before they are recalled.
    """

    key: Key = "task"
    min_similarity: float = 0.3
    picking: Picking = field(default_factory=Picking)
    trust: Trust = "own"
    propose: bool = False
    where: Callable[[Task], Filter | None] | None = None

    def __post_init__(self) -> None:
        if self.key not in ("task", "lesson", "both"):
            raise ConfigurationError(f"key must be 'task', 'lesson' or 'both', not {self.key!r}")
        if not -1.0 <= self.min_similarity <= 1.0:
            raise ConfigurationError(f"min_similarity must lie in [-1, 1], not {self.min_similarity}")
        if self.trust not in ("own", "shared", "imported"):
            raise ConfigurationError(f"trust must be 'own', 'shared' or 'imported', not {self.trust!r}")


class VectorLessonStore:
    """Lessons over any :class:`~vectorstores.base.VectorStore` that also keeps records.

    Every error of the store below is raised as :class:`LessonStoreError` with that error as its cause.
    """

    def __init__(self, store: VectorStore, *, settings: LessonSettings | None = None) -> None:
        self.settings = settings or LessonSettings()
        self.shelf = Shelf(store, key=self.settings.key)
        self.store = store
        self.records: RecordStore = self.shelf.records

    async def record(self, task: Task, reflection: Reflection, *, provenance: Provenance) -> Lesson:
        """Store the lesson of a reflection on ``task``; durable when it returns."""
        if not provenance.created_at:
            provenance = replace(provenance, created_at=time.time())
        text = one_line(redact(reflection.lesson))
        if not text:
            raise ConfigurationError("a lesson without words can't be stored")
        lesson = Lesson(
            id=uuid.uuid4().hex,
            text=text,
            task_id=task.id,
            task_excerpt=abridge(redact(task.prompt), EXCERPT_CHARACTERS),
            provenance=provenance,
            task_kind=task.kind,
            tools=task.tools,
            outcome=reflection.outcome,
            state="proposed" if self.settings.propose else "active",
            trust=self.settings.trust,
            evidence=reflection.evidence,
        )
        async with store_errors("store the lesson"):
            await self.shelf.put(lesson, redact(task.prompt), Change("learn"))
        return lesson

    async def recall(self, task: Task, *, k: int, run_id: str = "", attempt: int = 0) -> Recall:
        """Return at most ``k`` lessons for the task, best first, and note the recall in the ledger.

        A lesson found by two keys counts once; nothing below the similarity floor or beyond the token budget is
        offered, and offering nothing is a valid answer. What was found and not offered is there with its reason.
        """
        if k < 1:
            raise ConfigurationError(f"k must be at least 1, not {k}")
        where = self.settings.where(task) if self.settings.where else None
        async with store_errors("recall lessons"):
            found = await self._nearest(
                redact(task.prompt), POOL * k, where, floor=self.settings.min_similarity
            )
            offered, left_out = pick(task, found, k=k, picking=self.settings.picking, likeness=_same)
            recall = Recall(uuid.uuid4().hex, task.id, tuple(offered), (), tuple(left_out))
            await self.records.append_once(RECALLS, recall.id, ledger_entry(recall))
        return recall

    async def search(self, text: str, *, k: int = 5) -> _Found:
        """Return the ``k`` lessons nearest to a text, whatever their similarity; the ledger is not touched."""
        async with store_errors("search lessons"):
            found = await self._nearest(redact(text), k, None, floor=-1.0)
        return [RecalledLesson(each.lesson, each.similarity, "searched") for each in found]

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note how the attempt went that a recall was for.

        Once, whatever happens: a later call returns False and changes nothing. An unknown id is an error.
        """
        async with store_errors("note an outcome"):
            if await self.records.get(RECALLS, recall_id) is None:
                raise LessonStoreError(f"there is no recall {recall_id!r} in this store")
            value = {"score": evaluation.score, "passed": evaluation.passed, "at": time.time()}
            return await self.records.append_once(OUTCOMES, recall_id, value)

    async def list(self, *, after: str | None = None, limit: int = 100) -> LessonPage:
        """Return lessons in the order in which they were written, a page at a time."""
        async with store_errors("list lessons"):
            return await self.shelf.page(after=after, limit=limit)

    async def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson by its id, or None."""
        async with store_errors("read a lesson"):
            return await self.shelf.get(lesson_id)

    async def count(self) -> int:
        """Count the lessons."""
        async with store_errors("count lessons"):
            return await self.shelf.count()

    async def forget(self, lesson_id: str) -> bool:
        """Remove a lesson from everywhere: its vectors and text, their cached embeddings, and the ledger.

        Returns False if there was none.
        """
        async with store_errors("forget a lesson"):
            after: str | None = None
            while True:
                page = await self.records.scan_records(RECALLS, after=after)
                for record in page.records:
                    await self._strike(record.key, lesson_id)
                if page.next is None:
                    break
                after = page.next
            return await self.shelf.remove(lesson_id)

    async def close(self) -> None:
        """Close the store below."""
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _nearest(
        self, query: str, number: int, where: Filter | None, *, floor: float
    ) -> Sequence[Candidate]:
        narrowed: Filter = RECALLED if where is None else {"$and": [RECALLED, where]}
        # A lesson has one such face or two, by the settings of whoever wrote it: twice as many hits hold enough.
        hits = await self.store.search(query, k=2 * number, filter=narrowed, min_score=floor)
        return [Candidate(lesson_of(hit.chunk), hit.score) for hit in one_each(hits)[:number]]

    async def _strike(self, key: str, lesson_id: str) -> None:
        """Take a lesson out of one ledger entry, against concurrent writers of the same entry."""
        for _ in range(FORGET_TRIES):
            record = await self.records.get(RECALLS, key)
            if record is None or not isinstance(record.value, Mapping):
                return
            entry = dict(record.value)
            changed = False
            for part in ("offered", "withheld"):
                items = entry.get(part)
                if isinstance(items, Sequence) and not isinstance(items, str):
                    kept = [
                        i for i in items if not (isinstance(i, Mapping) and i.get("lesson_id") == lesson_id)
                    ]
                    changed = changed or len(kept) != len(items)
                    entry[part] = kept
            if not changed:
                return
            with contextlib.suppress(ConflictError):
                await self.records.compare_and_swap(RECALLS, key, entry, version=record.version)
                return
        raise LessonStoreError(f"the recall {key} kept changing while lesson {lesson_id} was taken out of it")


def _same(one: str, other: str) -> float:
    return float(one.casefold() == other.casefold())
