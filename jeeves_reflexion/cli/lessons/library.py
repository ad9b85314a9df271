"""The lessons that a command works on: how it opens the store, finds lessons by id, and prints them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio
import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.screen import Answers
from jeeves_reflexion.cli.stores import open_existing, open_or_make
from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons import Curator, VectorLessonStore
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.records import VOTES
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.summary import when
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Lesson

T = TypeVar("T")

_TASK_EXCERPT: Final = 60
_SHORTEST_ID: Final = 4


@dataclass(frozen=True, slots=True)
class Found:
    """The lesson with an id; ``held`` if it waits in quarantine."""

    lesson: Lesson
    held: Held | None = None

    @property
    def state(self) -> str:
        """The lesson's state, or ``quarantine``."""
        return "quarantine" if self.held else self.lesson.state


@dataclass
class Library(Answers):
    """The lessons of one address and namespace, opened for each piece of work and closed after it."""

    embedder: str = "auto"

    @staticmethod
    def default_address() -> str:
        """Return ``JEEVES_LESSONS``, else a folder among the user's data."""
        return default_place()

    def within(self, work: Callable[[VectorLessonStore], Awaitable[T]], *, create: bool = False) -> T:
        """Open the store, run ``work`` with it, and close it; with ``create``, create a missing store."""
        open_store = open_or_make if create else open_existing

        async def opened() -> T:
            async with (
                store_errors("use the lessons"),
                open_store(self.store_address, self.namespace or "default", self.embedder) as store,
            ):
                return await work(store)

        return anyio.run(opened)

    def curator(self, store: VectorLessonStore) -> Curator:
        """Return a curator that changes lessons in the name of ``--by``."""
        return Curator(store.repository, by=self.by)

    async def one(self, store: VectorLessonStore, lesson_id: str) -> Lesson:
        """Return the lesson with an id, whole or shortened; a text in quarantine is a :class:`LessonStoreError`."""
        (found,) = await self.find(store, (lesson_id,))
        if found.held is not None:
            raise LessonStoreError(f"{found.lesson.id} is in quarantine: approve or reject it first")
        return found.lesson

    async def find(self, store: VectorLessonStore, lesson_ids: Sequence[str]) -> list[Found]:
        """Return the lessons and texts in quarantine with these ids, whole or shortened; each once."""
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


def over_lessons(*more: Callable[[Any], Any]) -> Callable[[options.F], options.F]:
    """Return a decorator that adds the options of all lesson commands, after ``more`` options of :class:`Library`."""
    return options.gathered(
        "library", Library, *more, options.lessons, options.namespace, options.json, options.debug
    )


async def all_lessons(store: VectorLessonStore) -> list[Lesson]:
    """Return every lesson of a store as its reader sees it, oldest first."""
    return [store.repository.reader.seen(lesson) async for lesson in store.repository.each()]


async def _exactly(store: VectorLessonStore, lesson_id: str) -> Found | None:
    if (lesson := await store.get(lesson_id)) is not None:
        return Found(lesson)
    held = await store.quarantine.get(lesson_id) if lesson_id else None
    return None if held is None else Found(held.lesson, held)


async def _everything(store: VectorLessonStore) -> list[Found]:
    lessons = [Found(lesson) for lesson in await all_lessons(store)]
    return [*lessons, *(Found(held.lesson, held) for held in await store.quarantine.all())]


# -- how lessons are shown


def short(lesson_id: str) -> str:
    """Return the first eight characters of an id."""
    return lesson_id[:8]


def row(lesson: Lesson, **more: str) -> dict[str, str]:
    """Return a lesson as an item of a list, with ``more`` columns before its task."""
    at, score = when(lesson.provenance.created_at), lesson.provenance.score
    scored = "-" if score is None else f"{score:.2f}"
    return brief(lesson, date=at or "-", score=scored, **more, task=task_excerpt(lesson))


def brief(lesson: Lesson, **about: str) -> dict[str, str]:
    """Return the id of a lesson, the columns ``about``, and its text."""
    return {"id": short(lesson.id), **about, "lesson": lesson.text}


def task_excerpt(lesson: Lesson) -> str:
    """Return the beginning and end of a lesson's task."""
    return abridge(lesson.task_excerpt, _TASK_EXCERPT)


def change_of(before: Lesson | None, after: Lesson, *, told: str = "") -> str:
    """Describe a change of a lesson; empty if nothing changed. A reason already ``told`` is not repeated."""
    if before is None:
        return after.text
    then, now = (
        {
            "": each.text,
            "trust": each.trust,
            "support": each.support,
            "contradicts": ", ".join(map(short, each.contradicts)) or "none",
            "votes": each.metadata.get(VOTES, 0),
        }
        for each in (before, after)
    )
    parts = [f"{name} {then[name]} -> {now[name]}".strip() for name in now if then[name] != now[name]]
    if (before.state, before.state_reason) != (after.state, after.state_reason):
        reason = f": {after.state_reason}" if after.state_reason not in ("", told) else ""
        moved = f"{before.state} -> {after.state}" if before.state != after.state else "reason"
        parts.append(moved + reason)
    if before != after and not parts:
        parts.append("metadata")
    return "; ".join(parts)
