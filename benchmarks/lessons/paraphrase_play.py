"""Writes paraphrases one after another into a store, as lessons are written, and counts what is left of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from benchmarks.lessons.paraphrasing import Saying
from jeeves_reflexion.lessons.consolidation.clusters import clusters
from jeeves_reflexion.lessons.consolidation.consolidators import RuleConsolidator
from jeeves_reflexion.lessons.consolidation.planning import plan
from jeeves_reflexion.lessons.deciding import Decision, copies_near, decide
from jeeves_reflexion.lessons.merging import MERGED_INTO, MergeSettings, joined, linked
from jeeves_reflexion.lessons.sameness import Neighbour, foremost, one_lesson
from jeeves_reflexion.lessons.store import VectorLessonStore
from jeeves_reflexion.types import Lesson, Provenance, Reflection, Task
from vectorstores import Chunk, Embedder, InMemoryVectorStore

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

NEAREST: Final = 5
_TOGETHER: Final = 64


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embeddings computed beforehand, so that writing is timed without them; an embedder of just these texts."""

    id: str
    dim: int
    by_text: Mapping[str, FloatArray]
    seconds: float

    @classmethod
    async def of(cls, embedder: Embedder, texts: Sequence[str]) -> Self:
        """Embed each distinct text once."""
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        begun = time.perf_counter()
        found: dict[str, FloatArray] = {}
        for at in range(0, len(distinct), _TOGETHER):
            part = distinct[at : at + _TOGETHER]
            found.update(zip(part, await embedder.embed(part), strict=True))
        return cls(embedder.id, embedder.dim, found, time.perf_counter() - begun)

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of texts that were embedded beforehand."""
        return np.stack([self.by_text[text] for text in texts])

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of two texts."""
        return float(self.by_text[a] @ self.by_text[b])


@dataclass(slots=True)
class Library:
    """Lessons as they are stored, and which base lessons each was made from."""

    vectors: Vectors
    settings: MergeSettings
    store: InMemoryVectorStore
    lessons: dict[str, Lesson] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)
    holds: dict[str, Counter[int]] = field(default_factory=dict)
    task: dict[str, str] = field(default_factory=dict)
    wrong: list[tuple[str, str, str]] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    into: dict[str, str] = field(default_factory=dict)

    async def near(self, lesson: Lesson, task: str) -> list[Neighbour]:
        """Return the stored lessons nearest to a lesson's text, or those that they were merged into."""
        hits = await self.store.search_by_vector(self.vectors.by_text[lesson.text], k=NEAREST)
        found: dict[str, float] = {}
        for hit in hits:
            found.setdefault(self.stands_for(hit.chunk.id), hit.score)
        return [
            Neighbour(self.lessons[id], score, self.vectors.similarity(task, self.task[id]))
            for id, score in found.items()
        ]

    def stands_for(self, id: str) -> str:
        """Return the id of the lesson that speaks for one that was stored."""
        while id in self.into:
            id = self.into[id]
        return id

    async def write(self, newcomer: Lesson, saying: Saying, near: Sequence[Neighbour]) -> None:
        """Merge, link or add a newcomer, given what was near when it looked."""
        decision = decide(newcomer, near, self.settings)
        lesson = decision.lesson
        if decision.kind == "merge":
            self._took(lesson, saying, decision)
            self._join(lesson, [each.lesson for each in near])
            return
        self.lessons[lesson.id] = lesson
        self.own[lesson.id] = saying.lesson
        self.holds[lesson.id] = Counter([saying.lesson])
        self.task[lesson.id] = saying.task
        for other in decision.others:
            self.lessons[other] = linked(self.lessons[other], lesson.id)
            self.links.append((saying.lesson, self.own[other]))
        vector = self.vectors.by_text[lesson.text]
        await self.store.add([Chunk(lesson.text, id=lesson.id, vector=vector)])

    async def mend(self) -> None:
        """Consolidate by rules until there is nothing to do."""
        while True:
            found = await plan(clusters(self.lessons.values()), RuleConsolidator())
            merges = [step for step in found.steps if step.operation.kind == "merge"]
            if not merges:
                return
            for step in merges:
                kept, *gone = (delta.after for delta in step.deltas)
                self.lessons[kept.id] = kept
                for copy in gone:
                    self.fold(kept.id, copy.id, step.operation.reason)

    def _join(self, lesson: Lesson, near: Sequence[Lesson]) -> None:
        """Merge the stored lessons near a newcomer that are copies of the one that took it in."""
        now = [self.lessons[id] for id in {self.stands_for(each.id): None for each in near}]
        for other in copies_near(lesson, now, self.settings):
            kept, copy = sorted((lesson, other), key=foremost)
            if one_lesson(kept, copy, self.settings):  # it may have learned to say more since
                lesson = joined(kept, copy, another_task=False, settings=self.settings)
                self.lessons[kept.id] = lesson
                self.fold(kept.id, copy.id, "stored lessons that are copies")

    def fold(self, kept: str, copy: str, reason: str) -> None:
        """Count a lesson as merged into another, by their ids."""
        if self.own[kept] != self.own[copy]:
            self.wrong.append((self.lessons[kept].text, self.lessons[copy].text, reason))
        self.holds[kept] += self.holds.pop(copy)
        self.into[copy] = kept
        del self.lessons[copy]

    def _took(self, lesson: Lesson, saying: Saying, decision: Decision) -> None:
        self.lessons[lesson.id] = lesson
        self.holds[lesson.id][saying.lesson] += 1
        if self.own[lesson.id] != saying.lesson:
            self.wrong.append((lesson.text, saying.text, decision.reason))


