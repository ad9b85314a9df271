"""Reads rows of JSON from other people's files, checks them against a form, and says where they are wrong."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pydantic

from jeeves_reflexion import ConfigurationError

M = TypeVar("M", bound=pydantic.BaseModel)


def read_rows(path: Path, form: type[M], expected: str) -> list[tuple[int, M]]:
    """Return the rows of a JSON list or of JSON lines, with the numbers of their elements or lines.

    The file may be compressed by gzip. Blocking. Raises :class:`ConfigurationError`, which names the file, the row, the
    field and what was ``expected``.
    """
    rows = []
    for number, text in _texts(path):
        try:
            rows.append((number, form.model_validate_json(text)))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "the line"
            message = f"{path}, line {number}: {field}: {first['msg']}; expected {expected}"
            raise ConfigurationError(message) from error
    if not rows:
        raise ConfigurationError(f"{path} is empty; expected {expected}")
    return rows


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or error
        raise ConfigurationError(f"{path} can't be read: {why}") from error
    if text.lstrip().startswith("["):
        try:
            yield from enumerate(map(json.dumps, json.loads(text)), 1)
        except ValueError as error:
            raise ConfigurationError(f"{path} is no JSON list: {error}") from error
        return
    # Not splitlines(): a string in JSON may contain the other line separators of Unicode.
    yield from ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
