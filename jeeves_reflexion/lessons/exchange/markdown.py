"""Lessons of one sentence as Markdown files, to be read, edited and taken back; reflections have a format of their own.

::

    # Lesson: 2026-03-01 - researcher-agent - Fetch the listings

    Always validate API response status before parsing the body.

    <!-- jeeves-reflexion lesson: {"lesson_id":"...", ...} -->

The sentence is what people edit. A file without the comment is a new lesson on the task that its title names.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import filelock

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.files import replace_file
from jeeves_reflexion.forms import flat_text
from jeeves_reflexion.lessons.gate import shape_problem
from jeeves_reflexion.lessons.records import lesson_fields, lesson_from_fields
from jeeves_reflexion.lessons.reflections.folder import LOCK_SECONDS, Malformed
from jeeves_reflexion.lessons.reflections.markdown import MarkdownError, summary_of
from jeeves_reflexion.lessons.reflections.naming import agent_slug, file_name
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.text import abridge, one_line
from jeeves_reflexion.types import JSON, Lesson, Provenance

_DATA: Final = "<!-- jeeves-reflexion lesson: "
_TITLE: Final = re.compile(r"# Lesson: (?P<date>\d{4}-\d{2}-\d{2}) - (?P<agent>\S+) - (?P<excerpt>\S.*)")


@dataclass(frozen=True, slots=True)
class LessonChanges:
    """How a folder differs from the lessons that are stored; ``removed`` are stored and have no file."""

    added: tuple[Lesson, ...] = ()
    changed: tuple[Lesson, ...] = ()
    removed: tuple[Lesson, ...] = ()
    malformed: tuple[Malformed, ...] = ()


def lesson_markdown(lesson: Lesson) -> str:
    """Write a lesson as a file, dated in UTC, without secrets."""
    source = lesson.provenance
    date = datetime.datetime.fromtimestamp(source.created_at, datetime.UTC).date()
    title = f"# Lesson: {date} - {agent_slug(source.agent or '')} - {summary_of(redact(lesson.task_excerpt))}"
    data = (
        json.dumps(lesson_fields(lesson), separators=(",", ":"))
        .replace("--", "-\\u002d")
        .replace(">", "\\u003e")
    )
    return f"{title}\n\n{one_line(redact(lesson.text))}\n\n{_DATA}{data} -->\n"


def lesson_of_markdown(text: str) -> Lesson:
    """Read a file back. Raises :class:`MarkdownError`, which names the line, for one that is no lesson."""
    lines = flat_text(text.removeprefix("\ufeff")).rstrip().split("\n")
    title = _TITLE.fullmatch(lines[0].rstrip())
    if title is None:
        raise MarkdownError(1, f"{abridge(lines[0], 80)!r} should read '# Lesson: YYYY-MM-DD - agent - task'")
    last = lines[-1] if lines[-1].startswith(_DATA) else ""
    told = [
        (number, line.strip())
        for number, line in enumerate(lines[1 : len(lines) - bool(last)], 2)
        if line.strip()
    ]
    sentence = " ".join(line for _, line in told)
    if problem := shape_problem(sentence):
        raise MarkdownError(
            told[0][0] if told else 2, f"the lesson is refused: {problem}; write one sentence"
        )
    if last:
        try:
            data: Mapping[str, JSON] = json.loads(last.removeprefix(_DATA).removesuffix("-->"))
            return lesson_from_fields(sentence, data)
        except (ValueError, KeyError, TypeError) as error:
            raise MarkdownError(
                len(lines),
                f"the data can't be read ({type(error).__name__}: {error}): restore the line, or delete it",
            ) from error
    try:
        day = datetime.datetime.fromisoformat(title["date"]).replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise MarkdownError(1, f"{title['date']!r} is no date: write YYYY-MM-DD") from error
    excerpt = title["excerpt"].strip()
    source = Provenance("", 0, None, None, title["agent"], day.timestamp())
    return Lesson(_digest(text), sentence, _digest(excerpt), excerpt, source, trust="imported")


def export_lessons(folder: Path, lessons: Iterable[Lesson]) -> int:
    """Write each lesson to a file of its own in ``folder``, over that of the same lesson; return how many.

    Durable when it returns; a file is replaced whole. One process at a time writes to a folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with filelock.FileLock(folder / ".lock", timeout=LOCK_SECONDS):
            return _export(folder, lessons)
    except (OSError, filelock.Timeout) as error:
        raise LessonStoreError(f"lessons can't be written to {folder}: {error}") from error


def _export(folder: Path, lessons: Iterable[Lesson]) -> int:
    found, _ = _read(folder)
    places = {lesson.id: path for path, lesson in found.items()}
    taken = {path.name for path in found} | {path.name for path in folder.glob("*.md")}
    count = 0
    for lesson in lessons:
        date = datetime.datetime.fromtimestamp(lesson.provenance.created_at, datetime.UTC).date()
        path = places.get(lesson.id) or folder / file_name(date, lesson.task_excerpt, taken.__contains__)
        taken.add(path.name)
        replace_file(path, lesson_markdown(lesson))
        count += 1
    return count


def lesson_changes(folder: Path, stored: Iterable[Lesson]) -> LessonChanges:
    """Compare a folder with the lessons that are stored, by their ids; changes nothing.

    A lesson counts as changed when its sentence is another; a file that can't be read is malformed, and its lesson is
    not taken for removed.
    """
    if not folder.is_dir():
        raise LessonStoreError(f"{folder} is no folder of lessons: export lessons to it first")
    known = {lesson.id: lesson for lesson in stored}
    found, malformed = _read(folder)
    files = {lesson.id: lesson for lesson in found.values()}
    kept = {*files, *(bad.id for bad in malformed)}
    return LessonChanges(
        tuple(lesson for id, lesson in files.items() if id not in known),
        tuple(
            replace(known[id], text=lesson.text)
            for id, lesson in files.items()
            if id in known and lesson.text != known[id].text
        ),
        tuple(lesson for id, lesson in known.items() if id not in kept),
        malformed,
    )


_ID: Final = re.compile(r'"lesson_id":"([^"]{1,64})"')


def _read(folder: Path) -> tuple[dict[Path, Lesson], tuple[Malformed, ...]]:
    found: dict[Path, Lesson] = {}
    malformed: list[Malformed] = []
    for path in sorted(folder.glob("*.md")):
        try:
            text = path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            malformed.append(Malformed(path, f"it can't be read: {error}"))
            continue
        try:
            found[path] = lesson_of_markdown(text)
        except MarkdownError as error:
            named = _ID.search(text)
            malformed.append(Malformed(path, str(error), named[1] if named else ""))
    return found, tuple(malformed)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
