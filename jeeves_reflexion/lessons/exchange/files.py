"""Lessons as JSON lines, to be handed from one store to another.

A line is ASCII, says its format and version, and holds one lesson with the text of its task: nothing of it is lost on
the way there and back. Reading is strict, because a file comes from anywhere; what an import would do is a value
(:class:`ImportReport`) before it is done.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Final, TextIO, TypeAlias

import anyio.to_thread
import pydantic

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import not_written, replace_file
from jeeves_reflexion.lessons.history import Entry
from jeeves_reflexion.lessons.principals import unsigned
from jeeves_reflexion.lessons.records import Texts, checked, checked_lesson
from jeeves_reflexion.types import Lesson

FORMAT: Final = "jeeves-reflexion/lesson"
VERSION: Final = 1
SUPPORT_ELSEWHERE: Final = "support_elsewhere"
"""Key of an imported lesson's metadata: the support that its file claimed."""

Check: TypeAlias = Callable[[Lesson], str | None]
_SHOWN: Final = 5
_MOST_CHARACTERS: Final = 1_000_000  # a longer line is no lesson
_MOST_READ: Final = 10_000_000  # reading is bounded by it
_CHANGES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A lesson that was read, the texts of its tasks, and the number of its line, from 1.

    ``reason`` says why it is refused; ``undoes`` what taking it back undoes in the store; ``forgotten`` that it was
    removed from the store for good.
    """

    number: int
    lesson: Lesson
    tasks: tuple[str, ...]
    reason: str = ""
    undoes: str = ""
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no lesson, and why."""

    number: int
    problem: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Lines:
    """What was read: lessons in order, and the lines that were passed over."""

    lessons: tuple[Line, ...]
    bad: tuple[BadLine, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import does, or would do.

    ``added`` are new ids, ``same`` are there already, ``changed`` replace an imported lesson of that id by another
    wording of it, ``refused`` are left out, each with its reason; ``bad`` lines could not be read.
    """

    added: tuple[Line, ...] = ()
    same: tuple[Line, ...] = ()
    changed: tuple[Line, ...] = ()
    refused: tuple[Line, ...] = ()
    bad: tuple[BadLine, ...] = ()

    @property
    def changes(self) -> tuple[Line, ...]:
        """What is to be written: the added and the changed, in the order of their lines."""
        return tuple(sorted((*self.added, *self.changed), key=lambda line: line.number))

    def __str__(self) -> str:
        counts = {name: len(getattr(self, name)) for name in ("added", "same", "changed", "refused", "bad")}
        return ", ".join(f"{count} {name}" for name, count in counts.items())


class _Tasks(pydantic.BaseModel):
    """The texts by which a lesson is recalled."""

    tasks: Annotated[Texts, pydantic.Field(min_length=1)]


def to_line(lesson: Lesson, tasks: Sequence[str]) -> str:
    """Write a lesson and the texts of its tasks as one line of ASCII, without its end.

    Raises :class:`ConfigurationError` for metadata that JSON can't hold, such as NaN.
    """
    value = {field.name: getattr(lesson, field.name) for field in fields(lesson)}
    value |= {"provenance": asdict(lesson.provenance), "metadata": dict(lesson.metadata)}
    value = {"format": FORMAT, "version": VERSION, "tasks": list(tasks), **value}
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the lesson {lesson.id} can't be written as JSON: {error}") from error


def from_line(line: str) -> tuple[Lesson, tuple[str, ...]]:
    """Read what :func:`to_line` wrote: the lesson and the texts of its tasks, at least one.

    Raises :class:`ConfigurationError` that names the field for anything else: a missing or unknown field, a value of
    another kind, another format or version.
    """
    if len(line) > _MOST_CHARACTERS:
        raise ConfigurationError(
            f"it is {len(line)} characters long; a lesson has at most {_MOST_CHARACTERS}"
        )
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("it is no JSON object")
    if value.get("format") != FORMAT:
        raise ConfigurationError(f"its format is {value.get('format')!r:.80}, not {FORMAT!r}")
    version = value.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ConfigurationError(
            f"its version is {version!r:.80}; this program reads version {VERSION}: update it"
        )
    names = ("format", "version", "tasks")
    lesson = checked_lesson({name: part for name, part in value.items() if name not in names})
    return lesson, checked(_Tasks, {"tasks": value.get("tasks")}).tasks


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def read_lines(lines: Iterable[str], *, skip_bad: bool = False) -> Lines:
    """Read lessons, one a line; empty lines are passed over.

    Raises :class:`ConfigurationError` that names the first lines that are no lessons, or whose id an earlier line has
    with another lesson; with ``skip_bad`` these are in ``bad`` and the others are read.
    """
    found: dict[str, Line] = {}
    bad = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            line.encode()  # bytes that are no UTF-8 were read as characters that UTF-8 has not
            lesson, tasks = from_line(line)
        except UnicodeEncodeError:
            bad.append(BadLine(number, "it is no UTF-8"))
            continue
        except ConfigurationError as error:
            bad.append(BadLine(number, str(error)))
            continue
        earlier = found.setdefault(lesson.id, Line(number, lesson, tasks))
        if (earlier.lesson, earlier.tasks) != (lesson, tasks):
            problem = f"the id {lesson.id!r:.80} is on line {earlier.number} already, with another lesson"
            bad.append(BadLine(number, problem))
    if bad and not skip_bad:
        shown = "; ".join(map(str, bad[:_SHOWN]))
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise ConfigurationError(
            f"{len(bad)} of the lines {'is no lesson' if len(bad) == 1 else 'are no lessons'}, and nothing was"
            f" imported: {shown}{more}"
        )
    return Lines(tuple(found.values()), tuple(bad))


def plan_import(
    lines: Lines,
    stored: Mapping[str, Lesson],
    *,
    check: Check | None = None,
    restore: bool = False,
    older: Mapping[str, str] | None = None,
    force: bool = False,
    forgotten: Container[str] = (),
) -> ImportReport:
    """Say what importing lessons does to a store; ``stored`` holds those of its lessons that have ids of the file.

    Each lesson becomes an imported one (:func:`as_imported`); with ``restore``, for one's own backup, it stays as it
    was written. ``check`` returns why a lesson is refused, or None; it sees each new or changed lesson. An imported
    wording never replaces a lesson of higher trust, and what the store did to a lesson since (its state, its support,
    merged copies) is no difference: a second import changes nothing.

    A backup is compared whole. ``older`` says of the ids whose state the store has left behind since what taking it
    back would undo (:func:`undone`): such a lesson is refused, unless
    ``force`` is set. So is one whose id is among the ``forgotten``, whoever wrote the file.
    """
    added, same, changed, refused = [], [], [], []
    for line in lines.lessons:
        lesson = line.lesson if restore else as_imported(line.lesson)
        known = stored.get(lesson.id)
        undoes = (older or {}).get(lesson.id, "") if restore else ""
        gone = known is None and lesson.id in forgotten
        item = replace(line, lesson=lesson, undoes="its forgetting" if gone else undoes, forgotten=gone)
        if known is not None and (known == lesson if restore else _content(known) == _content(lesson)):
            same.append(item)
            continue
        problem = check(lesson) if check is not None else None
        if problem is None and known is not None and known.trust != "imported" and not restore:
            problem = f"a lesson with its id is {known.trust} and says otherwise"
        if problem is None and gone and not (restore and force):
            problem = "it was forgotten here, and taking one's own lesson back takes --restore and --force"
        if problem is None and undoes and not force:
            problem = f"the store has a newer state, and going back takes force; it would undo: {undoes}"
        if problem is not None:
            refused.append(replace(item, reason=problem))
        elif known is None:
            added.append(item)
        else:
            # The store's own findings on the lesson stay: only what it says is new.
            merged = replace(
                lesson, state=known.state, state_reason=known.state_reason, support=known.support
            )
            changed.append(replace(item, lesson=lesson if restore else merged))
    return ImportReport(tuple(added), tuple(same), tuple(changed), tuple(refused), lines.bad)


def undone(backup: Lesson, entries: Sequence[Entry]) -> str:
    """Say which changes of a lesson came after the state that a backup holds; empty if it was never in that state.

    ``entries`` is the lesson's history in the store, oldest first. A state that the history doesn't know is no older
    one: the backup was made elsewhere, or edited by hand. Where words of a forgotten lesson were struck from the
    history, any state that it doesn't know may have these words.
    """
    states = [entry.before for entry in entries[:1] if entry.before is not None]
    states += [entry.after for entry in entries]
    if backup not in states:
        return ", ".join(_said(entry) for entry in entries if entry.operation == "forget")
    if states[-1] == backup:
        return ""
    newest = len(states) - 1 - states[::-1].index(backup)
    later = entries[len(entries) - (len(states) - 1 - newest) :]
    shown = ", ".join(map(_said, later[-_CHANGES_SHOWN:]))
    return f"{shown} and {len(later) - _CHANGES_SHOWN} more" if len(later) > _CHANGES_SHOWN else shown


def _said(entry: Entry) -> str:
    day = datetime.datetime.fromtimestamp(entry.at, datetime.UTC).date()
    by = f" by {entry.by}" if entry.by else ""
    reason = f" ({entry.reason})" if entry.reason else ""
    return f"{entry.operation} of {day}{by}{reason}"


def as_imported(lesson: Lesson) -> Lesson:
    """Return a lesson as another store's: imported, and with the support of one, whatever its file claims."""
    lesson = unsigned(lesson)
    metadata = {**lesson.metadata, SUPPORT_ELSEWHERE: lesson.metadata.get(SUPPORT_ELSEWHERE, lesson.support)}
    return replace(lesson, trust="imported", support=1, metadata=metadata)


async def export_file(path: Path, lessons: Sequence[tuple[Lesson, Sequence[str]]]) -> int:
    """Write lessons with the texts of their tasks to a file, replaced whole; return how many.

    Raises :class:`LessonStoreError` when the file can't be written; it is as it was then.
    """
    return await anyio.to_thread.run_sync(_export, path, lessons)


def _export(path: Path, lessons: Sequence[tuple[Lesson, Sequence[str]]]) -> int:
    text = "".join(f"{to_line(lesson, tasks)}\n" for lesson, tasks in lessons)
    try:
        replace_file(path, text)
    except OSError as error:
        raise LessonStoreError(not_written(path, error)) from error
    return len(lessons)


def import_file(path: Path, *, skip_bad: bool = False) -> Lines:
    """Read the lessons of a file; blocks, with a pipe until somebody writes to it.

    Raises :class:`ConfigurationError` as :func:`read_lines` does, and for a file that can't be read or is no UTF-8.
    """
    try:
        # So that bytes that are no UTF-8 are the error of their line alone.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            return read_lines(_lines_of(file), skip_bad=skip_bad)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _lines_of(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file; what has none, such as a device, is not read without end."""
    while line := file.readline(_MOST_READ + 1):
        if len(line) > _MOST_READ:
            raise ConfigurationError(f"a line has more than {_MOST_READ:,} characters: it holds no lesson")
        yield line


def _content(lesson: Lesson) -> tuple[object, ...]:
    """What a lesson says and where it comes from, without what stores find out about it."""
    return (
        lesson.text,
        lesson.task_id,
        lesson.task_excerpt,
        lesson.task_kind,
        lesson.tools,
        lesson.outcome,
        lesson.evidence,
        lesson.provenance,
    )
