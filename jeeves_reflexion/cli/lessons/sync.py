"""``jeeves-reflexion lessons sync``: takes over what people did to a folder of lessons, or of reflections."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio.to_thread
import click

from jeeves_reflexion.cli.lessons.admission import clean, problem_with
from jeeves_reflexion.cli.lessons.service import LessonService, all_lessons
from jeeves_reflexion.cli.lessons.views import short
from jeeves_reflexion.cli.options import Asking, EmbedderChoice
from jeeves_reflexion.cli.service import counted
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.lessons import VectorLessonStore, gate
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.gate import clean_lesson, clean_prompt
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.principals import unsigned
from jeeves_reflexion.lessons.repository import store_errors
from jeeves_reflexion.lessons.traces import forgotten
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.reflections.folder import Malformed, place
from jeeves_reflexion.reflections.forms import flat_text
from jeeves_reflexion.reflections.journal import Changes, ReflectionJournal
from jeeves_reflexion.reflections.lesson_files import export_lessons, lesson_changes
from jeeves_reflexion.reflections.library import ReflectionLibrary
from jeeves_reflexion.types import JSON, Lesson

Holds: TypeAlias = Literal["lessons", "reflections"]

_GONE = "its file was removed"

MANIFEST: Final = ".lessons.json"
"""The file of a folder that says which lessons were written to it: one whose file is missing there was removed."""
_MOST_BYTES: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class Edits:
    """What people did to a folder of lessons; ``changed`` has each lesson before and after, ``refused`` the reason.

    ``tasks`` has the texts of the tasks of those that were added, by their ids.
    """

    added: tuple[Lesson, ...]
    tasks: Mapping[str, tuple[str, ...]]
    changed: tuple[tuple[Lesson, Lesson], ...]
    removed: tuple[Lesson, ...]
    refused: tuple[tuple[Lesson, str], ...]
    malformed: tuple[Malformed, ...]
    there: frozenset[str]

    @property
    def number(self) -> int:
        """How many there are to apply."""
        return len(self.added) + len(self.changed) + len(self.removed)

    @property
    def left(self) -> int:
        """How many files are left alone although they differ."""
        return len(self.refused) + len(self.malformed)


class SyncService(LessonService):
    """Compares a folder with the store: shows what differs, asks, and applies it."""

    def sync(
        self, folder: Path, holds: Holds | None, asking: Asking, by: str, embedder: EmbedderChoice
    ) -> None:
        """Take over what was done to the files of a folder."""
        if not folder.is_dir():
            raise ConfigurationError(f"there is no folder {folder}")
        if (holds or _holds(folder)) == "lessons":
            self._sync_lessons(folder, asking, by, embedder)
        else:
            self._sync_reflections(folder, asking, embedder)

    def _sync_lessons(self, folder: Path, asking: Asking, by: str, embedder: EmbedderChoice) -> None:
        edits = self._read(lambda store: _edits(store, folder))
        if not self._as_json:
            self._show(edits)
        answer = _edits_as_json(edits)
        why = f"{folder} says what is {self._where}"
        if edits.left:
            why = f"all but what is told above is so {self._where}"
        elif not (folder / MANIFEST).exists() and not any(folder.glob("*.md")):
            why = f"no lessons were exported to {folder}, and no file of one lies there"
        if self._agreed(edits.number, why, asking, answer):
            self._change(lambda store: _take_over(store, folder, edits, by), embedder)
            self._answer({"dry_run": False, **answer}, f"applied {counted(edits.number, 'change')}")
        elif not edits.number and edits.refused:
            click.get_current_context().exit(1)

    def _sync_reflections(self, folder: Path, asking: Asking, embedder: EmbedderChoice) -> None:
        changes = self._read(lambda store: _library(folder, store).changes())
        if not self._as_json:
            for line in changes.describe(folder):
                self._screen.result(line)
        number = sum(map(len, (changes.added, changes.changed, changes.moved, changes.removed)))
        answer = _changes_as_json(changes, folder)
        why = f"all but what is told above is so {self._where}" if changes.malformed else ""
        if self._agreed(number, why or f"{folder} says what is {self._where}", asking, answer):
            with self._screen.busy():
                self._screen.waiting_for("embedding")
                self._change(lambda store: _library(folder, store).apply(changes), embedder)
            self._answer({"dry_run": False, **answer}, f"applied {counted(number, 'change')}")

    def _agreed(self, number: int, why: str, asking: Asking, answer: dict[str, JSON]) -> bool:
        """Whether to apply changes; ``why`` says what it means that there is none."""
        if number and self._go(asking, f"Apply {counted(number, 'change')}?"):
            return True
        if number:
            self._answer_dry(answer)
        elif self._as_json:
            self._document({"dry_run": asking.dry_run, **answer})
        else:
            self._screen.note(f"nothing to apply: {why}")
        return False

    def _show(self, edits: Edits) -> None:
        for lesson in edits.added:
            self._screen.entry({"id": short(lesson.id), "what": "added", "lesson": lesson.text})
        for before, after in edits.changed:
            fields = {"id": short(after.id), "what": "changed", "was": before.text, "lesson": after.text}
            self._screen.entry(fields)
        for lesson in edits.removed:
            self._screen.entry(
                {"id": short(lesson.id), "what": "removed: to be retired", "lesson": lesson.text}
            )
        for lesson, why in edits.refused:
            self._screen.entry({"id": short(lesson.id), "what": f"refused: {why}", "lesson": lesson.text})
        for bad in edits.malformed:
            self._screen.note(f"left alone: {bad.path.name}: {bad.problem}")


async def _edits(store: VectorLessonStore, folder: Path) -> Edits:
    stored = {lesson.id: lesson for lesson in await all_lessons(store)}
    found = await anyio.to_thread.run_sync(lesson_changes, folder, tuple(stored.values()))
    retold = await _retold(store, found.tasks, stored)
    async with store_errors("read what was forgotten"):
        gone = await forgotten(store.repository)
    written = await anyio.to_thread.run_sync(noted, folder)
    refused: list[tuple[Lesson, str]] = []
    fit: dict[str, Lesson] = {}
    edited = {each.id: each for each in (*found.added, *found.changed)}
    for each in (*edited.values(), *(stored[id] for id in sorted(retold - edited.keys()))):
        lesson = clean(each) if each.id not in stored else replace(each, text=clean_lesson(each.text))
        problem = problem_with(lesson, each.text)
        if lesson.id not in stored and lesson.id in gone:
            problem = "it was forgotten: delete the file, or its comment to write it anew"
        elif lesson.id not in stored and lesson.id in written:
            problem = (
                "there is no such lesson here: name the place and namespace that it was exported from, or delete "
                "its comment to write it anew"
            )
        if lesson.id in retold:
            problem = "its task was edited: only the sentence can be; delete the comment for a new lesson"
        if problem is not None:
            refused.append((lesson, problem))
        elif lesson != stored.get(lesson.id):
            fit[lesson.id] = lesson
    missing = {lesson.id for lesson in found.removed}
    return Edits(
        # Who may write into this store by hand writes lessons of their own.
        added=tuple(replace(unsigned(each), trust="own") for each in fit.values() if each.id not in stored),
        tasks={
            each.id: tuple(map(clean_prompt, found.tasks[each.id])) or (each.task_excerpt,)
            for each in fit.values()
            if each.id not in stored
        },
        changed=tuple((stored[each.id], each) for each in fit.values() if each.id in stored),
        removed=tuple(each for each in found.removed if each.id in written and each.state == "active"),
        refused=tuple(refused),
        malformed=found.malformed,
        # What was forgotten and still has its file stays noted, or it would count as new.
        there=frozenset((stored.keys() - missing) | {each.id for each, _ in refused if each.id in written}),
    )


async def _take_over(store: VectorLessonStore, folder: Path, edits: Edits, by: str) -> None:
    curator = Curator(store.repository, by=by)
    why = f"in {folder.name}"
    for lesson in edits.added:
        async with store_errors("store a lesson"):
            cleaned = await gate.clean(lesson, edits.tasks[lesson.id])
            await store.repository.put(cleaned, Change("write", why, by))
    for _, after in edits.changed:
        await curator.edit(after.id, after.text, reason=why)
    for lesson in edits.removed:
        await curator.retire(lesson.id, reason=f"{_GONE} from {folder.name}")
    # A file that a person wrote gets its lesson's data, to be known by.
    await anyio.to_thread.run_sync(
        export_folder, folder, [(lesson, edits.tasks[lesson.id]) for lesson in edits.added]
    )
    there = edits.there | {lesson.id for lesson in edits.added}
    await anyio.to_thread.run_sync(note_written, folder, there)


def _library(folder: Path, store: VectorLessonStore) -> ReflectionLibrary:
    return ReflectionLibrary(ReflectionJournal(folder), store.store)


async def _retold(
    store: VectorLessonStore, tasks: Mapping[str, tuple[str, ...]], stored: Mapping[str, Lesson]
) -> set[str]:
    """Return the ids of lessons whose files name a task that the store doesn't know of them."""
    told = {id: texts for id, texts in tasks.items() if texts and id in stored}
    async with store_errors("read the tasks of lessons"):
        known = await store.repository.tasks_of(list(told))
    return {
        id
        for id, texts in told.items()
        if known.get(id) and not set(texts) <= {flat_text(redact(text)) for text in known[id]}
    }


