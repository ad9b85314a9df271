"""JSON as language models write it: also as a Python dict, with comments, trailing commas or typographic quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from jeeves_reflexion.types import JSON

_DEPTH: Final = 60
_GAP: Final = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[\u201c\u201d](?:[^\u201c\u201d\\]|\\.)*\u201d', re.DOTALL
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD: Final = re.compile(r"[^\W\d]\w*")
_WORDS: Final[dict[str, JSON]] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None, "NaN": float("nan"),
}  # fmt: skip


class NotJSONError(ValueError):
    """A text holds no JSON where it was looked for; ``position`` is where it stops being JSON."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no JSON at {position}")
        self.position = position


def read_value(text: str, start: int) -> tuple[JSON, int]:
    """Return the object or array that begins at ``start``, and where it ends.

    An object that gives one key two different values has none of them: :class:`NotJSONError`, as for any other text.
    """
    try:
        found: tuple[JSON, int] = _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _read(text, start, 0)
    return found


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for key, value in pairs:
        if key in fields and not same(fields[key], value):
            raise ValueError(f"two values for {key!r}")
        fields[key] = value
    return fields


def same(one: JSON, other: JSON) -> bool:
    """Whether two values are one as JSON: ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    return json.dumps(_plain(one), sort_keys=True) == json.dumps(_plain(other), sort_keys=True)


def _plain(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return (
        float(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
        else value
    )


# Line ends within strings are no JSON, and common.
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, strict=False)


def _read(text: str, at: int, depth: int) -> tuple[JSON, int]:
    if depth > _DEPTH:
        raise NotJSONError(len(text))
    opening = text[at : at + 1]
    if opening == "{":
        return _fields(text, at, depth)
    if opening == "[":
        items: list[JSON] = []
        end = _members(text, at, "]", lambda here: _item(text, here, depth, items))
        return items, end
    if match := _STRING.match(text, at):
        return _string(match), match.end()
    if match := _NUMBER.match(text, at):
        return float(match[0]) if not match[0].isdecimal() or len(match[0]) > 15 else int(
            match[0]
        ), match.end()
    if (match := _WORD.match(text, at)) and match[0] in _WORDS:
        return _WORDS[match[0]], match.end()
    raise NotJSONError(max(at, 0))


def _item(text: str, at: int, depth: int, items: list[JSON]) -> int:
    value, end = _read(text, at, depth + 1)
    items.append(value)
    return end


def _fields(text: str, at: int, depth: int) -> tuple[JSON, int]:
    pairs: list[tuple[str, JSON]] = []

    def member(here: int) -> int:
        match = _STRING.match(text, here) or _WORD.match(text, here)
        if match is None:
            raise NotJSONError(here)
        key = match[0] if match.re is _WORD else _string(match)
        colon = _gap(text, match.end())
        if text[colon : colon + 1] != ":":
            raise NotJSONError(colon)
        value, end = _read(text, _gap(text, colon + 1), depth + 1)
        pairs.append((key, value))
        return end

    end = _members(text, at, "}", member)
    try:
        return _unique(pairs), end
    except ValueError as error:
        raise NotJSONError(end) from error


def _members(text: str, at: int, closing: str, member: Callable[[int], int]) -> int:
    here = _gap(text, at + 1)
    while text[here : here + 1] != closing:
        here = _gap(text, member(here))
        if text[here : here + 1] == ",":
            here = _gap(text, here + 1)
        elif text[here : here + 1] != closing:
            raise NotJSONError(here)
    return here + 1


def _gap(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at


def _string(match: re.Match[str]) -> str:
    body = match[0][1:-1].replace("\\'", "'")
    if match[0][0] != '"':
        body = re.sub(r'(?<!\\)"', r"\"", body)
    try:
        return str(json.loads(f'"{body}"', strict=False))
    except ValueError as error:
        raise NotJSONError(match.start()) from error
