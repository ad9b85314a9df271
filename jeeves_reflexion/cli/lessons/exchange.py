"""What imports and edited folders bring: cleaned, checked, compared with what is there, and taken in."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio.to_thread
import click

from jeeves_reflexion.cli.connections import origin_at
from jeeves_reflexion.cli.lessons.library import Library, all_lessons
from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.lessons import Curator, Finding, VectorLessonStore, gate, shape_problem
from jeeves_reflexion.lessons.exchange.files import (
    BadLine,
    ImportReport,
    Line,
    Lines,
    import_file,
    plan_import,
    undone,
)
from jeeves_reflexion.lessons.gate import CleanLesson
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.principals import unsigned
from jeeves_reflexion.lessons.records import MOST_TASKS
from jeeves_reflexion.lessons.repository import FORGOTTEN, digest_of
from jeeves_reflexion.lessons.screening.characters import clean_characters
from jeeves_reflexion.redaction import redact, redact_record
from jeeves_reflexion.reflections.folder import Malformed
from jeeves_reflexion.reflections.forms import flat_text
from jeeves_reflexion.reflections.lesson_files import export_lessons, lesson_changes
from jeeves_reflexion.summary import counted
from jeeves_reflexion.text import one_line
from jeeves_reflexion.types import Lesson, LessonState

T = TypeVar("T")

MANIFEST: Final = ".lessons.json"
"""The file of a folder that says which lessons were written to it: one whose file is missing there was removed."""
_MOST_BYTES: Final = 100_000_000
_LONGEST_ID: Final = 64


async def with_tasks(store: VectorLessonStore) -> list[tuple[Lesson, tuple[str, ...]]]:
    """Return every lesson with the texts of its tasks, oldest first."""
    lessons = [lesson async for lesson in store.repository.each()]
    tasks = await store.repository.tasks_of([lesson.id for lesson in lessons])
    # One that is found by its own text keeps no more of its task than the beginning.
    return [(lesson, tasks.get(lesson.id) or (lesson.task_excerpt,)) for lesson in lessons]


# -- what may become a lesson


async def examined(lesson: Lesson, tasks: Sequence[str], *, own: bool = False) -> tuple[CleanLesson, str]:
    """Return a lesson of a file as it may be stored, and why it can't be one; empty if it can.

    One's ``own`` may have several sentences: a program can be set to let these in.
    """
    # What hides goes first, for it may break up a secret. The gate cleans the text: it looks at what was hidden there.
    flat = replace(_flat(replace(lesson, text="")), text=lesson.text)
    shown = replace(redact_record(flat), text=gate.clean_lesson(lesson.text))
    refused = CleanLesson(shown, tuple(map(gate.clean_prompt, tasks)))
    if len(lesson.id) > _LONGEST_ID or not all(each.isalnum() or each in "-_" for each in lesson.id):
        return refused, f"its id is none: at most {_LONGEST_ID} letters, digits, - and _"
    try:
        cleaned = await gate.clean(flat, tasks)
    except ConfigurationError as error:
        return refused, str(error)
    text = cleaned.lesson.text
    problem = (
        shape_problem(text, max_characters=len(text), one_sentence=False) if own else shape_problem(text)
    )
    return cleaned, problem or ""


def _flat(record: T) -> T:
    """Return a dataclass with every text in it on one line, without characters that hide."""
    return replace(record, **{each.name: _flat_value(getattr(record, each.name)) for each in fields(record)})  # type: ignore[type-var, arg-type]


def _flat_value(value: Any) -> Any:  # noqa: ANN401 - of whatever field
    if isinstance(value, str):
        return one_line(clean_characters(value))
    if isinstance(value, tuple):
        return tuple(map(_flat_value, value))
    if isinstance(value, Mapping):
        return _uncovered(value)
    return _flat(value) if is_dataclass(value) else value


def _uncovered(value: Any) -> Any:  # noqa: ANN401 - JSON of a program, which comes back as it was but for this
    if isinstance(value, str):
        return gate.uncovered(value)
    if isinstance(value, Mapping):
        return {_uncovered(key): _uncovered(item) for key, item in value.items()}
    return [_uncovered(item) for item in value] if isinstance(value, list) else value


def orders(finding: Finding) -> str:
    """Say why a text is not let in."""
    return f"it gives orders ({finding.kind}): {finding.why}"


# -- imports


@dataclass(frozen=True, slots=True)
class Importing:
    """What is imported, and how; ``restore`` takes one's own lessons back as they were written."""

    source: Path
    approve: bool
    restore: bool
    force: bool
    create: bool
    skip_bad: bool

    def __post_init__(self) -> None:
        if self.approve and self.restore:
            raise click.UsageError(
                "--approve and --restore exclude each other: --restore keeps the state as it was"
            )
        if self.force and not self.restore:
            raise click.UsageError("--force goes with --restore: nothing else goes back to an older state")


