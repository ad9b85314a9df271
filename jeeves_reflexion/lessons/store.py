"""The lesson store: lessons as embedded chunks of a vector store, and a ledger of what was recalled.

The task is embedded and the lesson stored (``key="task"``): ExpeL's ablation on ALFWorld found recall by task ahead
of recall by reasoning (Zhao et al. 2023, arXiv 2308.10144). Everything written is redacted first, the task's text too.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.records import chunk_of, ledger_entry, lesson_of, one_each
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.text import abridge, estimate_tokens, one_line
from jeeves_reflexion.types import Evaluation, Lesson, Provenance, Recall, RecalledLesson, Reflection, Task
from vectorstores.base import ConflictError, Filter, RecordStore, SearchHit, VectorStore, VectorStoreError

Key: TypeAlias = Literal["task", "lesson", "both"]

_Hits: TypeAlias = list[SearchHit]
_Found: TypeAlias = list[RecalledLesson]  # the class below has a method called list

RECALLS = "recalls"
OUTCOMES = "outcomes"
EXCERPT_CHARACTERS = 200
FORGET_TRIES = 20


@dataclass(frozen=True, slots=True)
class LessonSettings:
    """How lessons are kept and picked.

    ``key`` is what a lesson is found by: the task that taught it, its own text, or both. ``min_similarity`` is the
    floor below which nothing is recalled, as cosine similarity; ``max_tokens`` bounds what one recall may offer.
    ``where`` narrows a recall by metadata, given the task (such as ``{"task_id": task.id}``).
    """

    key: Key = "task"
    min_similarity: float = 0.3
    max_tokens: int = 1000
    where: Callable[[Task], Filter | None] | None = None

    def __post_init__(self) -> None:
        if self.key not in ("task", "lesson", "both"):
            raise ConfigurationError(f"key must be 'task', 'lesson' or 'both', not {self.key!r}")
        if not -1.0 <= self.min_similarity <= 1.0:
            raise ConfigurationError(f"min_similarity must lie in [-1, 1], not {self.min_similarity}")
        if self.max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be at least 1, not {self.max_tokens}")


@dataclass(frozen=True, slots=True)
class LessonPage:
    """Part of a list of lessons, oldest first; ``next`` goes to the next call as ``after``."""

    lessons: tuple[Lesson, ...]
    next: str | None


class VectorLessonStore:
    """Lessons over any :class:`~vectorstores.base.VectorStore` that also keeps records.

    Every error of the store below is raised as :class:`LessonStoreError` with that error as its cause.
    """

    def __init__(self, store: VectorStore, *, settings: LessonSettings | None = None) -> None:
        if not isinstance(store, RecordStore):
            raise ConfigurationError(
                f"{type(store).__name__} keeps no records; lessons need a store that is a RecordStore too, such as "
                "InMemoryVectorStore or FaissVectorStore"
            )
        self.store = store
        self.records: RecordStore = store
        self.settings = settings or LessonSettings()

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
        )
        query = redact(task.prompt)
        faces: dict[Key, tuple[str, ...]] = {"task": (query,), "lesson": (text,), "both": (query, text)}
        async with _store_errors("store the lesson"):
            await self.store.add(
                [chunk_of(lesson, face, n) for n, face in enumerate(faces[self.settings.key])]
            )
        return lesson

    async def recall(self, task: Task, *, k: int) -> Recall:
        """Return at most ``k`` lessons for the task, nearest first, and note the recall in the ledger.

        A lesson found by two keys counts once; nothing below the similarity floor or beyond the token budget is
        offered, and offering nothing is a valid answer.
        """
        if k < 1:
            raise ConfigurationError(f"k must be at least 1, not {k}")
        where = self.settings.where(task) if self.settings.where else None
        async with _store_errors("recall lessons"):
            hits = await self._nearest(redact(task.prompt), k, where)
            offered, withheld = self._within_budget(hits)
            recall = Recall(uuid.uuid4().hex, task.id, tuple(offered), tuple(withheld))
            await self.records.append_once(RECALLS, recall.id, ledger_entry(recall))
        return recall

    async def search(self, text: str, *, k: int = 5) -> _Found:
        """Return the ``k`` lessons nearest to a text, whatever their similarity; the ledger is not touched."""
        async with _store_errors("search lessons"):
            hits = await self._nearest(redact(text), k, None, floor=-1.0)
        return [RecalledLesson(lesson_of(hit.chunk), hit.score, "searched") for hit in hits]

    async def outcome(self, recall_id: str, evaluation: Evaluation) -> bool:
        """Note how the attempt went that a recall was for.

        Once, whatever happens: a later call returns False and changes nothing. An unknown id is an error.
        """
        async with _store_errors("note an outcome"):
            if await self.records.get(RECALLS, recall_id) is None:
                raise LessonStoreError(f"there is no recall {recall_id!r} in this store")
            value = {"score": evaluation.score, "passed": evaluation.passed, "at": time.time()}
            return await self.records.append_once(OUTCOMES, recall_id, value)

    async def list(self, *, after: str | None = None, limit: int = 100) -> LessonPage:
        """Return lessons in the order in which they were written, a page at a time."""
        async with _store_errors("list lessons"):
            page = await self.store.scan(filter=_FIRST_FACE, after=after, limit=limit)
        return LessonPage(tuple(map(lesson_of, page.chunks)), page.next)

    async def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson by its id, or None."""
        async with _store_errors("read a lesson"):
            chunks = await self.store.get_by_ids([f"{lesson_id}:0"])
        return lesson_of(chunks[0]) if chunks else None

    async def count(self) -> int:
        """Count the lessons."""
        async with _store_errors("count lessons"):
            return await self.store.count(filter=_FIRST_FACE)

    async def forget(self, lesson_id: str) -> bool:
        """Remove a lesson from everywhere: its vectors and text, their cached embeddings, and the ledger.

        Returns False if there was none.
        """
        async with _store_errors("forget a lesson"):
            after: str | None = None
            while True:
                page = await self.records.scan_records(RECALLS, after=after)
                for record in page.records:
                    await self._strike(record.key, lesson_id)
                if page.next is None:
                    break
                after = page.next
            # Last, because deleting chunks is what also clears a store's files of what was there before.
            return await self.store.delete([f"{lesson_id}:0", f"{lesson_id}:1"]) > 0

    async def close(self) -> None:
        """Close the store below."""
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _nearest(
        self, query: str, k: int, where: Filter | None, *, floor: float | None = None
    ) -> _Hits:
        least = self.settings.min_similarity if floor is None else floor
        # A lesson has one face or two, by the settings of whoever wrote it: 2 k hits hold k lessons for certain.
        return one_each(await self.store.search(query, k=2 * k, filter=where, min_score=least))[:k]

    def _within_budget(self, hits: Sequence[SearchHit]) -> tuple[_Found, _Found]:
        offered: _Found = []
        withheld: _Found = []
        left = self.settings.max_tokens
        for hit in hits:
            lesson = lesson_of(hit.chunk)
            cost = estimate_tokens(lesson.text)
            if cost <= left:
                left -= cost
                offered.append(RecalledLesson(lesson, hit.score, "near the task"))
            else:
                withheld.append(RecalledLesson(lesson, hit.score, "no room left in the token budget"))
        return offered, withheld

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


_FIRST_FACE: Filter = {"face": 0}


@contextlib.asynccontextmanager
async def _store_errors(doing: str) -> AsyncIterator[None]:
    try:
        yield
    except VectorStoreError as error:
        raise LessonStoreError(f"could not {doing}: {error}") from error
