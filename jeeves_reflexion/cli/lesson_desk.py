"""``jeeves-reflexion lessons``: what its commands do."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import AsyncIterator, Sequence

import anyio
import click

from jeeves_reflexion.cli.desk import Desk, counted, with_values
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.stores import open_for_reading, open_for_search
from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.places import default_place
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Lesson, RecalledLesson

_WHOLE_ID = 32
_SHORT_ID = 8
_SHORTEST_ID = 4
_TASK_EXCERPT = 60
_PAGE = 500


class LessonDesk(Desk):
    """Answers questions about the lessons of one place and namespace, each with one opening of the store."""

    def __init__(self, place: str | None, namespace: str, *, as_json: bool) -> None:
        super().__init__(default_place() if place is None else place, namespace, as_json=as_json)

    def show_newest(self, limit: int | None) -> None:
        """Print the newest lessons, the newest first; ``limit=None`` prints all."""
        newest, total = anyio.run(self._newest, limit)
        if self._as_json:
            self._document({"count": total, "lessons": [plain(lesson) for lesson in newest]})
            return
        for lesson in newest:
            self._screen.entry(_row(lesson))
        if not newest:
            self._screen.note(f"there are no lessons {self._where}")
        elif len(newest) < total:
            self._screen.note(f"{len(newest)} of {total} lessons; --all shows the rest", "dim")

    def search(self, text: str, k: int, embedder: EmbedderChoice) -> None:
        """Print the ``k`` lessons nearest to a text."""
        found = anyio.run(self._search, text, k, embedder)
        if self._as_json:
            self._document({"lessons": [_found_as_json(item) for item in found]})
            return
        for item in found:
            self._screen.entry(_row(item.lesson, ("similarity", f"{item.similarity:.2f}")))
        if not found:
            self._screen.note(f"there are no lessons {self._where}")

    def show(self, lesson_id: str) -> None:
        """Print one lesson with its provenance."""
        (lesson,) = anyio.run(self._resolve, (lesson_id,))
        if self._as_json:
            self._document({"lesson": plain(lesson)})
            return
        self._screen.details(_details(lesson))

    def forget(self, lesson_ids: Sequence[str], *, ask: bool) -> None:
        """Remove lessons; nothing is removed unless every id is found."""
        lessons = anyio.run(self._resolve, lesson_ids)
        for lesson in lessons if ask else ():
            self._screen.note(f"{_short(lesson)}  {lesson.text}")
        if ask:
            click.confirm(f"Forget {counted(len(lessons), 'lesson')} for good?", abort=True, err=True)
        gone = anyio.run(self._forget, [lesson.id for lesson in lessons])
        if self._as_json:
            self._document({"forgotten": gone})
        else:
            self._screen.result(f"forgot {counted(len(gone), 'lesson')}")

    def count(self) -> None:
        """Print how many lessons there are."""
        number = anyio.run(self._count)
        if self._as_json:
            self._document({"count": number})
        else:
            self._screen.result(str(number))

    # -- what touches the store

    def _reading(self) -> VectorLessonStore:
        return open_for_reading(self._place, self._namespace)

    async def _newest(self, limit: int | None) -> tuple[list[Lesson], int]:
        async with self._reading() as store:
            total = await store.count()
            newest: deque[Lesson] = deque(maxlen=limit)
            async for lesson in _each(store):
                newest.append(lesson)
        return list(reversed(newest)), total

    async def _search(self, text: str, k: int, embedder: EmbedderChoice) -> list[RecalledLesson]:
        async with open_for_search(self._place, self._namespace, embedder) as store:
            with self._screen.busy():
                self._screen.waiting_for("searching")
                return await store.search(text, k=k)

    async def _count(self) -> int:
        async with self._reading() as store:
            return await store.count()

    async def _forget(self, lesson_ids: Sequence[str]) -> list[str]:
        async with self._reading() as store:
            return [lesson_id for lesson_id in lesson_ids if await store.forget(lesson_id)]

    async def _resolve(self, lesson_ids: Sequence[str]) -> list[Lesson]:
        """Return the lessons that ids, whole or cut short, stand for; each once."""
        found: dict[str, Lesson] = {}
        async with self._reading() as store:
            for lesson_id in lesson_ids:
                lesson = await self._one(store, lesson_id.strip().lower())
                found[lesson.id] = lesson
        return list(found.values())

    async def _one(self, store: VectorLessonStore, lesson_id: str) -> Lesson:
        if len(lesson_id) >= _WHOLE_ID:
            lesson = await store.get(lesson_id)
            matches = [] if lesson is None else [lesson]
        elif len(lesson_id) < _SHORTEST_ID:
            raise click.UsageError(
                f"the id {lesson_id!r} is too short: give at least {_SHORTEST_ID} characters"
            )
        else:
            matches = [lesson async for lesson in _each(store) if lesson.id.startswith(lesson_id)]
        if not matches:
            raise LessonStoreError(f"there is no lesson {lesson_id!r} {self._where}")
        if len(matches) > 1:
            ids = ", ".join(lesson.id for lesson in matches[:5])
            raise LessonStoreError(f"{len(matches)} lessons {self._where} begin with {lesson_id!r}: {ids}")
        return matches[0]


async def _each(store: VectorLessonStore) -> AsyncIterator[Lesson]:
    after: str | None = None
    while True:
        page = await store.list(after=after, limit=_PAGE)
        for lesson in page.lessons:
            yield lesson
        if page.next is None:
            return
        after = page.next


def _row(lesson: Lesson, *more: tuple[str, str]) -> dict[str, str]:
    score = lesson.provenance.score
    return {
        "id": _short(lesson),
        "date": _when(lesson, "%Y-%m-%d"),
        "score": "-" if score is None else f"{score:.2f}",
        **dict(more),
        "task": _task(lesson),
        "lesson": lesson.text,
    }


def _details(lesson: Lesson) -> dict[str, str]:
    source = lesson.provenance
    score = "none" if source.score is None else f"{source.score:.2f}"
    details = {
        "id": lesson.id,
        "lesson": lesson.text,
        "task": lesson.task_excerpt,
        "kind": lesson.task_kind or "",
        "tools": ", ".join(lesson.tools),
        "from": f"attempt {source.attempt} ({lesson.outcome}, score {score}) of run {source.run_id}",
        "by": " with ".join(part for part in (source.agent, source.model) if part),
        "written": _when(lesson, "%Y-%m-%d %H:%M:%S %z"),
    }
    return with_values(details)


def _found_as_json(item: RecalledLesson) -> JSON:
    return {"similarity": item.similarity, "lesson": plain(item.lesson)}


def _short(lesson: Lesson) -> str:
    return lesson.id[:_SHORT_ID]


def _task(lesson: Lesson) -> str:
    return abridge(lesson.task_excerpt, _TASK_EXCERPT)


def _when(lesson: Lesson, form: str) -> str:
    moment = datetime.datetime.fromtimestamp(lesson.provenance.created_at, tz=datetime.UTC)
    return moment.astimezone().strftime(form)
