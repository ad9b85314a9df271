"""Placeholders such as ``{topic}`` in the description of a task, and in its notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACE: Final = re.compile(r"\{\{(?P<literal>\w+)\}\}|\{(?P<name>\w+)\}")


def fill(text: str, inputs: Mapping[str, object] | None) -> str:
    """Return the text with ``{name}`` replaced by that input, and ``{{name}}`` by ``{name}``.

    A name without an input stays. Without any inputs the text stays as it is.
    """
    if not inputs:
        return text

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"{{{match['literal']}}}"
        return str(inputs.get(match["name"], match[0]))

    return _PLACE.sub(value, text)


def missing_names(text: str, inputs: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names in braces that there is no input for."""
    names = {match["name"] for match in _PLACE.finditer(text)} - {None}
    return tuple(sorted(names - inputs.keys()))
