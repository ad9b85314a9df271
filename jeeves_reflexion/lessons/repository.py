"""Lessons as stored records: put, read, changed and removed.

A change reads a lesson, then writes all its chunks together with a new, numbered entry of its history. If two writers
change a lesson at once, the second finds the number taken and starts again. So no change is lost, each change has its
entry, and a change of several lessons is made as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import anyio

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons.credit.records import each_record
from jeeves_reflexion.lessons.duplicates import EQUAL, claim_of, is_equal
from jeeves_reflexion.lessons.gate import CleanLesson
from jeeves_reflexion.lessons.history import HISTORY, SUPPORT, Change, Entry, entry_key, entry_of, read_entry
from jeeves_reflexion.lessons.principals import Principal
from jeeves_reflexion.lessons.records import (
    FIRST_CHUNK,
    MOST_TASKS,
    Key,
    StoredLesson,
    UnreadableLessonError,
    chunk_ids,
    chunks_of,
    lesson_of,
)
from jeeves_reflexion.lessons.screening.screens import Screen
from jeeves_reflexion.session import logger
from jeeves_reflexion.types import JSON, Lesson
from vectorstores.base import Chunk, ConflictError, RecordStore, RecordWrite, VectorStore, VectorStoreError

FORGOTTEN: Final = "forgotten"
"""Records of forgotten lessons, keyed by a digest of the lesson's id."""
_ALL_CLAIMED: Final = ("formats", "equal")
"""The record that says that every lesson has its record in ``EQUAL``."""
TRIES: Final = 30
_AT_ONCE: Final = 200
_PAGE: Final = 100  # few enough to be looked through in a few milliseconds of the event loop's time
_LONGEST_WAIT: Final = 0.5


@contextlib.asynccontextmanager
async def store_errors(doing: str) -> AsyncIterator[None]:
    """Raise each error of the vector store as :class:`LessonStoreError`."""
    try:
        yield
    except VectorStoreError as error:
        raise LessonStoreError(f"could not {doing}: {error}") from error


@dataclass(frozen=True, slots=True)
class Revision:
    """A change of one lesson, made in one write with others: the lesson before and after, and why it changes.

    The lesson is also found by ``tasks`` from now on, and no longer by ``without``. If no task is left, it is found by
    its own text.
    """

    stored: StoredLesson
    after: Lesson
    change: Change
    tasks: Sequence[str] = ()
    without: Collection[str] = ()


