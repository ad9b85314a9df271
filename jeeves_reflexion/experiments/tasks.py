"""Reads a user's own tasks from a file of JSON lines, strictly."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Annotated, Any, Final

import pydantic

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import Task

SHOWN_ERRORS: Final = 10


class _Line(pydantic.BaseModel):
    """One line, with the field names of :class:`~jeeves_reflexion.types.Task`."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    prompt: Annotated[str, pydantic.StringConstraints(pattern=r"\S")]
    id: Annotated[str, pydantic.StringConstraints(min_length=1)] | None = None
    kind: str | None = None
    tools: list[str] = []
    reference: Any = None
    expected_output: str | None = None
    metadata: dict[str, Any] = {}


def read_tasks(path: str | Path) -> list[Task]:
    """Read tasks from a file of JSON lines, one object per line.

    An object has a ``prompt`` and may have ``id``, ``kind``, ``tools`` (names), ``reference`` (the gold answer, which
    only evaluators see), ``expected_output`` and ``metadata``. The default id is the SHA-256 of the prompt. Empty lines
    are skipped. Raises :class:`ConfigurationError` with the first ten lines that can't be read.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigurationError(f"the tasks {path} can't be read: {error.strerror or error}") from error
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    wrong: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = _task(line)
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
            continue
        if task.id in seen:
            wrong.append(f"line {number}: line {seen[task.id]} has the same id {task.id!r}")
        seen[task.id] = number
        tasks.append(task)
    if wrong:
        more = [f"and {len(wrong) - SHOWN_ERRORS} more"] if len(wrong) > SHOWN_ERRORS else []
        listed = "\n".join(f"  {each}" for each in (*wrong[:SHOWN_ERRORS], *more))
        raise ConfigurationError(f"the tasks {path} can't be used:\n{listed}")
    if not tasks:
        raise ConfigurationError(f"{path} has no task: write one JSON object per line, with a prompt")
    return tasks


def _task(line: bytes) -> Task:
    try:
        given = _Line.model_validate_json(line.removeprefix(codecs.BOM_UTF8))
    except pydantic.ValidationError as error:
        told = []
        for each in error.errors(include_url=False):
            where, more = ".".join(str(part) for part in each["loc"]), each.get("ctx", {})
            kinds = {
                "json_invalid": f"it is not JSON: {more.get('error')}",
                "model_type": "it is not an object with a prompt",
                "extra_forbidden": f"unknown field {where!r}; the fields are: {', '.join(_Line.model_fields)}",
                "missing": f"it has no {where}",
                "string_pattern_mismatch": f"its {where} is empty",
                "string_too_short": f"its {where} is empty",
            }
            told.append(kinds.get(each["type"], f"{where}: {each['msg']}"))
        raise ValueError("; ".join(told)) from None
    try:
        json.dumps([given.reference, given.metadata], allow_nan=False)
    except ValueError as error:  # pydantic accepts NaN, and reads 1e999 as infinity
        raise ValueError(f"it is not JSON: {error}") from None
    return Task(**given.model_dump() | {"id": given.id or "", "tools": tuple(given.tools)})
