"""The lessons that a command works on: opened for it, found by their ids, and answered for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import anyio
import click

from jeeves_reflexion.cli.options import EmbedderChoice, Where, answered_by, lessons_or_place
from jeeves_reflexion.cli.screen import Answers
from jeeves_reflexion.cli.stores import open_existing, open_or_make
from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons import Curator, VectorLessonStore
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.types import Lesson

T = TypeVar("T")

_SHORTEST_ID = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A lesson that an id stands for; ``held`` if it waits in quarantine."""

    lesson: Lesson
    held: Held | None = None

    @property
    def state(self) -> str:
        """The lesson's state, or that it is in quarantine."""
        return "quarantine" if self.held else self.lesson.state


class Library(Answers):
    """The lessons of one address and namespace, opened for each piece of work and closed after it."""

    def __init__(self, where: Where) -> None:
        super().__init__(where, default_place())

    def within(
        self,
        work: Callable[[VectorLessonStore], Awaitable[T]],
        embedder: EmbedderChoice = "auto",
        *,
        create: bool = False,
        doing: str = "",
    ) -> T:
        """Open the store, do something with it, and close it; with ``create`` a store is made where there is none."""
        open_store = open_or_make if create else open_existing

        async def opened() -> T:
            async with store_errors("use the lessons"), open_store(*there) as store:
                with self.screen.busy(doing):
                    return await work(store)

        there = (self.address, self.namespace, embedder)
        return anyio.run(opened)

    def curator(self, store: VectorLessonStore, by: str = "") -> Curator:
        """Return what changes lessons, on behalf of somebody."""
        return Curator(store.repository, by=by)

    async def one(self, store: VectorLessonStore, lesson_id: str) -> Lesson:
        """Return the lesson that an id stands for; a text in quarantine is none."""
        (found,) = await self.find(store, (lesson_id,))
        if found.held is not None:
            raise LessonStoreError(f"{found.lesson.id} is in quarantine, and no lesson: approve or reject it")
        return found.lesson

    async def find(self, store: VectorLessonStore, lesson_ids: Sequence[str]) -> list[Found]:
        """Return the lessons and held texts that ids, whole or cut short, stand for; each once."""
        found: dict[str, Found] = {}
        everything: list[Found] | None = None
        for given in map(str.strip, lesson_ids):
            one = await _exactly(store, given)
            if one is None and len(given) < _SHORTEST_ID:
                raise click.UsageError(
                    f"the id {given!r} is too short: give at least {_SHORTEST_ID} characters"
                )
            if one is None:
                everything = everything or await _everything(store)
                one = self._beginning(given, everything)
            found[one.lesson.id] = one
        return list(found.values())

    def _beginning(self, start: str, among: Sequence[Found]) -> Found:
        matches = [found for found in among if found.lesson.id.lower().startswith(start.lower())]
        if not matches:
            raise UnknownLessonError(f"there is no lesson {start!r} {self.where}")
        if len(matches) > 1:
            ids = ", ".join(found.lesson.id for found in matches[:5])
            raise LessonStoreError(f"{len(matches)} lessons {self.where} begin with {start!r}: {ids}")
        return matches[0]


over_lessons = answered_by(Library, lessons_or_place)


async def all_lessons(store: VectorLessonStore) -> list[Lesson]:
    """Return every lesson of a store as its opener sees it, oldest first."""
    return [store.repository.reader.seen(lesson) async for lesson in store.repository.each()]


async def _exactly(store: VectorLessonStore, lesson_id: str) -> Found | None:
    if (lesson := await store.get(lesson_id)) is not None:
        return Found(lesson)
    held = await store.quarantine.get(lesson_id) if lesson_id else None
    return None if held is None else Found(held.lesson, held)


async def _everything(store: VectorLessonStore) -> list[Found]:
    lessons = [Found(lesson) for lesson in await all_lessons(store)]
    return [*lessons, *(Found(held.lesson, held) for held in await store.quarantine.all())]
