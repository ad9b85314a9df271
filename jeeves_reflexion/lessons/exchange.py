"""Lessons as JSON lines, to carry them from one store to another.

A line is ASCII, names its format and version, and holds one complete lesson with the texts of its tasks. A file may
come from anywhere, so reading is strict, and an import is planned before it is made.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import pydantic

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, replace_file
from jeeves_reflexion.lessons import gate
from jeeves_reflexion.lessons.duplicates import EQUAL, attempt_of, claim_key, is_equal, known_attempts
from jeeves_reflexion.lessons.history import Change
from jeeves_reflexion.lessons.principals import unsigned
from jeeves_reflexion.lessons.records import MOST_TASKS, Texts, checked, checked_lesson, fields_of
from jeeves_reflexion.lessons.screening.screens import Screen
from jeeves_reflexion.lessons.store import VectorLessonStore
from jeeves_reflexion.redaction import redact_record
from jeeves_reflexion.types import Lesson, LessonState
from vectorstores.base import ConflictError

FORMAT: Final = "jeeves-reflexion/lesson"
VERSION: Final = 1

AT_ONCE: Final = 100
"""How many lessons go into one write: few, so that a write is short and a stopped import loses little."""
_SHOWN: Final = 5
_LONGEST_ID: Final = 64
# What a lesson says and where it comes from, without what stores learn about it.
_content: Final = operator.attrgetter(
    "text", "task_id", "task_excerpt", "task_kind", "tools", "outcome", "evidence", "provenance"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A lesson of a file, the texts of its tasks, its line number from 1, and why an import refuses it, if it does."""

    number: int
    lesson: Lesson
    tasks: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do: ``added`` lessons are new, ``same`` ones are stored already, others are ``refused``."""

    added: tuple[Line, ...]
    same: tuple[Line, ...]
    refused: tuple[Line, ...]

    def __str__(self) -> str:
        return f"{len(self.added)} added, {len(self.same)} same, {len(self.refused)} refused"


class _Tasks(pydantic.BaseModel):
    """The texts of the tasks by which a lesson is recalled."""

    tasks: Annotated[Texts, pydantic.Field(min_length=1)]


# -- lines


def to_line(lesson: Lesson, tasks: Sequence[str]) -> str:
    """Write a lesson and its tasks as one line of ASCII; raises :class:`ConfigurationError` if JSON can't hold them."""
    value = {"format": FORMAT, "version": VERSION, "tasks": list(tasks), **fields_of(lesson)}
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the lesson {lesson.id} can't be written as JSON: {error}") from error


