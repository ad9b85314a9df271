"""Filters on lessons, with ``tool`` as a field.

A lesson may have several tools, but the stores' filters compare a list only as a whole. So a stored lesson has one
metadata key for each of its tools, and a filter on ``tool`` is translated to these keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from vectorstores.base import Filter

TOOL: Final = "tool"


def tool_marks(tools: Iterable[str]) -> dict[str, JSON]:
    """Return the metadata by which a lesson is found by its tools, whatever their case."""
    return {f"tool:{tool.casefold()}": True for tool in tools}


def lesson_filter(where: Filter | None) -> Filter | None:
    """Translate a filter with ``tool``, which matches any of a lesson's tools, to a filter of the stores.

    At any depth, ``tool`` takes a name, a list (any of its names) or ``$in``. Case does not matter.
    Raises :class:`ConfigurationError` for another operator on ``tool``; the store reports other mistakes.
    """
    if not isinstance(where, Mapping):
        return where
    parts: list[JSON] = []
    for key, value in where.items():
        part: JSON = {key: value}
        if key == TOOL:
            named = value
            if isinstance(value, Mapping):
                if list(value) != ["$in"]:
                    raise ConfigurationError(
                        "tool can be filtered by a name, a list of names or $in (and $not around it), not by "
                        f"{value!r}"
                    )
                named = value["$in"]
            names = named if isinstance(named, list | tuple) else [named]
            part = {"$or": [tool_marks([tool]) for tool in names if isinstance(tool, str)]}
        elif key == "$not":
            part = {key: lesson_filter(cast("Filter", value))}
        elif key in ("$and", "$or") and isinstance(value, list | tuple):
            part = {key: [lesson_filter(cast("Filter", each)) for each in value]}
        parts.append(part)
    return cast("Filter", parts[0] if len(parts) == 1 else {"$and": parts})


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return a filter for what both filters admit."""
    if one is None or other is None:
        return one or other
    return {"$and": [one, other]}
