"""Reads JSON as language models write it: also as a Python dict, with comments, trailing commas or curly quotes."""

from __future__ import annotations

import functools
import json
import re
from typing import Final

from jeeves_reflexion.types import JSON

_DEPTH: Final = 60
_TOKEN: Final = re.compile(
    r"(?P<gap>\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)|(?P<mark>[{}\[\],:])"
    r'|(?P<text>"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[\u201c\u201d](?:[^\u201c\u201d\\]|\\.)*\u201d)'
    r"|(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))|(?P<word>[^\W\d]\w*)",
    re.DOTALL,
)
_BARE_QUOTE: Final = re.compile(r'(?<!\\)"')
_WORDS: Final = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null",
                 "NaN": "NaN"}  # fmt: skip


class NotJSONError(ValueError):
    """A text holds no JSON at a position; ``position`` is where to search next."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no JSON at {position}")
        self.position = position


def read_value(text: str, start: int) -> tuple[JSON, int]:
    """Return the object or array that begins at ``start``, and where it ends.

    Raises :class:`NotJSONError` for any other text, and for an object with two different values for one key.
    """
    try:
        found: tuple[JSON, int] = _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        written, end = _strictly_written(text, start)
        try:
            return _STRICT.decode(written), end
        except (ValueError, RecursionError) as error:
            raise NotJSONError(start) from error
    return found


def json_or_none(text: str) -> JSON:
    """Return the value of a text that is JSON as the standard has it; None for any other text."""
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):  # a model that repeats "[" nests deeper than Python reads
        return None
    return value


def same(one: JSON, other: JSON) -> bool:
    """Whether two values are equal as JSON: ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    # A float would lose digits of a longer number, such as an id.
    read = functools.partial(
        json.loads, parse_int=lambda text: float(text) if abs(int(text)) < 2**53 else int(text)
    )
    one, other = (read(json.dumps(value)) for value in (one, other))
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for key, value in pairs:
        if key in fields and not same(fields[key], value):
            raise ValueError(f"two values for {key!r}")
        fields[key] = value
    return fields


# JSON forbids line breaks within strings, but models often write them.
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, strict=False)


def _strictly_written(text: str, start: int) -> tuple[str, int]:
    """Return the value that begins at ``start``, rewritten as strict JSON, and where it ends."""
    written: list[str] = []
    at, depth = start, 0
    while token := _TOKEN.match(text, at):
        at = token.end()
        match token.lastgroup:
            case "gap":
                continue
            case "mark":
                if token[0] in "]}" and written[-1:] == [","]:
                    written.pop()
                written.append(token[0])
                depth += (token[0] in "[{") - (token[0] in "]}")
            case "text":
                body = token[0][1:-1].replace("\\'", "'")
                written.append(
                    f'"{body}"' if token[0][0] == '"' else '"' + _BARE_QUOTE.sub(r"\"", body) + '"'
                )
            case "number":
                whole = token[0].isdecimal() and len(token[0]) <= 15
                written.append(json.dumps(int(token[0]) if whole else float(token[0])))
            case _:
                key = text[at : at + 20].lstrip().startswith(":")
                if token[0] not in _WORDS and not key:
                    raise NotJSONError(start)
                written.append(json.dumps(token[0]) if key else _WORDS[token[0]])
        if depth == 0:
            return "".join(written), at
        if depth > _DEPTH:
            raise NotJSONError(len(text))
    raise NotJSONError(start)