def _holds(folder: Path) -> Holds:
    """Reflections lie in folders of agents, lessons in the folder itself."""
    if not (folder / MANIFEST).exists() and any(folder.glob("*/[0-9]*-*.md")):
        return "reflections"
    return "lessons"


def _edits_as_json(edits: Edits) -> dict[str, JSON]:
    return {
        "added": [lesson.id for lesson in edits.added],
        "changed": [after.id for _, after in edits.changed],
        "removed": [lesson.id for lesson in edits.removed],
        "refused": [{"id": lesson.id, "reason": why} for lesson, why in edits.refused],
        "malformed": [{"path": bad.path.name, "problem": bad.problem} for bad in edits.malformed],
    }


def _changes_as_json(changes: Changes, folder: Path) -> dict[str, JSON]:
    files = {"added": changes.added, "changed": changes.changed, "moved": changes.moved}
    return {
        **{name: [place(one.path, folder) for one in found] for name, found in files.items()},
        "removed": list(changes.removed),
        "malformed": [{"path": place(bad.path, folder), "problem": bad.problem} for bad in changes.malformed],
    }


def export_folder(folder: Path, lessons: Sequence[tuple[Lesson, Sequence[str]]]) -> None:
    """Write lessons with their tasks to files of a folder, and note there that they were; blocks."""
    export_lessons(folder, lessons)
    note_written(folder, noted(folder) | {lesson.id for lesson, _ in lessons})


def noted(folder: Path) -> set[str]:
    """Return the ids of the lessons that were written to a folder; none for a folder that nothing was written to."""
    path = folder / MANIFEST
    try:
        value = json.loads(read_regular(path, _MOST_BYTES).decode("utf-8"))
        return {str(each) for each in value["lessons"]}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LessonStoreError(
            f"{path}, which says what was exported, can't be read ({type(error).__name__}: {error}): delete it, and "
            "no file counts as removed"
        ) from error


def note_written(folder: Path, lesson_ids: Collection[str]) -> None:
    """Note which lessons a folder has."""
    path = folder / MANIFEST
    try:
        replace_file(path, json.dumps({"lessons": sorted(lesson_ids)}) + "\n")
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error