@dataclass(frozen=True, slots=True)
class Count:
    """What is left of the paraphrases.

    ``lost`` base lessons have no lesson of their own any more; ``pure`` is the share of paraphrases that ended in a
    lesson of their own base; ``extra`` are lessons beyond one for each base lesson that is left.
    """

    left: int
    lost: int
    wrong: int
    pure: float
    extra: int

    @classmethod
    def of(cls, library: Library) -> Self:
        """Count a library."""
        bases = {library.own[id] for id in library.lessons}
        total = sum(sum(held.values()) for held in library.holds.values())
        right = sum(held[library.own[id]] for id, held in library.holds.items())
        known = len({base for held in library.holds.values() for base in held})
        left = len(library.lessons)
        return cls(left, known - len(bases), len(library.wrong), right / total, left - len(bases))


@dataclass(frozen=True, slots=True)
class Played:
    """One run: what is left after writing and after mending, the seconds of the writes, and the library itself."""

    written: Count
    mended: Count
    seconds: float
    library: Library


async def play(
    sayings: Sequence[Saying], vectors: Vectors, settings: MergeSettings, *, at_once: int = 1
) -> Played:
    """Write all sayings in their order; ``at_once`` of them look before any of them writes, as concurrent tasks do."""
    async with InMemoryVectorStore(vectors, namespace="paraphrases") as store:
        library = Library(vectors, settings, store)
        begun = time.process_time()
        for at in range(0, len(sayings), at_once):
            batch = [
                (newcomer_of(saying, at + n), saying) for n, saying in enumerate(sayings[at : at + at_once])
            ]
            seen = [await library.near(lesson, saying.task) for lesson, saying in batch]
            for (lesson, saying), near in zip(batch, seen, strict=True):
                # The lesson is read again when it is written, so that no support is lost.
                now = [
                    replace(each, lesson=library.lessons[library.stands_for(each.lesson.id)]) for each in near
                ]
                await library.write(lesson, saying, now)
        seconds = time.process_time() - begun
        written = Count.of(library)
        await library.mend()
        return Played(written, Count.of(library), seconds, library)


async def record_all(sayings: Sequence[Saying], vectors: Vectors) -> Played:
    """Write all sayings through a :class:`VectorLessonStore`, with everything that it does to a newcomer."""
    async with InMemoryVectorStore(vectors, namespace="paraphrases") as store:
        library = Library(vectors, MergeSettings(), store)
        lessons = VectorLessonStore(store)
        begun = time.process_time()
        for number, saying in enumerate(sayings):
            source = Provenance(run_id=f"run-{number}", attempt=1, score=0.0)
            stored = await lessons.record(Task(saying.task), Reflection(saying.text), provenance=source)
            if stored.id not in library.own:
                library.own[stored.id] = saying.lesson
                library.links += [(saying.lesson, library.own[other]) for other in stored.contradicts]
            elif library.own[stored.id] != saying.lesson:
                library.wrong.append((stored.text, saying.text, ""))
            library.lessons[stored.id] = stored
            library.holds.setdefault(stored.id, Counter())[saying.lesson] += 1
        seconds = time.process_time() - begun
        async for lesson in lessons.shelf.each():
            if MERGED_INTO in lesson.metadata:
                library.into[lesson.id] = str(lesson.metadata[MERGED_INTO])
        for id in library.into:
            library.fold(library.stands_for(id), id, "stored lessons that are copies")
        left = await lessons.count() - len(library.into)
        if left != len(library.lessons):
            raise AssertionError(f"{left} lessons are stored, {len(library.lessons)} were returned")
        count = Count.of(library)
        return Played(count, count, seconds, library)


def newcomer_of(saying: Saying, number: int) -> Lesson:
    """Return a saying as a lesson that one attempt of a run of its own wrote."""
    source = Provenance(run_id=f"run-{number}", attempt=1, score=0.0, created_at=float(number))
    return Lesson(f"{number:08d}", saying.text, saying.task, saying.task, source)
