"""Lessons as they lie in the store: put there, read, changed one change after the other, taken away.

A change reads a lesson and writes all its chunks back together with an entry of its history, whose number must be new:
of two writers at once the second finds the number taken, and reads again. So no change is lost, none is made without
its entry, and several lessons are changed in one write or none of them is.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

import anyio

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.duplicates import claim_of, is_equal, unclaim
from jeeves_reflexion.lessons.filters import both
from jeeves_reflexion.lessons.gate import CleanLesson
from jeeves_reflexion.lessons.history import (
    HISTORY,
    SUPPORT,
    Change,
    Entry,
    entry_key,
    entry_of,
    read_entry,
    tasks_changed,
)
from jeeves_reflexion.lessons.principals import Principal
from jeeves_reflexion.lessons.records import (
    FIRST_CHUNK,
    MOST_TASKS,
    Key,
    chunk_ids,
    chunks_of,
    embedded,
    empty_chunk,
    is_empty,
    key_of,
    lesson_of,
    readable_lesson,
    tasks_of,
)
from jeeves_reflexion.lessons.screening.screens import Screen
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import (
    Chunk,
    ConflictError,
    Filter,
    RecordStore,
    RecordWrite,
    VectorStore,
    VectorStoreError,
)

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

T = TypeVar("T")

FORGOTTEN: Final = "forgotten"
"""Records of lessons that were forgotten, by a digest of their ids."""
_ALL_CLAIMED: Final = ("formats", "equal")
"""The record that says that every lesson is found by its words."""
TRIES: Final = 30
_AT_ONCE: Final = 200
_PAGE: Final = 100  # few enough to be looked through in a few milliseconds of the event loop's time
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


@dataclass(frozen=True, slots=True)
class StoredLesson:
    """A lesson as it was read: its tasks, the numbers of its last change and of its chunks, its texts' vectors."""

    lesson: Lesson
    tasks: tuple[str, ...]
    key: Key
    changes: int
    chunks: int
    vectors: Mapping[str, FloatArray] = field(repr=False, compare=False)

    @classmethod
    def of(cls, there: Sequence[Chunk]) -> Self | None:
        """Read a lesson from its chunks; None where there are none."""
        chunks = [chunk for chunk in there if not is_empty(chunk)]
        if not chunks:
            return None
        changes = cast("int", chunks[0].metadata.get("changes", 0))
        vectors = {embedded(chunk): chunk.vector for chunk in chunks if chunk.vector is not None}
        return cls(lesson_of(chunks[0]), tasks_of(chunks), key_of(chunks), changes, len(there), vectors)


@dataclass(frozen=True, slots=True)
class Revision:
    """One of several lessons that are changed in one write: what it was, what it is to be, and why.

    It is recalled by the texts of ``tasks`` too from then on, and no more by those ``without``; where no task is left,
    by its own text. ``records`` are written with it.
    """

    stored: StoredLesson
    after: Lesson
    change: Change
    tasks: Sequence[str] = ()
    without: Collection[str] = ()
    records: Sequence[RecordWrite] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        lost = any(task in self.without for task in self.stored.tasks)
        return self.after == self.stored.lesson and not lost

    def signed(self, reader: Principal) -> Lesson:
        """Return the lesson with who is to answer for it: of words that a rollback brings back, who did then."""
        back = self.change.operation == "rollback"
        return self.after if back else reader.changed(self.stored.lesson, self.after)

    def written(self, reader: Principal) -> tuple[list[Chunk], list[RecordWrite]]:
        """Return all chunks of the lesson, the entry of its history, and what its new words are found by."""
        stored, number = self.stored, self.stored.changes + 1
        after = self.signed(reader)
        known = dict.fromkeys((*stored.tasks, *self.tasks))
        tasks = [task for task in known if task not in self.without][:MOST_TASKS] or [after.text]
        chunks = chunks_of(after, tasks, stored.key, changes=number, vectors=stored.vectors)
        chunks += [empty_chunk(chunks[0], each) for each in range(len(chunks), stored.chunks)]
        changed = tasks_changed(stored.tasks, tasks)
        if self.change.operation == SUPPORT and stored.tasks and self.tasks:
            # Also those by which it is recalled already: what a merge brought, and an attempt taught since, stays.
            changed = {"tasks": {"added": list(self.tasks), "removed": []}}
        entry = entry_of(number, stored.lesson, after, self.change, changed)
        return chunks, [entry] if is_equal(after, stored.lesson) else [entry, claim_of(after)]


