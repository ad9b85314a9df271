"""A user's own tasks: a file of JSON lines, read strictly."""

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
    """One line; its names are those of :class:`~jeeves_reflexion.types.Task`."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    prompt: Annotated[str, pydantic.StringConstraints(pattern=r"\S")]
    id: Annotated[str, pydantic.StringConstraints(min_length=1)] | None = None
    kind: str | None = None
    tools: list[str] = []
    reference: Any = None
    expected_output: str | None = None
    metadata: dict[str, Any] = {}


def read_tasks(path: str | Path) -> list[Task]:
    """Read tasks from a file of JSON lines, one object a line with ``prompt`` and, where wanted, ``id``, ``kind``,
    ``tools`` (names), ``reference`` (the gold answer, which evaluators alone see), ``expected_output``, ``metadata``.

    A task without an id has the SHA-256 of its prompt. Empty lines are passed over. Raises
    :class:`ConfigurationError` that names every line that can't be read, up to ten of them.
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
            wrong.append(f"line {number}: the id {task.id!r} is that of line {seen[task.id]} already")
        seen[task.id] = number
        tasks.append(task)
    if wrong:
        more = [f"and {len(wrong) - SHOWN_ERRORS} more"] if len(wrong) > SHOWN_ERRORS else []
        told = "\n".join(f"  {each}" for each in (*wrong[:SHOWN_ERRORS], *more))
        raise ConfigurationError(f"the tasks {path} can't be used:\n{told}")
    if not tasks:
        raise ConfigurationError(f"there is no task in {path}: write one JSON object a line, with a prompt")
    return tasks


def _task(line: bytes) -> Task:
    try:
        found = _Line.model_validate_json(line.removeprefix(codecs.BOM_UTF8))
    except pydantic.ValidationError as error:
        raise ValueError("; ".join(_told(each) for each in error.errors(include_url=False))) from None
    try:
        json.dumps([found.reference, found.metadata], allow_nan=False)
    except ValueError as error:  # pydantic reads NaN, and 1e999 as infinity
        raise ValueError(f"it is no JSON: {error}") from None
    return Task(
        found.prompt,
        id=found.id or "",
        kind=found.kind,
        tools=tuple(found.tools),
        expected_output=found.expected_output,
        reference=found.reference,
        metadata=found.metadata,
    )


def _told(error: Any) -> str:  # noqa: ANN401 - pydantic's own record
    where, more = ".".join(str(part) for part in error["loc"]), error.get("ctx", {})
    kinds = {
        "json_invalid": f"it is no JSON: {more.get('error')}",
        "model_type": "it is not an object with a prompt",
        "extra_forbidden": f"unknown field {where!r}; there are: {', '.join(_Line.model_fields)}",
        "missing": f"it has no {where}",
        "string_pattern_mismatch": f"its {where} is empty",
        "string_too_short": f"its {where} is empty",
    }
    return kinds.get(error["type"], f"{where}: {error['msg']}")
