"""The values of a workflow's state: plain JSON, which is checked on the way in and copied on the way out."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from jeeves_reflexion.text import cut_middle
from jeeves_reflexion.types import JSON

State: TypeAlias = Mapping[str, JSON]

MAX_DEPTH: Final = 100
MAX_BITS: Final = 4_000
"""The most bits of an integer: some 1,200 digits, of the 4,300 that Python can write."""


class NoJSONError(ValueError):
    """A value can't be written as JSON; the message says why."""


def plain(value: object, depth: int = 0) -> JSON:
    """Return a copy of a value as lists, dicts with text keys, and scalars. Raises :class:`NoJSONError`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise NoJSONError("a number has more than 1,200 digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NoJSONError(f"JSON has no number {value}")
        return float(value)
    if depth >= MAX_DEPTH:
        raise NoJSONError(f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {_text(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(item, depth + 1) for item in value]
    raise NoJSONError(f"a {type(value).__name__} can't be written as JSON")


def produced(value: object) -> JSON:
    """Return an output as plain JSON, shallow enough to become a part of the state."""
    return plain(value, MAX_DEPTH // 5)


def _text(value: object) -> str:
    """Return a text, or the key of a mapping, unchanged. Raises :class:`NoJSONError`."""
    if not isinstance(value, str):
        raise NoJSONError(f"the key {value!r} is not a text")
    if whole_text(value) != value:
        raise NoJSONError("a text holds half of a surrogate pair")
    return value


def whole_text(text: str) -> str:
    """Return a text with halves of surrogate pairs replaced, which neither files nor pipes can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def as_text(value: object) -> str:
    """Return a value as a template shows it: lists and objects as JSON, everything else by ``str``."""
    return (
        str(value) if not isinstance(value, Mapping | list | tuple) else json.dumps(value, ensure_ascii=False)
    )


def text_of(value: JSON) -> str:
    """Return an output as text for the drafts and events of the inner loop."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown(value: object) -> str:
    """Return a value as an error message quotes it, shortened."""
    return cut_middle(repr(value), 40).replace("\n", " ")


def strings(value: JSON) -> Iterator[str]:
    """Yield every text in a value, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from strings(item)


def near(name: object, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return ``: did you mean ...?`` if a known name is similar, else ``otherwise``."""
    similar = difflib.get_close_matches(str(name), list(known), 1)
    return f": did you mean {similar[0]!r}?" if similar else otherwise
