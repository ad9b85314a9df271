"""Checks of JSON values before they are stored, and reading them back."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from vectorstores.base import Chunk, RecordWrite, StoreCorruptError, VectorStoreError

if TYPE_CHECKING:
    from vectorstores.base import JSON

MAX_DEPTH: Final = 64
_MAX_INT: Final = 2**63 - 1
_NUMBER: Final = 8
_SMALL: Final = frozenset({int, float, bool, type(None)})


def is_heavy(values: Iterable[object], limit: int) -> bool:
    """Whether values, chunks and records take more than about ``limit`` bytes as JSON; reads little beyond it."""
    waiting: list[Collection[object]] = [list(values)]
    while waiting:
        parts = waiting.pop()
        limit -= _NUMBER * len(parts)
        if limit < 0:
            return True
        for part in parts:
            if type(part) in _SMALL:
                continue
            if isinstance(part, str):
                limit -= len(part)
            elif isinstance(part, dict):
                waiting += (part.keys(), part.values())
            elif isinstance(part, list | tuple):
                waiting.append(part)
            elif isinstance(part, Chunk):
                waiting.append((part.id, part.content, part.embed_text, part.metadata))
            elif isinstance(part, RecordWrite):
                waiting.append((part.value,))
    return limit < 0


def check_json(value: object, place: str, error: type[VectorStoreError], depth: int = 0) -> JSON:
    """Return a copy of a value in plain JSON types, or raise ``error`` naming the place inside it.

    Refuses NaN and infinities, integers beyond 64 bits, keys that are not strings, invalid Unicode, nesting deeper
    than ``MAX_DEPTH``, and every other type.
    """
    if depth > MAX_DEPTH:
        raise error(f"{place}: nested more than {MAX_DEPTH} deep")
    # Comparing types first spares the slow checks of the abstract classes.
    if type(value) is dict or isinstance(value, Mapping):
        return {
            key if type(key) is str and key.isascii() else check_text(key, f"{place}: a key", error): part
            if _is_plain(part)
            else check_json(part, f"{place}[{key!r}]", error, depth + 1)
            for key, part in value.items()
        }
    if type(value) is list or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)
    ):
        return [
            part if _is_plain(part) else check_json(part, f"{place}[{index}]", error, depth + 1)
            for index, part in enumerate(value)
        ]
    if isinstance(value, str):
        return check_text(value, place, error)
    if isinstance(value, float) and not math.isfinite(value):
        raise error(f"{place}: {value} is not a JSON number")
    if isinstance(value, int) and not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise error(f"{place}: {value} does not fit into 64 bits")
    if value is None or isinstance(value, int | float):
        return value
    raise error(f"{place}: {type(value).__name__} is not JSON")


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - the type is checked first
    """Whether a value is a scalar that needs no further check, as most are."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if kind is int:
        return bool(-_MAX_INT <= value <= _MAX_INT)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def check_text(value: object, place: str, error: type[Exception]) -> str:
    """Return a string that can be written as UTF-8."""
    if not isinstance(value, str):
        raise error(f"{place}: expected a string, got {value!r:.100}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise error(f"{place}: {value!a:.100} is not valid Unicode (a lone surrogate)") from None
    return value


def read_json(text: str, what: str) -> JSON:
    """Read a stored JSON value; ``what`` names it in the :class:`StoreCorruptError` for one that can't be read."""
    try:
        value: JSON = json.loads(text)
    # JSON that another program wrote may have numbers of 5,000 digits, or 2,000 nested lists.
    except (ValueError, RecursionError) as error:
        raise StoreCorruptError(f"{what} is damaged: {error}; delete it or restore a backup") from error
    return value


def read_metadata(text: str, what: str) -> dict[str, JSON]:
    """Read a chunk's stored metadata. Raises :class:`StoreCorruptError` if it is not a JSON object."""
    value = read_json(text, what)
    if not isinstance(value, dict):
        raise StoreCorruptError(f"{what} is damaged: it is not a JSON object; delete it or restore a backup")
    return value
