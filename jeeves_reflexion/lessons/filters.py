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
    return {_mark(tool): True for tool in tools}


def lesson_filter(where: Filter | None) -> Filter | None:
    """Translate a filter with ``tool``, which matches any of a lesson's tools, to a filter of the stores.

    At any depth, ``tool`` takes a name, a list (any of its names) or ``$in``. Case does not matter.
    Raises :class:`ConfigurationError` for another operator on ``tool``; the store reports other mistakes.
    """
    return None if where is None else cast("Filter", _translated(where))


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return a filter for what both filters admit."""
    if one is None or other is None:
        return one or other
    return {"$and": [one, other]}


def _mark(tool: str) -> str:
    return f"tool:{tool.casefold()}"


def _translated(where: JSON) -> JSON:
    if not isinstance(where, Mapping):
        return where
    parts: list[JSON] = []
    for key, value in where.items():
        if key == TOOL:
            parts.append(_on_tool(value))
        elif key == "$not":
            parts.append({key: _translated(value)})
        elif key in ("$and", "$or") and isinstance(value, list | tuple):
            parts.append({key: [_translated(each) for each in value]})
        else:
            parts.append({key: value})
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _on_tool(named: JSON) -> JSON:
    if isinstance(named, Mapping):
        if list(named) != ["$in"]:
            raise ConfigurationError(
                f"tool can be filtered by a name, a list of names or $in (and $not around it), not by {named!r}"
            )
        named = named["$in"]
    names = named if isinstance(named, list | tuple) else [named]
    return {"$or": [{_mark(tool): True} for tool in names if isinstance(tool, str)]}
