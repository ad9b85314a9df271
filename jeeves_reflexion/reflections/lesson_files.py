"""Lessons of one sentence as Markdown files, to be read, edited and taken back; reflections have a format of their own.

::

    # Lesson: 2026-03-01 - researcher-agent - Fetch the listings

    Always validate API response status before parsing the body.

    ## Task

    ```text
    Fetch the listings of all shops, ...
    ```

    <!-- jeeves-reflexion lesson: {"lesson_id":"...", ...} -->

The sentence is what people edit. A task stands there whole where the title has not all of it; a lesson that was learned
on several has several. A file without the comment is a new lesson on the task that it, or else its title, names.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.files import read_regular, replace_file
from jeeves_reflexion.lessons.gate import MAX_CHARACTERS, shape_problem
from jeeves_reflexion.lessons.records import lesson_fields, lesson_from_fields
from jeeves_reflexion.redaction import redact, redact_record
from jeeves_reflexion.reflections.folder import Malformed, agent_slug, free_path, locked, short_name
from jeeves_reflexion.reflections.forms import flat_text
from jeeves_reflexion.reflections.markdown import MarkdownError, summary_of
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import Lesson, Provenance, Task

_DATA: Final = "<!-- jeeves-reflexion lesson: "
_TITLE: Final = re.compile(r"# Lesson: (?P<date>\d{4}-\d{2}-\d{2}) - (?P<agent>\S+) - (?P<excerpt>\S.*)")
_TASK: Final = "## Task"
_BLOCK: Final = re.compile(
    r"[ \t]*## Task\s*\n(?P<fence>`{3,})[a-z]*[ \t]*\n(?P<task>.*?)\n(?P=fence)[ \t]*(?:\n\s*|\Z)", re.DOTALL
)
_EXCERPT_CHARACTERS: Final = 200
MOST_BYTES: Final = 1_000_000
"""A larger file is no lesson."""


@dataclass(frozen=True, slots=True)
class LessonFile:
    """A lesson as a file has it; ``tasks`` are the texts that it is recalled by, none where the title is enough."""

    lesson: Lesson
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LessonChanges:
    """How a folder differs from the lessons that are stored; ``removed`` are stored and have no file.

    ``tasks`` has the tasks of all lessons that have a file, by their ids; empty for one whose file names its task by
    the title alone.
    """

    added: tuple[Lesson, ...] = ()
    changed: tuple[Lesson, ...] = ()
    removed: tuple[Lesson, ...] = ()
    malformed: tuple[Malformed, ...] = ()
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


def lesson_markdown(lesson: Lesson, tasks: Sequence[str] = ()) -> str:
    """Write a lesson and the texts of its tasks as a file, dated in UTC, without secrets."""
    lesson = redact_record(lesson)
    source = lesson.provenance
    date = datetime.datetime.fromtimestamp(source.created_at, datetime.UTC).date()
    parts = [
        f"# Lesson: {date} - {agent_slug(source.agent or '')} - {summary_of(lesson.task_excerpt)}",
        one_line(lesson.text),
    ]
    whole = [flat_text(redact(task)) for task in tasks]
    if whole != [lesson.task_excerpt]:
        parts += [part for task in whole for part in (_TASK, _fenced(task))]
    return "\n\n".join([*parts, comment(_DATA, lesson_fields(lesson))]) + "\n"


def _fenced(text: str) -> str:
    ticks = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(ticks + 1, 3)
    return f"{fence}text\n{text}\n{fence}"


def lesson_of_markdown(text: str) -> LessonFile:
    """Read a file back. Raises :class:`MarkdownError`, which names the line, for one that is no lesson."""
    lines = flat_text(text.removeprefix("\ufeff")).rstrip().split("\n")
    title = _TITLE.fullmatch(lines[0].rstrip())
    if title is None:
        raise MarkdownError(1, f"{abridge(lines[0], 80)!r} should read '# Lesson: YYYY-MM-DD - agent - task'")
    last = lines[-1] if lines[-1].startswith(_DATA) else ""
    told, tasks = _body(lines[: len(lines) - bool(last)])
    sentence = " ".join(line for _, line in told)
    # A program may have let in longer ones: what has its data is checked by whoever takes it in.
    most = len(sentence) if last else MAX_CHARACTERS
    if problem := shape_problem(sentence, max_characters=most, one_sentence=not last):
        raise MarkdownError(
            told[0][0] if told else 2, f"the lesson is refused: {problem}; write one sentence"
        )
    if last:
        try:
            return LessonFile(lesson_from_fields(sentence, read_comment(_DATA, lines)), tasks)
        except ConfigurationError as error:
            raise unreadable(error, len(lines)) from error
    day = datetime.datetime.combine(date_of(title["date"]), datetime.time(), datetime.UTC)
    task = tasks[0] if tasks else title["excerpt"].strip()
    source = Provenance("", 0, None, None, title["agent"], day.timestamp())
    excerpt = abridge(task, _EXCERPT_CHARACTERS)
    id = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
    return LessonFile(Lesson(id, sentence, Task(task).id, excerpt, source, trust="imported"), tasks)


def _body(lines: Sequence[str]) -> tuple[list[tuple[int, str]], tuple[str, ...]]:
    """Return the lines below the title that say the lesson, each with its number, and the tasks that follow them."""
    end = next((number for number, line in enumerate(lines) if line.strip() == _TASK), len(lines))
    told = [(number, line.strip()) for number, line in enumerate(lines[1:end], 2) if line.strip()]
    body, at, tasks = "\n".join(lines[end:]), 0, list[str]()
    while at < len(body):
        block = _BLOCK.match(body, at)
        if block is None or not block["task"].strip():
            raise MarkdownError(
                end + 1 + body.count("\n", 0, at),
                f"below {_TASK!r} belongs a text between two lines of ```, and nothing else: mend it",
            )
        tasks.append(block["task"])
        at = block.end()
    return told, tuple(tasks)


def export_lessons(folder: Path, lessons: Iterable[tuple[Lesson, Sequence[str]]]) -> int:
    """Write each lesson, with the texts of its tasks, to a file of its own in ``folder``; return how many.

    A file of the same lesson is replaced, whole. Durable when it returns; one process at a time writes to a folder.
    Raises :class:`LessonStoreError` for what can't be written.
    """
    count = 0
    with locked(folder):
        found, _, _ = _read(folder)
        places = {file.lesson.id: path for path, file in found.items()}
        for lesson, tasks in lessons:
            date = datetime.datetime.fromtimestamp(lesson.provenance.created_at, datetime.UTC).date()
            path = places.get(lesson.id) or free_path(folder, short_name(date, lesson.text))
            replace_file(path, lesson_markdown(lesson, tasks))
            count += 1
    return count


def lesson_changes(folder: Path, stored: Iterable[Lesson]) -> LessonChanges:
    """Compare a folder with the lessons that are stored, by their ids; changes nothing.

    A lesson counts as changed when its sentence is another; a file that can't be read is malformed, and its lesson is
    not taken for removed. While a file can't even be read as text, it may hold any lesson, and none is.
    """
    if not folder.is_dir():
        raise LessonStoreError(f"{folder} is no folder of lessons: export lessons to it first")
    known = {lesson.id: lesson for lesson in stored}
    found, malformed, unclear = _read(folder)
    files = {file.lesson.id: file.lesson for file in found.values()}
    kept = known.keys() if unclear else {*files, *(bad.id for bad in malformed)}
    return LessonChanges(
        tuple(lesson for id, lesson in files.items() if id not in known),
        tuple(
            replace(known[id], text=lesson.text)
            for id, lesson in files.items()
            if id in known and lesson.text != known[id].text
        ),
        tuple(lesson for id, lesson in known.items() if id not in kept),
        malformed,
        {file.lesson.id: file.tasks for file in found.values()},
    )


def comment(opening: str, data: Mapping[str, Any]) -> str:
    """Write data as a comment of Markdown; nothing in it looks like its end."""
    text = json.dumps(data, separators=(",", ":")).replace("--", "-\\u002d").replace(">", "\\u003e")
    return f"{opening}{text} -->"


def date_of(text: str) -> datetime.date:
    """Return the date of a title; raises :class:`MarkdownError` for what is none."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise MarkdownError(1, f"{text!r} is no date: write YYYY-MM-DD") from error