class Repository:
    """The lessons of one namespace of a store.

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
        self._claimed = False

    # -- reading

    async def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson, or None."""
        return (await self.get_all([lesson_id])).get(lesson_id)

    async def get_all(self, lesson_ids: Sequence[str]) -> dict[str, Lesson]:
        """Return the lessons of these ids that there are, by their ids."""
        found: dict[str, Lesson] = {}
        for start in range(0, len(lesson_ids), _AT_ONCE):
            some = [f"{each}:0" for each in lesson_ids[start : start + _AT_ONCE]]
            found |= {lesson.id: lesson for lesson in map(lesson_of, await self.store.get_by_ids(some))}
        return found

    async def read(self, lesson_id: str) -> StoredLesson | None:
        """Return a lesson with all that a change of it needs, or None."""
        return StoredLesson.of(await self.store.get_by_ids(chunk_ids(lesson_id), vectors=True))

    async def known(self, lesson_id: str) -> StoredLesson:
        """Return a lesson as :meth:`read` does; raises :class:`UnknownLessonError` for an id that there is not."""
        stored = await self.read(lesson_id)
        if stored is None:
            raise UnknownLessonError(f"there is no lesson {lesson_id!r}")
        return stored

    async def tasks_of(self, lesson_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the texts of the tasks that lessons are recalled by, by their ids; without those that there are not.

        One that is recalled by its own text has none.
        """
        found: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(lesson_ids), _AT_ONCE):
            some = lesson_ids[start : start + _AT_ONCE]
            chunks = await self.store.get_by_ids([chunk for each in some for chunk in chunk_ids(each)])
            for lesson_id, its in itertools.groupby(chunks, lambda chunk: chunk.id.rpartition(":")[0]):
                found[lesson_id] = tasks_of([chunk for chunk in its if not is_empty(chunk)])
        return found

    async def page(
        self, *, after: str | None = None, limit: int = 100, where: Filter | None = None
    ) -> LessonPage:
        """Return lessons that a filter admits, in the order in which they were written."""
        page = await self.store.scan(filter=both(FIRST_CHUNK, where), after=after, limit=limit)
        return LessonPage(tuple(map(lesson_of, page.chunks)), page.next)

    async def each(self, *, readable: bool = False) -> AsyncIterator[Lesson]:
        """Go through all lessons, oldest first; with ``readable``, pass over rows that are none, with a warning."""
        after: str | None = None
        while True:
            page = await self.store.scan(filter=FIRST_CHUNK, after=after, limit=_PAGE)
            for chunk in page.chunks:
                lesson = readable_lesson(chunk) if readable else lesson_of(chunk)
                if lesson is not None:
                    yield lesson
            if page.next is None:
                return
            after = page.next

    async def count(self) -> int:
        """Count the lessons."""
        return await self.store.count(filter=FIRST_CHUNK)

    async def entries(self, lesson_id: str) -> list[JSON]:
        """Return the entries of a lesson's history as they lie there, oldest first; each can be read."""
        found: list[JSON] = []
        while (record := await self.records.get(HISTORY, entry_key(lesson_id, len(found) + 1))) is not None:
            read_entry(record.value, record.key)
            found.append(record.value)
        return found

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; none where there is no such lesson."""
        return [read_entry(value, lesson_id) for value in await self.entries(lesson_id)]

    async def is_forgotten(self, lesson_id: str) -> bool:
        """Say whether a lesson was forgotten, or is being."""
        return await self.records.get(FORGOTTEN, digest_of(lesson_id)) is not None

    # -- writing

    async def put(
        self,
        clean: CleanLesson,
        change: Change,
        *,
        more: Mapping[str, JSON] = _NOTHING,
        must_be_new: bool = False,
    ) -> Lesson:
        """Store a new lesson as :meth:`put_all` does, and return it as it was stored."""
        return (await self.put_all([clean], change, more=more, must_be_new=must_be_new))[0]

    async def put_all(
        self,
        cleans: Sequence[CleanLesson],
        change: Change,
        *,
        more: Mapping[str, JSON] = _NOTHING,
        must_be_new: bool = False,
    ) -> list[Lesson]:
        """Store new lessons in one write; the first entries of their histories have ``more`` fields.

        One whose id is there, or with ``must_be_new`` its words in its scope, is a :class:`ConflictError`; none is
        stored then.
        """
        lessons, chunks, records = list[Lesson](), list[Chunk](), list[RecordWrite]()
        for clean in cleans:
            lesson = self.reader.signed(clean.lesson)
            lessons.append(lesson)
            chunks += chunks_of(lesson, clean.tasks, self.key, changes=1)
            records += [entry_of(1, None, lesson, change, more), claim_of(lesson, must_be_new=must_be_new)]
        await self.store.add(chunks, records=records)
        return lessons

    async def change(
        self,
        lesson_id: str,
        make: Callable[[Lesson], Lesson | None],
        change: Change,
        *,
        tasks: Sequence[str] = (),
        without: Collection[str] = (),
    ) -> Lesson:
        """Change a lesson by ``make``, and return what it is then; None from ``make`` leaves it as it is.

        It is recalled by ``tasks`` too from now on, and no more by those ``without``. ``make`` may be called again,
        with what another writer made of the lesson meanwhile.
        Raises :class:`UnknownLessonError` for an id that there is not.
        """

        async def revise() -> tuple[list[Revision], Lesson]:
            stored = await self.known(lesson_id)
            after = make(stored.lesson)
            if after is None:
                return [], stored.lesson
            if after.id != lesson_id:
                raise ConfigurationError(f"a change may not turn lesson {lesson_id!r} into {after.id!r}")
            revision = Revision(stored, after, change, tasks, without)
            return [revision], self.reader.changed(stored.lesson, after)

        return await self.transact(revise, f"lesson {lesson_id!r}")

    async def transact(self, revise: Callable[[], Awaitable[tuple[Sequence[Revision], T]]], what: str) -> T:
        """Make the revisions that ``revise`` reads and decides on, in one write, and return its result.

        Where somebody else's change came first, it is called again, on top of that one.
        """
        for tried in range(TRIES):
            if tried:  # others are at it: each waits for a time of its own, or the last of a hundred never has its turn
                await anyio.sleep(random.uniform(0, min(0.001 * 2**tried, _LONGEST_WAIT)))  # noqa: S311
            revisions, result = await revise()
            try:
                await self._commit(revisions)
            except ConflictError:
                continue
            return result
        raise LessonStoreError(f"{what} kept changing while it was to be changed: try again")

    async def _commit(self, revisions: Sequence[Revision]) -> None:
        """Make revisions in one write; on a :class:`ConflictError`, a lesson has changed meanwhile, none is made.

        Raises :class:`UnknownLessonError` where one of them was forgotten meanwhile: it stays so.
        """
        made = [each for each in revisions if not each.is_empty]
        chunks, records = list[Chunk](), [record for each in revisions for record in each.records]
        for each in made:
            its, more = each.written(self.reader)
            chunks += its
            records += more
        if records:
            await self.store.add(chunks, records=records)
            await self._check_not_forgotten([each.after.id for each in made])

    async def _check_not_forgotten(self, lesson_ids: Sequence[str]) -> None:
        """Take away what was forgotten after it was read, and would be back by the write."""
        from jeeves_reflexion.lessons.traces import forget_traces  # noqa: PLC0415 - it stands above this module

        gone = [each for each in lesson_ids if await self.is_forgotten(each)]
        for lesson_id in gone:
            # What struck its words from other lessons may have passed by those that were just written.
            await forget_traces(self, lesson_id)
            await self.remove(lesson_id)
        if gone:
            raise UnknownLessonError(f"lesson {gone[0]!r} was forgotten while it was changed")

    async def claim_all(self) -> None:
        """Have the lessons found by their words that an earlier version stored, which kept no digest of them; once."""
        if self._claimed or await self.records.get(*_ALL_CLAIMED) is not None:
            self._claimed = True
            return
        found = list[RecordWrite]()
        async for lesson in self.each(readable=True):
            found.append(claim_of(lesson))
            if len(found) == _PAGE:
                await self.store.add([], records=found)
                found = []
        await self.store.add([], records=[*found, RecordWrite(*_ALL_CLAIMED, {})])
        self._claimed = True

    async def note_forgotten(self, lesson_id: str) -> bool:
        """Note that a lesson is forgotten; its words can come back by nothing that is written from now on."""
        return await self.records.append_once(FORGOTTEN, digest_of(lesson_id), {})

    async def remove(self, lesson_id: str) -> bool:
        """Remove a lesson and its history for good, also one that can't be read; False if there was none."""
        # Entries are numbered without gaps, but the first is missing where an earlier removal was cut short.
        for number in itertools.count(1):
            if not await self.records.delete_records(HISTORY, [entry_key(lesson_id, number)]) and number > 1:
                break
        await unclaim(self.records, lesson_id)
        # Last: as long as the lesson is there, a removal that was cut short can be made again.
        return await self.store.delete(chunk_ids(lesson_id)) > 0


def digest_of(lesson_id: str) -> str:
    """Return what is kept of the id of a lesson that is forgotten."""
    return hashlib.sha256(f"forgotten\x00{lesson_id}".encode("utf-8", "surrogatepass")).hexdigest()