@dataclass(frozen=True, slots=True)
class Planned:
    """What an import would do; ``stored`` are the lessons of its ids that are there, ``held`` go into quarantine."""

    report: ImportReport
    stored: Mapping[str, Lesson]
    held: Mapping[str, Finding]


def planned_import(library: Library, order: Importing) -> Planned:
    """Say what an import would do. Blocks while it reads, with a pipe until somebody writes to it."""
    lines = _read(order)
    if order.create and origin_at(library.address) is None:
        return anyio.run(_planned, None, order, lines)
    return library.within(lambda store: _planned(store, order, lines))


def _read(order: Importing) -> Lines:
    if not order.source.is_dir():
        return import_file(order.source, skip_bad=order.skip_bad)
    found = lesson_changes(order.source, ())
    bad = [f"{each.path.name}: {each.problem}" for each in found.malformed]
    if bad and not order.skip_bad:
        raise ConfigurationError(
            f"{counted(len(bad), 'file')} of {order.source} can't be read, and nothing was imported"
            f" (--skip-bad passes over such): {'; '.join(bad[:5])}"
        )
    lines = [
        Line(number, each, found.tasks[each.id] or (each.task_excerpt,))
        for number, each in enumerate(found.added, 1)
    ]
    return Lines(tuple(lines), tuple(BadLine(number, each) for number, each in enumerate(bad, 1)))


async def _planned(store: VectorLessonStore | None, order: Importing, lines: Lines) -> Planned:
    problems: dict[str, str] = {}
    findings: dict[str, Finding] = {}
    prepared = []
    for line in lines.lessons:
        cleaned, problem = await examined(line.lesson, line.tasks, own=order.restore)
        if (number := len(set(cleaned.tasks))) > MOST_TASKS:
            problem = f"it names {number} tasks, and a lesson is recalled by {MOST_TASKS} at most"
        if problem:
            problems[cleaned.lesson.id] = problem
        elif cleaned.finding is not None:
            findings[cleaned.lesson.id] = cleaned.finding
        prepared.append(replace(line, lesson=_in_state(cleaned.lesson, order), tasks=cleaned.tasks))
    stored: dict[str, Lesson] = {}
    older: dict[str, str] = {}
    gone: Container[str] = ()
    if store is not None:
        stored, older = await _there(store, [line.lesson for line in prepared])
        gone = {each.lesson.id for each in prepared if await store.repository.is_forgotten(each.lesson.id)}
    held: dict[str, Finding] = {}

    def check(lesson: Lesson) -> str | None:
        finding = findings.get(lesson.id)
        if lesson.id in problems or finding is None:
            return problems.get(lesson.id)
        if not order.restore or lesson.id in stored:
            return orders(finding)
        # Somebody let it in once, so it is not lost; somebody is to do so here.
        held[lesson.id] = finding
        return None

    read = Lines(tuple(prepared), lines.bad)
    report = plan_import(
        read, stored, check=check, restore=order.restore, older=older, force=order.force, forgotten=gone
    )
    return Planned(report, stored, held)


def _in_state(lesson: Lesson, order: Importing) -> Lesson:
    """A lesson in the state that it is to have when it is new."""
    state: LessonState = "active" if order.approve else "proposed"
    if order.restore or lesson.state in (state, "retired"):
        return lesson
    return replace(lesson, state=state, state_reason=f"from {order.source.name}")


async def _there(
    store: VectorLessonStore, lessons: Sequence[Lesson]
) -> tuple[dict[str, Lesson], dict[str, str]]:
    """Those that are stored, and what going back to the state of a file would undo of them."""
    stored = {each.id: known for each in lessons if (known := await store.get(each.id)) is not None}
    curator = Curator(store.repository)
    differing = [each for each in lessons if each.id in stored and each != stored[each.id]]
    return stored, {each.id: undone(each, await curator.history(each.id)) for each in differing}


async def take_in(store: VectorLessonStore, planned: Planned, order: Importing, by: str) -> int:
    """Make an import, and return how many newcomers were merged into lessons that are there."""
    change, merged = Change("import", f"from {order.source.name}", by), 0
    for line in planned.report.changes:
        lesson, before = line.lesson, planned.stored.get(line.lesson.id)
        if line.forgotten:
            # First: what is forgotten and there is taken away by the next who changes it.
            await store.records.delete_records(FORGOTTEN, [digest_of(lesson.id)])
        if (finding := planned.held.get(lesson.id)) is not None:
            await store.quarantine.hold(await gate.clean(lesson, line.tasks), finding)
        elif before is not None:
            unless_changed = partial(_replaced, before=before, after=lesson)
            await store.repository.change(lesson.id, unless_changed, change, tasks=line.tasks)
        elif order.restore or lesson.state == "retired":
            # A backup comes back lesson by lesson, and what is retired is to lie there under its own id.
            await store.repository.put(await gate.clean(lesson, line.tasks), change)
        else:
            merged += (await store.admit(lesson, line.tasks, change)).id != lesson.id
    return merged


