"""What all services behind ``jeeves-reflexion lessons`` need, and those of its commands that look, add and forget."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import anyio
import click

from jeeves_reflexion.cli.lessons.views import (
    details,
    entry_row,
    held_as_json,
    held_details,
    lift_words,
    row,
    short,
)
from jeeves_reflexion.cli.options import Asking, EmbedderChoice, Where
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.service import Service, counted
from jeeves_reflexion.cli.stores import open_for_changes, open_for_reading, open_for_run, open_for_search
from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.history import Entry
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.types import JSON, Lesson, LessonState

T = TypeVar("T")

_WHOLE_ID = 32
_SHORTEST_ID = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A lesson that an id stands for; ``held`` if it waits in quarantine."""

    lesson: Lesson
    held: Held | None = None


class LessonService(Service):
    """Answers for the lessons of one place and namespace, each time with a store that is opened and closed for it."""

    def __init__(self, where: Where) -> None:
        super().__init__(where, default_place())

    def list_(self, limit: int, state: LessonState | None, *, everything: bool) -> None:
        """Print the newest lessons, the newest first."""

        async def newest_of(store: VectorLessonStore) -> tuple[list[Lesson], int]:
            newest: deque[Lesson] = deque(maxlen=None if everything else limit)
            total = 0
            for lesson in await all_lessons(store):
                if state is None or lesson.state == state:
                    newest.append(lesson)
                    total += 1
            return list(reversed(newest)), total

        newest, total = self._read(newest_of)
        if self._as_json:
            self._document({"count": total, "lessons": [plain(lesson) for lesson in newest]})
            return
        for lesson in newest:
            self._screen.entry(row(lesson, ("state", lesson.state)))
        if not newest:
            self._screen.note(f"there are no {f'{state} ' if state else ''}lessons {self._where}")
        elif len(newest) < total:
            self._screen.note(f"{len(newest)} of {total} lessons; --all shows the rest", "dim")

    def search(self, text: str, k: int, embedder: EmbedderChoice) -> None:
        """Print the ``k`` lessons nearest to a text."""
        found = self._look_up(lambda store: store.search(text, k=k), embedder, "searching")
        if self._as_json:
            lessons: JSON = [{"similarity": each.similarity, "lesson": plain(each.lesson)} for each in found]
            self._document({"lessons": lessons})
            return
        for item in found:
            self._screen.entry(row(item.lesson, ("similarity", f"{item.similarity:.2f}")))
        if not found:
            self._screen.note(f"there are no lessons {self._where}")

    def show(self, lesson_id: str) -> None:
        """Print one lesson with its provenance and what is known of its use."""

        async def whole(store: VectorLessonStore) -> tuple[Found, Credits, tuple[str, ...]]:
            (found,) = await self._resolve(store, (lesson_id,))
            async with store_errors("read the tasks of a lesson"):
                tasks = await store.repository.tasks_of([found.lesson.id])
            return found, await store.ledger.credits(max_age=0.0), tasks.get(found.lesson.id, ())

        found, known, tasks = self._read(whole)
        lift = known.lift(found.lesson.id)
        if found.held is not None and self._as_json:
            self._document({"held": held_as_json(found.held)})
        elif found.held is not None:
            self._screen.details(held_details(found.held))
        elif self._as_json:
            self._document({"lesson": plain(found.lesson), "tasks": list(tasks), "lift": plain(lift)})
        else:
            self._screen.details({**details(found.lesson, tasks), "lift": lift_words(lift)})

    def history(self, lesson_id: str) -> None:
        """Print every change of a lesson, oldest first."""

        async def changes(store: VectorLessonStore) -> tuple[Found, list[Entry]]:
            (found,) = await self._resolve(store, (lesson_id,))
            return found, await Curator(store.repository).history(found.lesson.id)

        found, entries = self._read(changes)
        lesson = found.lesson
        if self._as_json:
            self._document({"id": lesson.id, "history": [plain(entry) for entry in entries]})
            return
        for entry in entries:
            self._screen.entry(entry_row(entry))
        if found.held is not None:
            ever = "is in quarantine now" if entries else "is in quarantine, and was never let in"
            self._screen.note(f"{short(lesson.id)} {ever}")
        elif not entries:
            self._screen.note(f"lesson {short(lesson.id)} is as it was written; nothing older is known")

    def count(self) -> None:
        """Print how many lessons there are."""
        number = self._read(lambda store: store.count())
        self._answer({"count": number}, str(number))

    def add(
        self, text: str, task: str, kind: str | None, embedder: EmbedderChoice, by: str, *, create: bool
    ) -> None:
        """Store a lesson that a person writes."""
        if not task.strip():
            raise click.UsageError("the task is empty: say what the lesson is to be recalled for")
        open_store = open_for_run if create else open_for_search

        lesson = within(
            lambda: open_store(self._place, self._namespace, embedder),
            lambda store: store.add(text, task, kind=kind, by=by),
        )
        if self._as_json:
            self._document({"lesson": plain(lesson)})
        else:
            self._screen.entry(row(lesson, ("state", lesson.state)))

    def forget(self, lesson_ids: Sequence[str], asking: Asking) -> None:
        """Remove lessons; nothing is removed unless every id is found."""

        async def forgotten(store: VectorLessonStore) -> list[str]:
            return [lesson_id for lesson_id in found if await store.forget(lesson_id)]

        found = self._read(lambda store: self._to_forget(store, lesson_ids))
        if not self._go(asking, f"Forget {counted(len(found), 'lesson')} for good?", list(found.values())):
            self._answer_dry({"forgotten": list(found)})
            return
        gone = self._change(forgotten)  # a lesson that took one of them in may have to be embedded anew
        self._answer({"forgotten": list(gone)}, f"forgot {counted(len(gone), 'lesson')}")

    # -- asking first

    def _go(
        self, asking: Asking, question: str, rows: Sequence[Mapping[str, str]] = (), *, sure: bool = False
    ) -> bool:
        """Whether to go on: shows ``rows`` and asks, unless it is ``sure`` or was told not to; False in a dry run."""
        asks = not (asking.yes or asking.dry_run or sure)
        if asks and self._as_json:
            raise click.UsageError("--json can't ask: add --yes or --dry-run")
        if asking.dry_run and not self._as_json:
            for each in rows:
                self._screen.entry(each)
        if asks:
            for each in rows:  # a part of the question, and no result
                self._screen.asked(each)
            click.confirm(question, abort=True, err=True)
        return not asking.dry_run

    def _answer_dry(self, answer: dict[str, JSON]) -> None:
        if self._as_json:
            self._document({"dry_run": True, **answer})
        else:
            self._screen.note("nothing was changed: a dry run", "dim")

    # -- what touches the store

    def _read(self, work: Callable[[VectorLessonStore], Awaitable[T]]) -> T:
        """Do something with a store that is only read; no embedder is needed."""
        return within(lambda: open_for_reading(self._place, self._namespace), work)

    def _change(
        self, work: Callable[[VectorLessonStore], Awaitable[T]], embedder: EmbedderChoice = "auto"
    ) -> T:
        """Do something with a store that is changed; an embedder is made when a text is new."""
        return within(lambda: open_for_changes(self._place, self._namespace, embedder), work)

    def _look_up(
        self, work: Callable[[VectorLessonStore], Awaitable[T]], embedder: EmbedderChoice, doing: str
    ) -> T:
        """Do something with a store that is searched."""

        async def shown(store: VectorLessonStore) -> T:
            with self._screen.busy():
                self._screen.waiting_for(doing)
                return await work(store)

        return within(lambda: open_for_search(self._place, self._namespace, embedder), shown)

    async def _to_forget(
        self, store: VectorLessonStore, lesson_ids: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """Return what a question shows of each id; one that can't be read is found by its whole id alone."""
        shown: dict[str, dict[str, str]] = {}
        for given in map(str.strip, lesson_ids):
            try:
                (found,) = await self._resolve(store, (given,))
            except UnknownLessonError:
                raise
            except LessonStoreError as error:
                if len(given) != _WHOLE_ID:
                    raise
                shown[given] = {"id": short(given), "state": "unreadable", "lesson": str(error)}
            else:
                shown[found.lesson.id] = naming(found)
        return shown

    async def _one(self, store: VectorLessonStore, lesson_id: str) -> Lesson:
        """Return the lesson that an id stands for; a text in quarantine is none."""
        (found,) = await self._resolve(store, (lesson_id,))
        if found.held is not None:
            raise LessonStoreError(f"{found.lesson.id} is in quarantine, and no lesson: approve or reject it")
        return found.lesson

    async def _resolve(self, store: VectorLessonStore, lesson_ids: Sequence[str]) -> list[Found]:
        """Return the lessons and held texts that ids, whole or cut short, stand for; each once."""
        found: dict[str, Found] = {}
        everything: list[Found] | None = None
        for given in map(str.strip, lesson_ids):
            one = await _exactly(store, given) or await _exactly(store, given.lower())
            if one is None:
                if everything is None and _SHORTEST_ID <= len(given) < _WHOLE_ID:
                    everything = await _everything(store)
                one = self._beginning(given.lower(), everything or [])
            found[one.lesson.id] = one
        return list(found.values())

    def _beginning(self, start: str, among: Sequence[Found]) -> Found:
        if len(start) < _SHORTEST_ID:
            raise click.UsageError(f"the id {start!r} is too short: give at least {_SHORTEST_ID} characters")
        matches = [found for found in among if found.lesson.id.lower().startswith(start)]
        if not matches:
            raise UnknownLessonError(f"there is no lesson {start!r} {self._where}")
        if len(matches) > 1:
            ids = ", ".join(found.lesson.id for found in matches[:5])
            raise LessonStoreError(f"{len(matches)} lessons {self._where} begin with {start!r}: {ids}")
        return matches[0]


def within(
    open_store: Callable[[], VectorLessonStore], work: Callable[[VectorLessonStore], Awaitable[T]]
) -> T:
    """Open a store, do something with it, and close it."""

    async def opened() -> T:
        async with open_store() as store:
            return await work(store)

    return anyio.run(opened)


async def all_lessons(store: VectorLessonStore) -> list[Lesson]:
    """Return every lesson of a store, oldest first."""
    async with store_errors("list lessons"):
        return [store.repository.reader.seen(lesson) async for lesson in store.repository.each()]


async def _exactly(store: VectorLessonStore, lesson_id: str) -> Found | None:
    lesson = await store.get(lesson_id)
    if lesson is not None:
        return Found(lesson)
    async with store_errors("read the quarantine"):
        held = await store.quarantine.get(lesson_id) if lesson_id else None
    return None if held is None else Found(held.lesson, held)


async def _everything(store: VectorLessonStore) -> list[Found]:
    lessons = [Found(lesson) for lesson in await all_lessons(store)]
    async with store_errors("read the quarantine"):
        return [*lessons, *(Found(held.lesson, held) for held in await store.quarantine.all())]


def naming(found: Found) -> dict[str, str]:
    """Return what a question shows of a lesson, or of a text in quarantine."""
    state = "quarantine" if found.held else found.lesson.state
    return {"id": short(found.lesson.id), "state": state, "lesson": found.lesson.text}