def read_comment(opening: str, lines: Sequence[str]) -> Any:  # noqa: ANN401 - JSON, for its reader to check
    """Return the data of the comment in the last of ``lines``."""
    try:
        return json.loads(lines[-1].removeprefix(opening).removesuffix("-->"))
    except (ValueError, RecursionError) as error:
        raise unreadable(error, len(lines)) from error


def unreadable(error: Exception, line: int) -> MarkdownError:
    """Return the error of a comment whose data can't be read."""
    return MarkdownError(
        line,
        f"the data can't be read ({type(error).__name__}: {abridge(str(error), 200)}): restore the line, or delete it",
    )


_ID: Final = re.compile(r'"lesson_id":"([^"]{1,64})"')


def _read(folder: Path) -> tuple[dict[Path, LessonFile], tuple[Malformed, ...], bool]:
    """Return what the files hold, those that can't be read, and whether one of these may hold any lesson."""
    found: dict[Path, LessonFile] = {}
    malformed: list[Malformed] = []
    unclear = False
    for path in sorted(folder.glob("*.md")):
        try:
            data = read_regular(path, MOST_BYTES)
        except OSError as error:
            malformed.append(Malformed(path, f"it can't be read: {error}"))
            unclear = True
            continue
        try:
            found[path] = lesson_of_markdown(data.decode("utf-8"))
        except (UnicodeDecodeError, MarkdownError) as error:
            kind = "it is no UTF-8 text: save it as UTF-8: " if isinstance(error, UnicodeDecodeError) else ""
            # The comment comes last: a task may have said the same before. Without NULs it reads in UTF-16 too.
            named = _ID.findall(data.replace(b"\0", b"").decode("utf-8", "replace"))
            malformed.append(Malformed(path, f"{kind}{error}", named[-1] if named else ""))
            # A text that names no lesson is none of ours; what is no text, was emptied or begins as one may have been.
            ours = kind or not data.strip(b"\0\t\r\n ") or data.lstrip().startswith(b"# Lesson:")
            unclear = unclear or bool(ours and not named)
    return found, tuple(malformed), unclear