def from_line(line: str) -> tuple[Lesson, tuple[str, ...]]:
    """Read what :func:`to_line` wrote: a lesson and the texts of its tasks, at least one.

    Raises :class:`ConfigurationError`, which names the field, for anything else.
    """
    try:
        line.encode()  # bytes that are not UTF-8 were read as surrogates, which can't be encoded
        value = json.loads(line, parse_constant=_no_constant)
    except UnicodeEncodeError as error:
        raise ConfigurationError("it is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("it is not a JSON object")
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
    """Read lessons, one per line; empty lines are skipped.

    Raises :class:`ConfigurationError`, which names the first lines that are not lessons, or that give another lesson
    the id of an earlier line.
    """
    read: dict[str, Line] = {}
    bad = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            lesson, tasks = from_line(line)
        except ConfigurationError as error:
            bad.append(f"line {number}: {error}")
            continue
        earlier = read.setdefault(lesson.id, Line(number, lesson, tasks))
        if (earlier.lesson, earlier.tasks) != (lesson, tasks):
            problem = f"the id {lesson.id!r:.80} is on line {earlier.number} already, with another lesson"
            bad.append(f"line {number}: {problem}")
    if bad:
        are = "is not a lesson" if len(bad) == 1 else "are not lessons"
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise ConfigurationError(
            f"{len(bad)} of the lines {are}, and nothing was imported: {'; '.join(bad[:_SHOWN])}{more}"
        )
    return list(read.values())


# -- files


def export_file(path: Path, lines: Iterable[Line]) -> None:
    """Write lessons with the texts of their tasks to a file, which is replaced as a whole. Blocks.

    Raises :class:`LessonStoreError` if the file can't be written; it stays as it was then.
    """
    text = "".join(f"{to_line(line.lesson, line.tasks)}\n" for line in lines)
    try:
        replace_file(path, text)
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error


def import_file(path: Path) -> list[Line]:
    """Read the lessons of a file. Blocks.

    Raises :class:`ConfigurationError` as :func:`read_lines` does, and for a file that can't be read.
    """
    try:
        # Surrogates for bytes that are not UTF-8 make them an error of their line alone.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            return read_lines(file)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


async def lines_of(store: VectorLessonStore) -> list[Line]:
    """Return every lesson of a store as a line for a file or an import, oldest first."""
    stored = await store.repository.read_all([lesson.id async for lesson in store.repository.each()])
    return [
        # A lesson that is recalled by its own text keeps only an excerpt of its task.
        Line(number, each.lesson, each.tasks or (each.lesson.task_excerpt,))
        for number, each in enumerate(stored.values(), 1)
    ]


# -- imports


async def plan_import(
    store: VectorLessonStore | None,
    lines: Iterable[Line],
    *,
    approve: Collection[LessonState] = (),
    source: str = "",
) -> ImportPlan:
    """Return what an import would do to a store; None stands for a store that does not exist yet.

    New lessons wait for review, unless their state at the source is one that you ``approve``; retired ones stay
    retired. No import changes a stored lesson, and a second import changes nothing, whatever the store did to a lesson
    in the meantime.
    """
    added, same, refused = list[Line](), list[Line](), list[Line]()
    reason = f"from {source}" if source else ""
    lines = list(lines)
    present = {} if store is None else await store.repository.read_all([line.lesson.id for line in lines])
    for line in lines:
        read, problem = await _cleaned(line, None if store is None else store.settings.screen)
        lesson = replace(unsigned(read.lesson), trust="imported", support=1)  # whatever its file claims
        known = present[lesson.id].lesson if lesson.id in present else None
        if lesson.state != "retired":
            state: LessonState = "active" if lesson.state in approve else "proposed"
            lesson = replace(lesson, state=state, state_reason=reason)
        if store is not None:
            if await _is_stored(store, known, lesson, new=not problem):
                same.append(replace(read, lesson=lesson))
                continue
            if known is not None:
                problem = problem or f"a lesson with its id is {known.trust} and has other content"
            elif await store.repository.is_forgotten(lesson.id):
                problem = problem or "it was forgotten here"
        (refused if problem else added).append(replace(read, lesson=lesson, reason=problem))
    return ImportPlan(tuple(added), tuple(same), tuple(refused))


async def _is_stored(store: VectorLessonStore, known: Lesson | None, lesson: Lesson, *, new: bool) -> bool:
    """Whether a store has a lesson: as ``known`` is or was, or, for a ``new`` one, in an equal one of its attempt."""
    repository = store.repository
    if known is not None:
        return _content(known) == _content(lesson) or _content(lesson) in [
            _content(entry.after) for entry in await repository.history(known.id)
        ]
    if not new or lesson.state == "retired":
        return False
    # The attempt that taught it may count in the support of an equal lesson already.
    signed = repository.reader.signed(lesson)
    claim = await store.records.get(EQUAL, claim_key(signed))
    if claim is None or not isinstance(claim.value, Mapping):
        return False
    equal = await repository.get(str(claim.value["lesson_id"]))
    return equal is not None and is_equal(equal, signed) and attempt_of(signed) in known_attempts(equal)


async def make_import(store: VectorLessonStore, plan: ImportPlan, change: Change) -> int:
    """Make an import, a hundred lessons in a write; return how many only added to the support of an equal one.

    A stopped import is planned and made again, and goes on where it was.
    """
    merged = 0
    # A retired lesson is stored under its own id, even where an equal lesson is active.
    for retired in (True, False):
        added = [line for line in plan.added if (line.lesson.state == "retired") == retired]
        for start in range(0, len(added), AT_ONCE):
            merged += await _add(store, added[start : start + AT_ONCE], change, must_be_new=not retired)
    return merged


async def _add(store: VectorLessonStore, lines: Sequence[Line], change: Change, *, must_be_new: bool) -> int:
    """Add lessons in one write, or one by one if that conflicts; return how many only added support."""
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


async def _cleaned(line: Line, screen: Screen | None) -> tuple[Line, str]:
    """Return a line that is safe to store and show, and why its lesson can't be stored; empty if it can."""
    # Hidden characters go first, since they may break up a secret. The text keeps them for the gate, which judges them.
    plain = checked_lesson({**_uncovered(fields_of(line.lesson)), "text": line.lesson.text})
    tasks = tuple(map(gate.clean_prompt, line.tasks))
    shown = redact_record(replace(plain, text=gate.clean_lesson(plain.text)))
    refused = replace(line, lesson=shown, tasks=tasks)
    # What redaction put into an id (brackets) is refused here too.
    if len(shown.id) > _LONGEST_ID or not all(each.isalnum() or each in "-_" for each in shown.id):
        return refused, f"its id must have at most {_LONGEST_ID} letters, digits, - and _, and hold no secret"
    if (number := len(set(tasks))) > MOST_TASKS:
        return refused, f"{number} tasks are too many: a lesson has at most {MOST_TASKS}"
    try:
        gate.check_shape(shown.text)
        cleaned = await gate.clean(plain, line.tasks, screen=screen)
    except ConfigurationError as error:
        return refused, str(error)
    problem = f"it gives orders ({cleaned.finding.kind}): {cleaned.finding.why}" if cleaned.finding else ""
    return replace(line, lesson=cleaned.lesson, tasks=cleaned.tasks), problem


def _uncovered(value: Any) -> Any:  # noqa: ANN401 - of whatever field
    """Return a JSON value without secrets, including those that hidden characters break up."""
    if isinstance(value, str):
        return gate.uncovered(value)
    if isinstance(value, Mapping):
        return {_uncovered(key): _uncovered(item) for key, item in value.items()}
    return list(map(_uncovered, value)) if isinstance(value, list | tuple) else value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