class Repository:
    """The lessons of one namespace of a store.

    ``reader`` is who opened the store; ``screen`` judges new lesson texts after the rules.
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
        return next(map(lesson_of, await self.store.get_by_ids([f"{lesson_id}:0"])), None)

    async def read(self, lesson_id: str) -> StoredLesson | None:
        """Return a lesson with everything that changing it needs, or None."""
        return StoredLesson.of(await self.store.get_by_ids(chunk_ids(lesson_id), vectors=True))

    async def read_all(self, lesson_ids: Sequence[str]) -> dict[str, StoredLesson]:
        """Return lessons with their tasks but without vectors, as a dict by id. Unknown ids are left out."""
        found: dict[str, StoredLesson] = {}
        for start in range(0, len(lesson_ids), _AT_ONCE):
            some = lesson_ids[start : start + _AT_ONCE]
            chunks = await self.store.get_by_ids([chunk for each in some for chunk in chunk_ids(each)])
            for lesson_id, group in itertools.groupby(chunks, lambda chunk: chunk.id.rpartition(":")[0]):
                if (stored := StoredLesson.of(list(group))) is not None:
                    found[lesson_id] = stored
        return found

    async def known(self, lesson_id: str) -> StoredLesson:
        """Return a lesson as :meth:`read` does; raises :class:`UnknownLessonError` if it does not exist."""
        stored = await self.read(lesson_id)
        if stored is None:
            raise UnknownLessonError(f"there is no lesson {lesson_id!r}")
        return stored

    async def each(self, *, readable: bool = False) -> AsyncIterator[Lesson]:
        """Yield all lessons, oldest first; with ``readable``, skip rows that are not lessons, with a warning."""
        after: str | None = None
        while True:
            page = await self.store.scan(filter=FIRST_CHUNK, after=after, limit=_PAGE)
            for chunk in page.chunks:
                try:
                    lesson = lesson_of(chunk)
                except UnreadableLessonError as error:
                    if not readable:
                        raise
                    logger.warning("%s", error)
                else:
                    yield lesson
            if page.next is None:
                return
            after = page.next

    async def history(self, lesson_id: str) -> list[Entry]:
        """Return every change of a lesson, oldest first; empty for an unknown lesson."""
        found = list[Entry]()
        while (record := await self.records.get(HISTORY, entry_key(lesson_id, len(found) + 1))) is not None:
            found.append(read_entry(record))
        return found

    async def is_forgotten(self, lesson_id: str) -> bool:
        """Whether a lesson was forgotten, or is being forgotten."""
        return await self.records.get(FORGOTTEN, digest_of(lesson_id)) is not None

    # -- writing

    async def put(self, clean: CleanLesson, change: Change, *, must_be_new: bool = False) -> Lesson:
        """Store a new lesson as :meth:`put_all` does, and return it as it was stored."""
        return (await self.put_all([clean], change, must_be_new=must_be_new))[0]

    async def put_all(
        self, cleans: Sequence[CleanLesson], change: Change, *, must_be_new: bool = False
    ) -> list[Lesson]:
        """Store new lessons in one write.

        Raises :class:`ConflictError`, and stores none of them, if an id is taken or, with ``must_be_new``, if an equal
        lesson of the same scope is stored.
        """
        lessons, chunks, records = list[Lesson](), list[Chunk](), list[RecordWrite]()
        for clean in cleans:
            lesson = self.reader.signed(clean.lesson)
            lessons.append(lesson)
            chunks += chunks_of(lesson, clean.tasks, self.key, changes=1)
            records += [entry_of(1, None, lesson, change, {}), claim_of(lesson, must_be_new=must_be_new)]
        await self.store.add(chunks, records=records)
        return lessons

    async def change(
        self,
        lesson_id: str,
        make: Callable[[Lesson], Lesson],
        change: Change,
        *,
        without: Collection[str] = (),
    ) -> Lesson:
        """Change a lesson by ``make`` and return the result; it is no longer found by the tasks ``without``.

        If another writer changes it meanwhile, ``make`` is called again with the new state.
        Raises :class:`UnknownLessonError` if the lesson does not exist.
        """

        async def revise() -> list[Revision]:
            stored = await self.known(lesson_id)
            return [Revision(stored, make(stored.lesson), change, without=without)]

        return (await self.transact(revise, f"lesson {lesson_id!r}"))[0]

    async def transact(self, revise: Callable[[], Awaitable[Sequence[Revision]]], what: str) -> list[Lesson]:
        """Write the revisions that ``revise`` returns in one write, and return the lessons as they are stored then.

        If another writer's change came first, ``revise`` is called again. Raises :class:`UnknownLessonError` if a
        lesson was forgotten meanwhile, which then stays forgotten.
        """
        from jeeves_reflexion.lessons.traces import forget_traces  # noqa: PLC0415 - it imports this module

        for tried in range(TRIES):
            if tried:  # back off for a random time; without it the last of a hundred writers may starve
                await anyio.sleep(random.uniform(0, min(0.001 * 2**tried, _LONGEST_WAIT)))  # noqa: S311
            lessons, chunks, records, made = list[Lesson](), list[Chunk](), list[RecordWrite](), list[str]()
            for each in await revise():
                before = each.stored.lesson
                # Words that a rollback brings back keep the writer that they had.
                back = each.change.operation == "rollback"
                after = each.after if back else self.reader.changed(before, each.after)
                lessons.append(after)
                if after != before or not set(each.stored.tasks).isdisjoint(each.without):
                    _add_writes(replace(each, after=after), chunks, records)
                    made.append(after.id)
            if not made:
                return lessons
            try:
                await self.store.add(chunks, records=records)
            except ConflictError:
                continue
            gone = [each for each in made if await self.is_forgotten(each)]
            for lesson_id in gone:
                # Forgetting may have struck its words from other lessons before these were written.
                await forget_traces(self, lesson_id)
                await self.remove(lesson_id)
            if gone:
                raise UnknownLessonError(f"lesson {gone[0]!r} was forgotten while it was changed")
            return lessons
        raise LessonStoreError(f"{what} could not be changed: other writers kept changing it; try again")

    async def claim_all(self) -> None:
        """Write, once per store, the records in ``EQUAL`` of lessons that an earlier version stored without one."""
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

    async def remove(self, lesson_id: str) -> bool:
        """Remove a lesson and its history for good, readable or not; False if there was none."""
        # Entries are numbered without gaps, but an interrupted removal may have taken the first.
        for number in itertools.count(1):
            if not await self.records.delete_records(HISTORY, [entry_key(lesson_id, number)]) and number > 1:
                break
        # Their digests would confirm a guess at its words.
        claims = [
            each.key
            async for each in each_record(self.records, EQUAL)
            if each.value == {"lesson_id": lesson_id}
        ]
        await self.records.delete_records(EQUAL, claims)
        # Last, so that an interrupted removal can be repeated: until now the lesson is still found.
        return await self.store.delete(chunk_ids(lesson_id)) > 0


def digest_of(lesson_id: str) -> str:
    """Return the digest that is kept of the id of a forgotten lesson."""
    return hashlib.sha256(f"forgotten\x00{lesson_id}".encode("utf-8", "surrogatepass")).hexdigest()


def _add_writes(revision: Revision, chunks: list[Chunk], records: list[RecordWrite]) -> None:
    """Add to ``chunks`` and ``records`` what a revision writes, which is left to :meth:`Repository.transact`.

    This is all chunks of the lesson, its history entry and, if its words changed, its record in ``EQUAL``.
    """
    stored, after, change = revision.stored, revision.after, revision.change
    before, number = stored.lesson, stored.changes + 1
    known = dict.fromkeys((*stored.tasks, *revision.tasks))
    tasks = [task for task in known if task not in revision.without][:MOST_TASKS] or [after.text]
    vectors, replaces = stored.vectors, stored.chunks
    chunks += chunks_of(after, tasks, stored.key, changes=number, vectors=vectors, replaces=replaces)
    added = [task for task in tasks if task not in stored.tasks]
    removed = [task for task in stored.tasks if task not in tasks]
    if change.operation == SUPPORT and revision.tasks:
        # Name tasks that are there already too: one that a merge brought stays if an attempt taught it since.
        added, removed = list(revision.tasks), []
    more: dict[str, JSON] = {}
    if stored.tasks and (added or removed):  # a lesson that is found by its own text has no tasks
        more = {"tasks": {"added": added, "removed": removed}}
    records.append(entry_of(number, before, after, change, more))
    if not is_equal(after, before):
        records.append(claim_of(after))
