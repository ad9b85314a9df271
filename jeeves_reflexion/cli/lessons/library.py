"""The lessons that a command works on: how it opens the store, finds lessons by id, and prints them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from jeeves_reflexion.cli import options
from jeeves_reflexion.cli.screen import Answers
from jeeves_reflexion.cli.stores import open_existing, open_or_make, origin_at
from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons import Curator, VectorLessonStore
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.summary import when
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import Lesson

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

    default_address = staticmethod(default_place)
    embedder: str = "auto"
    create: bool = False

    @property
    def is_new(self) -> bool:
        """Whether ``--create`` has to create the store."""
        return self.create and origin_at(self.store_address) is None

    @contextlib.asynccontextmanager
    async def open(self, *, create: bool = False) -> AsyncIterator[VectorLessonStore]:
        """Open the store for a piece of work; with ``create``, create a missing store."""
        open_store = open_or_make if create else open_existing
        async with (
            store_errors("use the lessons"),
            open_store(self.store_address, self.namespace or "default", self.embedder) as store,
        ):
            yield store

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
        everything: list[Found] = []
        for given in map(str.strip, lesson_ids):
            if (lesson := await store.get(given)) is not None:
                matches = [Found(lesson)]
            elif given and (held := await store.quarantine.get(given)) is not None:
                matches = [Found(held.lesson, held)]
            elif len(given) < _SHORTEST_ID:
                raise click.UsageError(
                    f"the id {given!r} is too short: give at least {_SHORTEST_ID} characters"
                )
            else:
                if not everything:
                    everything += map(Found, await all_lessons(store))
                    everything += (Found(held.lesson, held) for held in await store.quarantine.all())
                matches = [each for each in everything if each.lesson.id.lower().startswith(given.lower())]
            if not matches:
                raise UnknownLessonError(f"there is no lesson {given!r} {self.where}")
            if len(matches) > 1:
                ids = ", ".join(each.lesson.id for each in matches[:5])
                raise LessonStoreError(f"{len(matches)} lessons {self.where} begin with {given!r}: {ids}")
            found[matches[0].lesson.id] = matches[0]
        return list(found.values())


def over_lessons(*more: Callable[[Any], Any]) -> Callable[[options.F], options.F]:
    """Return a decorator that adds the options of all lesson commands, after ``more`` options of :class:`Library`."""
    return options.gathered(
        "library", Library, *more, options.lessons, options.namespace, options.json, options.debug
    )


async def all_lessons(store: VectorLessonStore) -> list[Lesson]:
    """Return every lesson of a store as its reader sees it, oldest first."""
    return [store.repository.reader.seen(lesson) async for lesson in store.repository.each()]


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
