"""Filters on lessons, with ``tool`` in them.

A lesson may be on several tools, and the filter language of the stores compares a list only as a whole. So a lesson
lies in the store with a key for each of its tools, and a filter on ``tool`` becomes one on those keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from vectorstores.base import Filter

TOOL: Final = "tool"


def tool_marks(tools: Iterable[str]) -> dict[str, JSON]:
    """Return the metadata by which a lesson is found by its tools, in small letters or capitals."""
    return {_mark(tool): True for tool in tools}


def lesson_filter(where: Filter | None) -> Filter | None:
    """Return a filter in the language of the stores for one with ``tool`` for any one of a lesson's tools.

    ``{"tool": "search"}``, a list for any one of its names, and ``$in`` are understood, wherever they stand. Names are
    compared without regard to capitals.
    Raises :class:`ConfigurationError` for another operator on ``tool``; what else is wrong the store will say.
    """
    return None if where is None else cast("Filter", _translated(where))


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return a filter that holds where both do."""
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
