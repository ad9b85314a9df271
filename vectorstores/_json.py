"""JSON values that every store gives back as they were."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from vectorstores.base import Chunk, RecordWrite, StoreCorruptError, VectorStoreError

if TYPE_CHECKING:
    from vectorstores.base import JSON

MAX_DEPTH: Final = 64
_MAX_INT: Final = 2**63 - 1
_NUMBER: Final = 8


def is_heavy(values: Iterable[object], limit: int) -> bool:
    """Whether values, chunks and records are more than about so many bytes of JSON; reads no more of them than that."""
    waiting = list(values)
    while waiting and limit >= 0:
        value = waiting.pop()
        limit -= _NUMBER
        if isinstance(value, str):  # as most are
            limit -= len(value)
        elif value is None or isinstance(value, (int, float)):
            continue
        elif isinstance(value, Chunk):
            waiting += (value.id, value.content, value.embed_text, value.metadata)
        elif isinstance(value, RecordWrite):
            waiting.append(value.value)
        elif isinstance(value, (dict, list, tuple)):
            if len(value) * _NUMBER > limit:
                return True
            waiting += value
            waiting += value.values() if isinstance(value, dict) else ()
    return limit < 0


def check_json(value: object, place: str, error: type[VectorStoreError], depth: int = 0) -> JSON:
    """Return a copy of a value in plain JSON types, or raise ``error`` naming the place inside it.

    Refused are NaN and infinities, integers beyond 64 bits, keys that are no strings, text that is no
    Unicode, nesting deeper than ``MAX_DEPTH``, and every other type.
    """
    if depth > MAX_DEPTH:
        raise error(f"{place}: nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, bool | str | int | float):
        return _check_scalar(value, place, error)
    if isinstance(value, Mapping):
        return {
            key if _is_sound(key) and type(key) is str else check_text(key, f"{place}: a key", error): part
            if _is_sound(part)
            else check_json(part, f"{place}[{key!r}]", error, depth + 1)
            for key, part in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [
            part if _is_sound(part) else check_json(part, f"{place}[{index}]", error, depth + 1)
            for index, part in enumerate(value)
        ]
    raise error(f"{place}: {type(value).__name__} is not JSON")


def _is_sound(value: Any) -> bool:  # noqa: ANN401 - it is told apart by its type
    """Whether a value is one of the many that need no further look, nor a name for their place."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    return value is None or kind is bool or (kind is int and 0 <= value <= _MAX_INT)


def _check_scalar(value: str | float | None, place: str, error: type[VectorStoreError]) -> JSON:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(value, place, error)
    if isinstance(value, float) and not math.isfinite(value):
        raise error(f"{place}: {value} is not a JSON number")
    if isinstance(value, int) and not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise error(f"{place}: {value} does not fit into 64 bits")
    return value


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
    """Read a stored JSON value. Raises :class:`StoreCorruptError`, which says ``what`` it is, for any that can't be."""
    try:
        value: JSON = json.loads(text)
    # JSON that another program wrote may have 5,000 digits, or 2,000 lists in each other.
    except (ValueError, RecursionError) as error:
        raise StoreCorruptError(f"{what} is damaged: {error}; delete it or restore a backup") from error
    return value


def read_metadata(text: str, what: str) -> dict[str, JSON]:
    """Read a chunk's stored metadata; raises :class:`StoreCorruptError` for what is no JSON object."""
    value = read_json(text, what)
    if not isinstance(value, dict):
        raise StoreCorruptError(f"{what} is damaged: it is no JSON object; delete it or restore a backup")
    return value
