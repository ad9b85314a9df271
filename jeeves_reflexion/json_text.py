"""Finds JSON in what a model wrote: bare, fenced, or with prose around it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from jeeves_reflexion.types import JSON

_DECODER: Final = json.JSONDecoder()
_MOST_TRIES: Final = 500  # each costs time in proportion to the text
_FENCE: Final = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_START: Final = re.compile(r"(?:\A|```[\w+-]*)\s*(?=[{\[])")
_END: Final = re.compile(r"\s*(?:```|\Z)")


def find_json(text: str) -> JSON:
    """Return the JSON object or array that a text is, or a fenced part of it; else the first object in it, or None.

    A bracket within prose is no array: ``[1]`` there is a reference.
    """
    for match in itertools.islice(_START.finditer(text), _MOST_TRIES):
        try:
            value, end = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if _END.match(text, end):
            found: JSON = value
            return found
    return find_json_object(text)


def find_json_object(text: str) -> Mapping[str, JSON] | None:
    """Return the first of :func:`find_json_objects`, or None."""
    return next(find_json_objects(text), None)


def find_json_objects(text: str) -> Iterator[Mapping[str, JSON]]:
    """Yield the JSON objects in a text, those in fences first, each before the ones within it.

    They are looked for at 500 braces at most. What is fenced is met once more with all the text.
    """
    if "{" not in text:
        return
    candidates = [*_FENCE.findall(text), text]
    starts = ((candidate, m.start()) for candidate in candidates for m in re.finditer(r"\{", candidate))
    for candidate, start in itertools.islice(starts, _MOST_TRIES):
        try:
            value, _ = _DECODER.raw_decode(candidate, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