def _replaced(now: Lesson, before: Lesson, after: Lesson) -> Lesson | None:
    """What becomes of a stored lesson: what somebody changed since it was shown is left as it is."""
    return after if now == before else None


# -- folders that people edit


@dataclass(frozen=True, slots=True)
class Edits:
    """What people did to a folder of lessons; ``changed`` has each lesson before and after, ``refused`` the reason.

    ``there`` are the ids that the folder has lessons of when all is applied.
    """

    added: list[CleanLesson] = field(default_factory=list)
    changed: list[tuple[Lesson, Lesson]] = field(default_factory=list)
    removed: list[Lesson] = field(default_factory=list)
    refused: list[tuple[Lesson, str]] = field(default_factory=list)
    malformed: Sequence[Malformed] = ()
    there: set[str] = field(default_factory=set)


async def edits_of(store: VectorLessonStore, folder: Path) -> Edits:
    """Compare a folder with the store."""
    stored = {lesson.id: lesson for lesson in await all_lessons(store)}
    found = await anyio.to_thread.run_sync(lesson_changes, folder, tuple(stored.values()))
    written = await anyio.to_thread.run_sync(noted, folder)
    gone = {each.id for each in found.added if await store.repository.is_forgotten(each.id)}
    retold = await _retold(store, found.tasks, stored)
    edits = Edits(malformed=found.malformed)
    edited = {each.id: each for each in (*found.added, *found.changed)}
    for each in (*edited.values(), *(stored[id] for id in sorted(retold - edited.keys()))):
        known = stored.get(each.id)
        cleaned, problem = await examined(each, found.tasks[each.id] or (each.task_excerpt,))
        if not problem and cleaned.finding is not None:
            problem = orders(cleaned.finding)
        if each.id in retold:
            problem = "its task was edited: only the sentence can be; delete the comment for a new lesson"
        elif known is None and each.id in gone:
            problem = "it was forgotten: delete the file, or its comment to write it anew"
        elif known is None and each.id in written:
            problem = (
                "there is no such lesson here: name the address and namespace that it was exported from, or delete "
                "its comment to write it anew"
            )
        if problem:
            edits.refused.append((cleaned.lesson, problem))
        elif known is None:
            # Who may write into this store by hand writes lessons of their own.
            own = replace(unsigned(cleaned.lesson), trust="own")
            edits.added.append(replace(cleaned, lesson=own))
        elif cleaned.lesson.text != known.text:
            edits.changed.append((known, replace(known, text=cleaned.lesson.text)))
    edits.removed.extend(each for each in found.removed if each.id in written and each.state == "active")
    # What was forgotten and still has its file stays noted, or it would count as new.
    left = {lesson.id for lesson, _ in edits.refused} & written
    edits.there.update(stored.keys() - {each.id for each in found.removed}, left)
    return edits


async def _retold(
    store: VectorLessonStore, tasks: Mapping[str, tuple[str, ...]], stored: Mapping[str, Lesson]
) -> set[str]:
    """Return the ids of lessons whose files name a task that the store doesn't know of them."""
    told = {id: texts for id, texts in tasks.items() if texts and id in stored}
    known = await store.repository.tasks_of(list(told))
    return {
        id
        for id, texts in told.items()
        if known.get(id) and not set(texts) <= {flat_text(redact(text)) for text in known[id]}
    }


async def take_over(store: VectorLessonStore, folder: Path, edits: Edits, by: str) -> None:
    """Apply what people did to a folder."""
    curator, why = Curator(store.repository, by=by), f"in {folder.name}"
    for cleaned in edits.added:
        await store.repository.put(cleaned, Change("write", why, by))
    for _, after in edits.changed:
        await curator.edit(after.id, after.text, reason=why)
    for lesson in edits.removed:
        await curator.retire(lesson.id, reason=f"its file was removed from {folder.name}")
    # A file that a person wrote gets its lesson's data, to be known by.
    added = [(cleaned.lesson, cleaned.tasks) for cleaned in edits.added]
    await anyio.to_thread.run_sync(export_folder, folder, added, edits.there)


def export_folder(
    folder: Path, lessons: Sequence[tuple[Lesson, Sequence[str]]], there: Collection[str] | None = None
) -> None:
    """Write lessons with their tasks to files of a folder, and note there which it has besides those ``there``.

    Those that it has already, by its own note, unless told. Blocks.
    """
    export_lessons(folder, lessons)
    known = {*(noted(folder) if there is None else there), *(lesson.id for lesson, _ in lessons)}
    path = folder / MANIFEST
    try:
        replace_file(path, json.dumps({"lessons": sorted(known)}) + "\n")
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error


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
