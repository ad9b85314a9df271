"""Lessons as JSON lines, to be handed from one store to another.

A line is ASCII, says its format and version, and holds one lesson with the texts of its tasks; nothing of it is lost.
A file comes from anywhere, so reading is strict, and an import is a plan before it is made.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final

import pydantic

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, replace_file
from jeeves_reflexion.lessons import gate
from jeeves_reflexion.lessons.duplicates import EQUAL, attempt_of, claim_key, is_equal, known_attempts
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.principals import unsigned
from jeeves_reflexion.lessons.records import MOST_TASKS, Texts, checked, checked_lesson
from jeeves_reflexion.lessons.repository import Revision
from jeeves_reflexion.lessons.screening.screens import Screen
from jeeves_reflexion.lessons.store import VectorLessonStore
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.types import Lesson, LessonState
from vectorstores.base import ConflictError

FORMAT: Final = "jeeves-reflexion/lesson"
VERSION: Final = 1
SUPPORT_ELSEWHERE: Final = "support_elsewhere"
"""Key of an imported lesson's metadata: the support that its file claimed."""

AT_ONCE: Final = 100
"""So many lessons go into one write: few enough that it takes a moment, and that a stopped import loses little."""
_SHOWN: Final = 5
_LONGEST_ID: Final = 64
# What a lesson says and where it comes from, without what stores find out about it.
_said: Final = operator.attrgetter(
    "text", "task_id", "task_excerpt", "task_kind", "tools", "outcome", "evidence", "provenance"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A lesson of a file, the texts of its tasks, its line from 1 on, and why an import refuses it, if it does."""

    number: int
    lesson: Lesson
    tasks: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do.

    ``added`` are new ids, ``same`` are there already, ``changed`` are other words for an imported lesson that is there,
    ``refused`` are left out. ``stored`` are the lessons of these ids that are there.
    """

    added: tuple[Line, ...]
    same: tuple[Line, ...]
    changed: tuple[Line, ...]
    refused: tuple[Line, ...]
    stored: Mapping[str, Lesson]

    def __str__(self) -> str:
        return ", ".join(
            f"{len(getattr(self, name))} {name}" for name in ("added", "same", "changed", "refused")
        )


class _Tasks(pydantic.BaseModel):
    """The texts by which a lesson is recalled."""

    tasks: Annotated[Texts, pydantic.Field(min_length=1)]


# -- lines


def to_line(lesson: Lesson, tasks: Sequence[str]) -> str:
    """Write a lesson and the texts of its tasks as one line of ASCII, without its end.

    Raises :class:`ConfigurationError` for metadata that JSON can't hold, such as NaN.
    """
    value = {"format": FORMAT, "version": VERSION, "tasks": list(tasks), **_fields(lesson)}
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the lesson {lesson.id} can't be written as JSON: {error}") from error


def from_line(line: str) -> tuple[Lesson, tuple[str, ...]]:
    """Read what :func:`to_line` wrote: the lesson and the texts of its tasks, at least one.

    Raises :class:`ConfigurationError` that names the field for anything else.
    """
    try:
        line.encode()  # bytes that are no UTF-8 were read as characters that it has not
        value = json.loads(line, parse_constant=_no_constant)
    except UnicodeEncodeError as error:
        raise ConfigurationError("it is no UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("it is no JSON object")
    if (form := value.pop("format", None)) != FORMAT:
        raise ConfigurationError(f"its format is {form!r:.80}, not {FORMAT!r}")
    version = value.pop("version", None)
    if version != VERSION or isinstance(version, bool):
        raise ConfigurationError(
            f"its version is {version!r:.80}; this program reads version {VERSION}: update it"
        )
    tasks = value.pop("tasks", None)
    return checked_lesson(value), checked(_Tasks, {"tasks": tasks}).tasks


def read_lines(lines: Iterable[str]) -> list[Line]:
    """Read lessons, one a line; empty lines are passed over.

    Raises :class:`ConfigurationError` that names the first lines that are no lessons, or whose id an earlier line has
    with another lesson.
    """
    found: dict[str, Line] = {}
    bad = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            lesson, tasks = from_line(line)
        except ConfigurationError as error:
            bad.append(f"line {number}: {error}")
            continue
        earlier = found.setdefault(lesson.id, Line(number, lesson, tasks))
        if (earlier.lesson, earlier.tasks) != (lesson, tasks):
            problem = f"the id {lesson.id!r:.80} is on line {earlier.number} already, with another lesson"
            bad.append(f"line {number}: {problem}")
    if bad:
        are = "is no lesson" if len(bad) == 1 else "are no lessons"
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise ConfigurationError(
            f"{len(bad)} of the lines {are}, and nothing was imported: {'; '.join(bad[:_SHOWN])}{more}"
        )
    return list(found.values())


# -- files


def export_file(path: Path, lessons: Iterable[tuple[Lesson, Sequence[str]]]) -> None:
    """Write lessons with the texts of their tasks to a file, replaced whole; blocks.

    Raises :class:`LessonStoreError` when the file can't be written; it is as it was then.
    """
    text = "".join(f"{to_line(lesson, tasks)}\n" for lesson, tasks in lessons)
    try:
        replace_file(path, text)
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error


def import_file(path: Path) -> list[Line]:
    """Read the lessons of a file; blocks.

    Raises :class:`ConfigurationError` as :func:`read_lines` does, and for a file that can't be read.
    """
    try:
        # So that bytes that are no UTF-8 are the error of their line alone.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            return read_lines(file)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


async def lines_of(store: VectorLessonStore) -> list[Line]:
    """Return every lesson of a store as an import takes it, oldest first."""
    return [Line(number, *found) for number, found in enumerate(await with_tasks(store), 1)]


async def with_tasks(store: VectorLessonStore) -> list[tuple[Lesson, tuple[str, ...]]]:
    """Return every lesson of a store with the texts of its tasks, oldest first."""
    lessons = [lesson async for lesson in store.repository.each()]
    tasks = await store.repository.tasks_of([lesson.id for lesson in lessons])
    # One that is found by its own text keeps no more of its task than the beginning.
    return [(lesson, tasks.get(lesson.id) or (lesson.task_excerpt,)) for lesson in lessons]


# -- imports


async def plan_import(
    store: VectorLessonStore | None,
    lines: Iterable[Line],
    *,
    approve: Collection[LessonState] = (),
    source: str = "",
) -> ImportPlan:
    """Say what importing lessons does to a store, None for one that is to be made.

    What is new waits for review, unless its state at the source is one that you ``approve``; what is retired stays so.
    Nothing replaces a lesson of higher trust, and a second import changes nothing, whatever the store did to a lesson
    since.
    """
    found: dict[str, list[Line]] = {"added": [], "same": [], "changed": [], "refused": []}
    stored: dict[str, Lesson] = {}
    reason = f"from {source}" if source else ""
    lines = list(lines)
    there = {} if store is None else await store.repository.get_all([line.lesson.id for line in lines])
    for line in lines:
        read, problem = await _cleaned(line, None if store is None else store.settings.screen)
        lesson = as_imported(read.lesson)
        known = there.get(lesson.id)
        if known is not None:
            stored[lesson.id] = known
            # The store's own findings on the lesson stay: only what it says is new.
            lesson = replace(
                lesson,
                metadata={**lesson.metadata, **known.metadata},
                state=known.state,
                state_reason=known.state_reason,
                support=known.support,
                contradicts=known.contradicts,
            )
        elif lesson.state != "retired":
            state: LessonState = "active" if lesson.state in approve else "proposed"
            lesson = replace(lesson, state=state, state_reason=reason)
        if store is not None and known is not None and await _has_said(store, known, lesson):
            what, problem = "same", ""
        elif store is not None and known is None and not problem and await _is_counted(store, lesson):
            what = "same"
        else:
            if not problem and known is not None and known.trust != "imported":
                problem = f"a lesson with its id is {known.trust} and says otherwise"
            if not problem and store is not None and await store.repository.is_forgotten(lesson.id):
                problem = "it was forgotten here"
            what = "refused" if problem else "added" if known is None else "changed"
        found[what].append(replace(read, lesson=lesson, reason=problem))
    return ImportPlan(**{name: tuple(lines) for name, lines in found.items()}, stored=stored)


async def make_import(store: VectorLessonStore, plan: ImportPlan, change: Change) -> int:
    """Make an import, and return how many lessons only added to the support of an equal one.

    What somebody changed since it was planned is left as it is. One that was stopped can be planned and made again: it
    goes on where it was, by the hundred.
    """
    repository, merged = store.repository, 0
    for start in range(0, len(plan.changed), AT_ONCE):
        some = plan.changed[start : start + AT_ONCE]

        async def revise(some: Sequence[Line] = some) -> tuple[list[Revision], None]:
            read = [(await repository.read(line.lesson.id), line) for line in some]
            return [
                Revision(there, line.lesson, change, line.tasks)
                for there, line in read
                if there is not None and there.lesson == plan.stored[line.lesson.id]
            ], None

        await repository.transact(revise, "the lessons to import")
    # A retired one is to lie there under its own id, and says nothing about an equal one that is active.
    for retired in (True, False):
        added = [line for line in plan.added if (line.lesson.state == "retired") == retired]
        for start in range(0, len(added), AT_ONCE):
            merged += await _add(store, added[start : start + AT_ONCE], change, must_be_new=not retired)
    return merged


async def _add(store: VectorLessonStore, lines: Sequence[Line], change: Change, *, must_be_new: bool) -> int:
    """Add lessons in one write, or one by one where some are there or equal; return how many only added support."""
    repository = store.repository
    await repository.claim_all()
    new = must_be_new and not store.settings.keep_copies
    try:
        await repository.put_all(
            [gate.CleanLesson(line.lesson, line.tasks) for line in lines], change, must_be_new=new
        )
    except ConflictError:
        merged = 0
        for line in lines:
            if await repository.get(line.lesson.id) is not None:  # another import was faster
                continue
            if must_be_new:
                merged += (await store.admit(line.lesson, line.tasks, change)).id != line.lesson.id
            else:
                await repository.put(gate.CleanLesson(line.lesson, line.tasks), change)
        return merged
    return 0


async def _is_counted(store: VectorLessonStore, lesson: Lesson) -> bool:
    """Whether the attempt that taught a lesson adds to the support of an equal one already."""
    signed = store.repository.reader.signed(lesson)
    held = None if lesson.state == "retired" else await store.records.get(EQUAL, claim_key(signed))
    if held is None or not isinstance(held.value, Mapping):
        return False
    known = await store.repository.get(str(held.value["lesson_id"]))
    return known is not None and is_equal(known, signed) and attempt_of(signed) in known_attempts(known)


async def _has_said(store: VectorLessonStore, known: Lesson, lesson: Lesson) -> bool:
    """Whether a lesson that is there says the same, or said so before somebody changed it."""
    if _said(known) == _said(lesson):
        return True
    history = await store.repository.history(known.id)
    return any(_said(entry.after) == _said(lesson) for entry in history)


def as_imported(lesson: Lesson) -> Lesson:
    """Return a lesson as another store's: imported, and with the support of one, whatever its file claims."""
    lesson = unsigned(lesson)
    metadata = {**lesson.metadata, SUPPORT_ELSEWHERE: lesson.metadata.get(SUPPORT_ELSEWHERE, lesson.support)}
    return replace(lesson, trust="imported", support=1, metadata=metadata)


async def _cleaned(line: Line, screen: Screen | None) -> tuple[Line, str]:
    """Return a lesson of a file as it may be stored and shown, and why it can't be stored; empty if it can."""
    # What hides goes first, for it may break up a secret. The gate cleans the text: it looks at what was hidden there.
    plain = checked_lesson({**_uncovered(_fields(line.lesson)), "text": line.lesson.text})
    tasks = tuple(map(gate.clean_prompt, line.tasks))
    shown = redact_record(replace(plain, text=gate.clean_lesson(plain.text)))
    refused = replace(line, lesson=shown, tasks=tasks)
    # What redaction put into an id (brackets) is refused here too.
    if len(shown.id) > _LONGEST_ID or not all(each.isalnum() or each in "-_" for each in shown.id):
        return refused, f"its id must have at most {_LONGEST_ID} letters, digits, - and _, and hold no secret"
    if (number := len(set(tasks))) > MOST_TASKS:
        return refused, f"it names {number} tasks, and a lesson is recalled by {MOST_TASKS} at most"
    try:
        gate.check_shape(shown.text)
        cleaned = await gate.clean(plain, line.tasks, screen=screen)
    except ConfigurationError as error:
        return refused, str(error)
    problem = f"it gives orders ({cleaned.finding.kind}): {cleaned.finding.why}" if cleaned.finding else ""
    return replace(line, lesson=cleaned.lesson, tasks=cleaned.tasks), problem


def _fields(lesson: Lesson) -> dict[str, Any]:
    value = {field.name: getattr(lesson, field.name) for field in fields(lesson)}
    return value | {"provenance": asdict(lesson.provenance), "metadata": dict(lesson.metadata)}


def _uncovered(value: Any) -> Any:  # noqa: ANN401 - of whatever field
    """Return a value without the secrets that hidden characters break up."""
    if isinstance(value, str):
        return gate.uncovered(value)
    if isinstance(value, Mapping):
        return {_uncovered(key): _uncovered(item) for key, item in value.items()}
    return list(map(_uncovered, value)) if isinstance(value, list | tuple) else value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
