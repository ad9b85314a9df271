"""Values cross as JSON, nothing else: what is none is an error that says where."""

from __future__ import annotations

import json
import math

_DEEPEST = 200
_dumps = json.dumps  # kept: code in the same process may replace it


def encode(value: object, name: str) -> bytes:
    """Return ``value`` as JSON; tuples become lists. Raises ``ValueError`` that says which part is no JSON."""
    _check(value, name, 0)
    try:
        return _dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # a whole number of more digits than Python writes
        raise ValueError(f"{name} is no JSON: {error}") from None


def decode(data: bytes) -> object:
    """Read JSON that may come from anybody. Raises ``ValueError``."""
    try:
        value = json.loads(data.decode(), parse_constant=_refuse)
        _check(value, "the value", 0)  # depth, and halves of surrogate pairs that were written as escapes
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    result: object = value
    return result


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _check(value: object, path: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"{path[:200]} is nested deeper than {_DEEPEST} levels, or in itself")
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path} is no JSON: its key {key!r:.100} is no text")  # noqa: TRY004
            _check(key, f"a key of {path}", depth + 1)
            _check(item, f"{path}[{key!r:.100}]", depth + 1)
    else:
        _check_leaf(value, path)


def _check_leaf(value: object, path: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{path} is no JSON: text with half of a surrogate pair") from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is no JSON: {value}")
    elif value is not None and not isinstance(value, int):
        raise ValueError(f"{path} is no JSON: {type(value).__name__}")
