"""One lesson as one line of JSON, and back: nothing of it is lost, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Annotated, Final

import pydantic

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.lessons.schema import Texts, checked, checked_lesson
from jeeves_reflexion.types import Lesson

FORMAT: Final = "jeeves-reflexion/lesson"
VERSION: Final = 1
MOST_CHARACTERS: Final = 1_000_000
"""A longer line is no lesson."""


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
    if len(line) > MOST_CHARACTERS:
        raise ConfigurationError(f"it is {len(line)} characters long; a lesson has at most {MOST_CHARACTERS}")
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


class _Tasks(pydantic.BaseModel):
    """The texts by which a lesson is recalled."""

    tasks: Annotated[Texts, pydantic.Field(min_length=1)]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
