"""``jeeves-reflexion lessons``: what its commands that look do, and what all of them need."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
import click

from jeeves_reflexion.cli.desk import Desk, counted
from jeeves_reflexion.cli.late import open_for_changes
from jeeves_reflexion.cli.lesson_options import Asking, Where
from jeeves_reflexion.cli.lesson_rows import (
    BELOW,
    change_of,
    details,
    held_as_json,
    held_details,
    lift_words,
    row,
    short,
    when,
)
from jeeves_reflexion.cli.lesson_screen import LessonScreen
from jeeves_reflexion.cli.options import EmbedderChoice
from jeeves_reflexion.cli.plain import as_json as plain
from jeeves_reflexion.cli.stores import open_for_reading, open_for_search
from jeeves_reflexion.errors import LessonStoreError, UnknownLessonError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.lessons.credit.tally import Credits
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.history import PUT_BACK, Entry
from jeeves_reflexion.lessons.quarantine import Held
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.loop.lesson_address import default_place
from jeeves_reflexion.types import JSON, Lesson, LessonState, RecalledLesson

_WHOLE_ID = 32
_SHORTEST_ID = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A lesson that an id stands for; ``held`` if it waits in quarantine."""

    lesson: Lesson
    held: Held | None = None


class LessonDesk(Desk):
    """Answers questions about the lessons of one place and namespace."""

    _screen: LessonScreen

    def __init__(self, where: Where) -> None:
        place = default_place() if where.place is None else where.place
        super().__init__(place, where.namespace, as_json=where.as_json)
        self._screen = LessonScreen(quiet=False)

    def show_newest(self, limit: int | None, state: LessonState | None = None) -> None:
        """Print the newest lessons, the newest first; ``limit=None`` prints all."""
        newest, total = anyio.run(self._newest, limit, state)
        if self._as_json:
            self._document({"count": total, "lessons": [plain(lesson) for lesson in newest]})
            return
        for lesson in newest:
            self._screen.entry(row(lesson, ("state", lesson.state)), BELOW)
        if not newest:
            self._screen.note(f"there are no {f'{state} ' if state else ''}lessons {self._where}")
        elif len(newest) < total:
            self._screen.note(f"{len(newest)} of {total} lessons; --all shows the rest", "dim")

    def search(self, text: str, k: int, embedder: EmbedderChoice) -> None:
        """Print the ``k`` lessons nearest to a text."""
        found = anyio.run(self._search, text, k, embedder)
        if self._as_json:
            self._document({"lessons": [_found_as_json(item) for item in found]})
            return
        for item in found:
            self._screen.entry(row(item.lesson, ("similarity", f"{item.similarity:.2f}")), BELOW)
        if not found:
            self._screen.note(f"there are no lessons {self._where}")

    def show(self, lesson_id: str) -> None:
        """Print one lesson with its provenance and what is known of its use."""
        found, known, tasks = anyio.run(self._whole, lesson_id)
        if found.held is not None:
            if self._as_json:
                self._document({"held": held_as_json(found.held)})
            else:
                self._screen.details(held_details(found.held))
            return
        lift = known.lift(found.lesson.id)
        if self._as_json:
            self._document({"lesson": plain(found.lesson), "tasks": list(tasks), "lift": plain(lift)})
            return
        self._screen.details({**details(found.lesson, tasks), "lift": lift_words(lift)})

    def history(self, lesson_id: str) -> None:
        """Print every change of a lesson, oldest first."""
        lesson, entries, held = anyio.run(self._history, lesson_id)
        if self._as_json:
            self._document({"id": lesson.id, "history": [plain(entry) for entry in entries]})
            return
        for entry in entries:
            self._screen.entry(_entry_row(entry), BELOW)
        if held:
            ever = "is in quarantine now" if entries else "is in quarantine, and was never let in"
            self._screen.note(f"{short(lesson.id)} {ever}")
        elif not entries:
            self._screen.note(f"lesson {short(lesson.id)} is as it was written; nothing older is known")

    def forget(self, lesson_ids: Sequence[str], asking: Asking) -> None:
        """Remove lessons; nothing is removed unless every id is found."""
        found = anyio.run(self._to_forget, lesson_ids)
        question = f"Forget {counted(len(found), 'lesson')} for good?"
        if not self._go(asking, question, list(found.values())):
            self._answer_dry({"forgotten": list(found)})
            return
        gone = anyio.run(self._forget, list(found))
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
                self._screen.asked(each, BELOW)
            click.confirm(question, abort=True, err=True)
        return not asking.dry_run

    def _answer_dry(self, answer: dict[str, JSON]) -> None:
        if self._as_json:
            self._document({"dry_run": True, **answer})
        else:
            self._screen.note("nothing was changed: a dry run", "dim")

    # -- what touches the store

    def _reading(self) -> VectorLessonStore:
        return open_for_reading(self._place, self._namespace)

    def _changing(self, embedder: EmbedderChoice = "auto") -> VectorLessonStore:
        return open_for_changes(self._place, self._namespace, embedder)

    async def _newest(self, limit: int | None, state: LessonState | None) -> tuple[list[Lesson], int]:
        async with self._reading() as store:
            newest: deque[Lesson] = deque(maxlen=limit)
            total = 0
            for lesson in await all_lessons(store):
                if state is None or lesson.state == state:
                    newest.append(lesson)
                    total += 1
        return list(reversed(newest)), total

    async def _search(self, text: str, k: int, embedder: EmbedderChoice) -> list[RecalledLesson]:
        async with open_for_search(self._place, self._namespace, embedder) as store:
            with self._screen.busy():
                self._screen.waiting_for("searching")
                return await store.search(text, k=k)

    async def _whole(self, lesson_id: str) -> tuple[Found, Credits, tuple[str, ...]]:
        async with self._reading() as store:
            (found,) = await self._resolve(store, (lesson_id,))
            async with store_errors("read the tasks of a lesson"):
                tasks = await store.repository.tasks_of([found.lesson.id])
            return found, await store.ledger.credits(max_age=0.0), tasks.get(found.lesson.id, ())

    async def _history(self, lesson_id: str) -> tuple[Lesson, list[Entry], bool]:
        async with self._reading() as store:
            (found,) = await self._resolve(store, (lesson_id,))
            entries = await Curator(store.repository).history(found.lesson.id)
            return found.lesson, entries, found.held is not None

    async def _count(self) -> int:
        async with self._reading() as store:
            return await store.count()

    async def _forget(self, lesson_ids: Sequence[str]) -> list[str]:
        # A lesson that took one of them in may have to be embedded anew.
        async with self._changing() as store:
            return [lesson_id for lesson_id in lesson_ids if await store.forget(lesson_id)]

    async def _to_forget(self, lesson_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return what a question shows of each id; one that can't be read is found by its whole id alone."""
        shown: dict[str, dict[str, str]] = {}
        async with self._reading() as store:
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
            one = await self._exactly(store, given) or await self._exactly(store, given.lower())
            if one is None:
                if everything is None and _SHORTEST_ID <= len(given) < _WHOLE_ID:
                    everything = await _everything(store)
                one = self._beginning(given.lower(), everything or [])
            found[one.lesson.id] = one
        return list(found.values())

    async def _exactly(self, store: VectorLessonStore, lesson_id: str) -> Found | None:
        lesson = await store.get(lesson_id)
        if lesson is not None:
            return Found(lesson)
        async with store_errors("read the quarantine"):
            held = await store.quarantine.get(lesson_id) if lesson_id else None
        return None if held is None else Found(held.lesson, held)

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


async def all_lessons(store: VectorLessonStore) -> list[Lesson]:
    """Return every lesson of a store, oldest first."""
    async with store_errors("list lessons"):
        return [store.repository.reader.seen(lesson) async for lesson in store.repository.each()]


async def _everything(store: VectorLessonStore) -> list[Found]:
    lessons = [Found(lesson) for lesson in await all_lessons(store)]
    async with store_errors("read the quarantine"):
        return [*lessons, *(Found(held.lesson, held) for held in await store.quarantine.all())]


def naming(found: Found) -> dict[str, str]:
    """Return what a question shows of a lesson, or of a text in quarantine."""
    state = "quarantine" if found.held else found.lesson.state
    return {"id": short(found.lesson.id), "state": state, "lesson": found.lesson.text}


def _entry_row(entry: Entry) -> dict[str, str]:
    before = entry.before
    text = change_of(before, entry.after, told=entry.reason)
    if entry.operation == PUT_BACK and before is not None:
        text = f"{before.state} -> quarantine"
    elif (
        entry.operation == "merge" and entry.others and not all(each in entry.reason for each in entry.others)
    ):
        text += f"; takes in {', '.join(map(short, entry.others))}"
    reworded = before is not None and before.text != entry.after.text
    return {
        "number": str(entry.number),
        "date": when(entry.at, "%Y-%m-%d %H:%M"),
        "operation": entry.operation,
        "by": f"by {entry.by}" if entry.by else "-",
        "reason": entry.reason or "-",
        "was": before.text if before is not None and reworded else "-",
        "text": entry.after.text if reworded else text,
    }


def _found_as_json(item: RecalledLesson) -> JSON:
    return {"similarity": item.similarity, "lesson": plain(item.lesson)}
