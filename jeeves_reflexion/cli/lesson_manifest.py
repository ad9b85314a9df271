"""Which lessons were written to a folder: so that a file that is missing there was removed, and not just never made."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import LessonStoreError
from jeeves_reflexion.files import not_written, read_regular, replace_file
from jeeves_reflexion.reflections.lesson_files import export_lessons
from jeeves_reflexion.types import Lesson

MANIFEST: Final = ".lessons.json"
_MOST_BYTES: Final = 100_000_000


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
