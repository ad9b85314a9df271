"""Lessons as they lie in the store: put there, read, changed one change after the other, taken away.

A change reads a lesson and writes all its faces back together with an entry of its history, whose number must be new:
of two writers at once the second finds the number taken, and reads again. So no change is lost, and none is made
without its entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import anyio

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.keeping import (
    HISTORY,
    Change,
    Kept,
    Rewriting,
    entry_key,
    entry_of,
    queries_of,
    read_entry,
    whole,
)
from jeeves_reflexion.lessons.merging import MERGED_INTO
from jeeves_reflexion.lessons.principals import Principal
from jeeves_reflexion.lessons.records import (
    FIRST_FACE,
    MOST_FACES,
    TEXT_FACES,
    Key,
    chunks_of,
    face_ids,
    is_empty,
    lesson_of,
    readable,
)
from jeeves_reflexion.lessons.screening.screens import Screen
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import Chunk, ConflictError, RecordStore, RecordWrite, VectorStore, VectorStoreError

__all__ = [
    "APART",
    "EQUAL",
    "FORGOTTEN",
    "HISTORY",
    "TRIES",
    "Change",
    "LessonPage",
    "Rewriting",
    "Shelf",
    "digest_of",
    "store_errors",
    "whole",
]

APART: Final = "apart"
"""Records of lessons that somebody took out of another again: no write merges them by itself any more."""
EQUAL: Final = "equal"
"""Records of lessons by a digest of text and scope, numbered: of two that say the same at once, one must read again."""
FORGOTTEN: Final = "forgotten"
"""Records of lessons that were forgotten, by a digest of their ids."""
TRIES: Final = 30
_AT_ONCE: Final = 200
_LONGEST_WAIT: Final = 0.5
_NOTHING: Final[Mapping[str, JSON]] = {}


@contextlib.asynccontextmanager
async def store_errors(doing: str) -> AsyncIterator[None]:
    """Raise every error of the store below as :class:`LessonStoreError`."""
    try:
        yield
    except VectorStoreError as error:
        raise LessonStoreError(f"could not {doing}: {error}") from error


@dataclass(frozen=True, slots=True)
class LessonPage:
    """Part of a list of lessons, oldest first; ``next`` goes to the next call as ``after``."""

    lessons: tuple[Lesson, ...]
    next: str | None


class Shelf:
    """The lessons of one namespace of a store, as they lie there.

    ``reader`` is who opened it; ``screen`` judges new texts of lessons besides the rules.
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        key: Key,
        reader: Principal | None = None,
        screen: Screen | None = None,
    ) -> None:
        if not isinstance(store, RecordStore):
            raise ConfigurationError(
                f"{type(store).__name__} keeps no records; lessons need a store that is a RecordStore too, such as "
                "InMemoryVectorStore or FaissVectorStore"
            )
        self.store: VectorStore = store
        self.records: RecordStore = store
        self.key = key
        self.reader = reader or Principal()
        self.screen = screen

    async def put(
        self,
        lesson: Lesson,
        queries: Sequence[str],
        change: Change,
        *,
        after: int = 0,
        more: Mapping[str, JSON] = _NOTHING,
        claim: RecordWrite | None = None,
    ) -> None:
        """Store a new lesson; ``queries`` are the texts of its tasks. A lesson of that id is a ``ConflictError``.

        ``after`` is the number of the last entry of a history that it has already; its own has ``more`` fields. So is
        it one if a ``claim`` is taken.
        """
        if not queries or isinstance(queries, str):
            raise ConfigurationError(
                "a lesson is recalled by the texts of its tasks: pass a list of at least one"
            )
        number = after + 1
        lesson = self.reader.signed(lesson)
        entry = entry_of(number, None, lesson, change, more)
        records = [entry] if claim is None else [entry, claim]
        await self.store.add(chunks_of(lesson, queries, self.key, changes=number), records=records)

    async def claim(self, lesson: Lesson, *, again: bool = False) -> RecordWrite:
        """Return what to :meth:`put` a lesson with, so that it fails if its equal is put from now on.

        It fails too if its equal was ever put, unless ``again``.
        """
        said = [" ".join(lesson.text.casefold().split()), lesson.task_kind, lesson.provenance.agent]
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
        number = 1
        while again and await self.records.get(EQUAL, f"{digest}:{number}") is not None:
            number += 1
        return RecordWrite(EQUAL, f"{digest}:{number}", {"lesson_id": lesson.id}, must_be_new=True)

    async def _unclaim(self, lesson_id: str) -> None:
        """Take away what tells of the words of a lesson."""
        after: str | None = None
        while True:
            page = await self.records.scan_records(EQUAL, after=after)
            mine = [each.key for each in page.records if each.value == {"lesson_id": lesson_id}]
            if mine:
                await self.records.delete_records(EQUAL, mine)
            if page.next is None:
                return
            after = page.next

    async def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson, or None."""
        chunks = await self.store.get_by_ids([f"{lesson_id}:0"])
        return lesson_of(chunks[0]) if chunks else None

    async def queries_of(self, lesson_id: str) -> tuple[str, ...]:
        """Return the texts of the tasks that a lesson is recalled by; none where it is recalled by its own text."""
        kept = await self._read(lesson_id)
        return () if kept is None else kept.queries

    async def queries_of_all(self, lesson_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return what :meth:`queries_of` does, for many lessons; those that there are not are left out."""
        found: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(lesson_ids), _AT_ONCE):
            some = lesson_ids[start : start + _AT_ONCE]
            chunks = await self.store.get_by_ids([face for each in some for face in face_ids(each)])
            for lesson_id, faces in itertools.groupby(chunks, lambda chunk: chunk.id.rpartition(":")[0]):
                found[lesson_id] = queries_of([face for face in faces if not is_empty(face)])
        return found

    async def page(self, *, after: str | None = None, limit: int = 100) -> LessonPage:
        """Return lessons in the order in which they were written."""
        page = await self.store.scan(filter=FIRST_FACE, after=after, limit=limit)
        return LessonPage(tuple(map(lesson_of, page.chunks)), page.next)

    async def each(self, *, limit: int = 500) -> AsyncIterator[Lesson]:
        """Go through all lessons, oldest first."""
        after: str | None = None
        while True:
            page = await self.page(after=after, limit=limit)
            for lesson in page.lessons:
                yield lesson
            if page.next is None:
                return
            after = page.next

    async def count(self) -> int:
        """Count the lessons."""
        return await self.store.count(filter=FIRST_FACE)

    async def change(
        self,
        lesson_id: str,
        make: Callable[[Lesson], Lesson | None],
        change: Change,
        *,
        queries: Sequence[str] = (),
        without: Collection[str] = (),
    ) -> Lesson:
        """Change a lesson by ``make``, and return what it is then; None from ``make`` leaves it as it is.

        A changed lesson is recalled by ``queries`` too from now on, and no more by the tasks ``without``; where no task
        is left, by its own text. ``make`` may be called again, with what another writer made of the lesson meanwhile.
        Raises :class:`UnknownLessonError` for an id that there is not.
        """
        for tried in range(TRIES):
            if tried:  # others are at it: each waits for a time of its own, or the last of a hundred never has its turn
                await anyio.sleep(random.uniform(0, min(0.001 * 2**tried, _LONGEST_WAIT)))  # noqa: S311
            kept = await self._read(lesson_id)
            if kept is None:
                raise UnknownLessonError(f"there is no lesson {lesson_id!r}")
            lesson = make(kept.lesson)
            gone = [query for query in kept.queries if query in without]
            if lesson is None or (lesson == kept.lesson and not gone):
                return kept.lesson
            if lesson.id != lesson_id:
                raise ConfigurationError(f"a change may not turn lesson {lesson_id!r} into {lesson.id!r}")
            lesson = self.reader.changed(kept.lesson, lesson)
            faces, entry = kept.written(lesson, change, queries=queries, without=without)
            with contextlib.suppress(ConflictError):  # somebody else's change came first: on top of that one
                await self.store.add(faces, records=[entry])
                if await self.is_forgotten(lesson_id):
                    # It was forgotten after it was read, and this would have brought it back.
                    await self.remove(lesson_id)
                    raise UnknownLessonError(f"lesson {lesson_id!r} was forgotten while it was changed")
                return lesson
        raise LessonStoreError(f"lesson {lesson_id!r} kept changing while it was to be changed: try again")

    async def join(
        self,
        kept: tuple[Lesson, Lesson],
        copy: tuple[Lesson, Lesson],
        change: Change,
        *,
        queries: Sequence[str] = (),
    ) -> bool:
        """Merge a stored lesson into another in one write: both of them, each ``(before, after)``, or neither.

        Returns False, and changes nothing, where one of them is no longer what it was before, where the lesson that
        stays has no room for ``queries``, the tasks that it is recalled by from then on, or where the copy was taken
        out of another lesson once.
        """
        for each in (kept[0].id, copy[0].id):
            if await self.records.get(APART, each) or await self.is_forgotten(each):
                return False
        first = await self._read(kept[0].id)
        if first is None or len(dict.fromkeys((*first.queries, *queries))) > MOST_FACES - 1:
            return False
        taking = replace(change, others=(copy[0].id,))
        # Where somebody else's change came first, a later write finds them again.
        return await self.rewrite([Rewriting(*kept, taking, tuple(queries)), Rewriting(*copy, change)])

    async def rewrite(self, changes: Sequence[Rewriting], more: Sequence[RecordWrite] = ()) -> bool:
        """Change several lessons, and write ``more`` records, in one write: all of it or nothing.

        Returns False, and changes nothing, where one of the lessons is no longer what it was before.
        """
        faces: list[Chunk] = []
        records = list(more)
        for each in changes:
            kept = await self._read(each.before.id)
            if kept is None or kept.lesson != each.before:
                return False
            after = self.reader.changed(kept.lesson, each.after)
            written, entry = kept.written(after, each.change, queries=each.queries, without=each.without)
            faces += written
            records.append(entry)
        try:
            await self.store.add(faces, records=records)
        except ConflictError:
            return False
        return True

    async def is_forgotten(self, lesson_id: str) -> bool:
        """Say whether a lesson was forgotten, or is being."""
        return await self.records.get(FORGOTTEN, digest_of(lesson_id)) is not None

    async def keep_apart(self, lesson_id: str) -> None:
        """Note that a lesson was taken out of another on purpose."""
        await self.records.append_once(APART, lesson_id, {})

    async def remove(self, lesson_id: str) -> bool:
        """Remove a lesson and its history for good; False if there was none."""
        kept = await self._read(lesson_id)
        last = kept.changes if kept else len(await self.entries(lesson_id))
        if last:
            numbers = range(1, last + 1)
            await self.records.delete_records(HISTORY, [entry_key(lesson_id, n) for n in numbers])
        await self.records.delete_records(APART, [lesson_id])
        await self._unclaim(lesson_id)
        # Last, because deleting chunks is what also clears a store's files of what was there before.
        return await self.store.delete(face_ids(lesson_id)) > 0

    async def remove_unreadable(self, lesson_id: str) -> bool:
        """Remove a lesson whose rows can't be read, with its history, and note that it is forgotten."""
        await self.records.append_once(FORGOTTEN, digest_of(lesson_id), {})
        for number in itertools.count(1):
            if not await self.records.delete_records(HISTORY, [entry_key(lesson_id, number)]):
                break
        await self._unclaim(lesson_id)
        return await self.store.delete(face_ids(lesson_id)) > 0

    async def entries(self, lesson_id: str) -> list[JSON]:
        """Return the entries of a lesson's history, oldest first; none for a lesson that there is not.

        One that was put back into quarantine is no lesson, and has a history.
        """
        kept = await self._read(lesson_id)
        found: list[JSON] = []
        for number in itertools.count(1) if kept is None else range(1, kept.changes + 1):
            record = await self.records.get(HISTORY, entry_key(lesson_id, number))
            if record is not None:
                read_entry(
                    record.value, record.key
                )  # what it is not is said here, and nowhere a raw TypeError
                found.append(record.value)
            elif kept is None:  # a lesson of the first format has changes, but none for its beginning
                break
        return found

    async def like(self, text: str, *, k: int, min_similarity: float) -> list[tuple[Lesson, float]]:
        """Return the lessons whose own text is nearest to a text, whatever their state, with the similarity.

        One that was merged into another is not among them; that one is, as near as its nearest copy.
        """
        hits = await self.store.search(text, k=k, filter=TEXT_FACES, min_score=min_similarity)
        found: dict[str, tuple[Lesson, float]] = {}
        for hit, near in readable(hits):
            lesson = await self._speaker(near)
            if lesson is not None:
                found.setdefault(lesson.id, (lesson, hit.score))
        return list(found.values())

    async def _speaker(self, lesson: Lesson) -> Lesson | None:
        """The lesson that speaks for one: itself, or what it was merged into; None if that was forgotten."""
        passed = {lesson.id}
        now: Lesson | None = lesson
        while now is not None and MERGED_INTO in now.metadata:
            into = cast("str", now.metadata[MERGED_INTO])
            now = None if into in passed else await self.get(into)
            passed.add(into)
        return now

    async def task_similarities(self, query: str, lesson_ids: Sequence[str]) -> dict[str, float]:
        """Return how near a task is to the tasks of lessons, by their ids; those found by text alone are left out."""
        if not lesson_ids:
            return {}
        where: dict[str, JSON] = {"holds": "task", "lesson_id": {"$in": list(lesson_ids)}}
        hits = await self.store.search(query, k=MOST_FACES * len(lesson_ids), filter=where)
        # The nearest face of each comes first, and is to be the one that stays.
        return {cast("str", hit.chunk.metadata["lesson_id"]): hit.score for hit in reversed(hits)}

    async def _read(self, lesson_id: str) -> Kept | None:
        return Kept.of(await self.store.get_by_ids(face_ids(lesson_id)))


def digest_of(lesson_id: str) -> str:
    """Return what is kept of the id of a lesson that is forgotten."""
    return hashlib.sha256(f"forgotten\x00{lesson_id}".encode("utf-8", "surrogatepass")).hexdigest()
