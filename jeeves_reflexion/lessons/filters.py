"""Filters on lessons, with ``tool`` in them.

A lesson may be on several tools, and the filter language of the stores compares a list only as a whole. So a lesson
lies in the store with a key for each of its tools, and a filter on ``tool`` becomes one on those keys. Lessons that
were written before that have the list alone: the store is asked for them too, and what it finds is read again here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.types import JSON
from vectorstores.base import Filter
from vectorstores.filters import Node, parse

TOOL: Final = "tool"
_MARKED: Final = "tooled"
_NEVER: Final[Filter] = {"$or": []}
_OLD: Final[Filter] = {"$and": [{_MARKED: {"$exists": False}}, {"tools": {"$ne": []}}]}


def tool_marks(tools: Iterable[str]) -> dict[str, JSON]:
    """Return the metadata by which a lesson is found by its tools, in small letters or capitals; none without tools."""
    marks: dict[str, JSON] = {_mark(tool): True for tool in tools}
    return {_MARKED: True, **marks} if marks else {}


@dataclass(frozen=True, slots=True)
class LessonFilter:
    """What a recall is narrowed by: what the store is asked, and what lessons without keys for tools must fulfil."""

    asked: Filter | None = None
    exact: Node | None = None

    def admits(self, metadata: Mapping[str, JSON]) -> bool:
        """Whether the filter holds for a lesson that the store found."""
        if self.exact is None or _MARKED in metadata:
            return True
        tools = cast("Sequence[str]", metadata.get("tools", ()))
        return self.exact.matches({**metadata, **tool_marks(tools)})

    def within(self, other: Filter) -> LessonFilter:
        """Return this filter and another, which says nothing of tools, at once."""
        return LessonFilter(both(other, self.asked), self.exact)


def lesson_filter(where: Filter | None) -> LessonFilter:
    """Read a filter on lessons: in the language of the stores, with ``tool`` for any one of a lesson's tools.

    ``{"tool": "search"}``, a list for any one of its names, ``$eq``, ``$ne``, ``$in``, ``$nin`` and ``$exists`` are
    understood, wherever they stand. Names are compared without regard to capitals.
    Raises :class:`ConfigurationError` for another operator on ``tool``; what else is wrong the store will say.
    """
    if where is None or not _names_tool(where):
        return LessonFilter(where)
    return LessonFilter(_translated(where, admit_old=True), parse(_translated(where, admit_old=None)))


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return a filter that holds where both do."""
    if one is None or other is None:
        return one or other
    return {"$and": [one, other]}


def _mark(tool: str) -> str:
    return f"tool:{tool.casefold()}"


def _names_tool(where: object) -> bool:
    if isinstance(where, Mapping):
        return TOOL in where or any(
            _names_tool(where[key]) for key in ("$and", "$or", "$not") if key in where
        )
    return isinstance(where, list | tuple) and any(map(_names_tool, where))


def _translated(where: Filter, *, admit_old: bool | None) -> Filter:
    """The filter on the keys of tools.

    A lesson without them is admitted by each part on a tool, or by none, so that the whole admits it: under ``$not``
    it is the other way round. None says that all have them.
    """
    other_way = None if admit_old is None else not admit_old
    parts: list[Filter] = []
    for key, value in where.items():
        if key == TOOL:
            parts.append(_on_tool(value, admit_old))
        elif key == "$not" and isinstance(value, Mapping):
            parts.append({"$not": _translated(value, admit_old=other_way)})
        elif key in ("$and", "$or") and isinstance(value, list | tuple):
            inner = [
                _translated(each, admit_old=admit_old) if isinstance(each, Mapping) else each
                for each in value
            ]
            parts.append({key: cast("JSON", inner)})
        else:
            parts.append({key: value})
    return parts[0] if len(parts) == 1 else {"$and": cast("JSON", parts)}


def _on_tool(condition: JSON, admit_old: bool | None) -> Filter:  # noqa: FBT001 - see above
    if not isinstance(condition, Mapping):
        return _has(condition if isinstance(condition, list | tuple) else [condition], admit_old)
    if not condition:
        return {TOOL: condition}
    other_way = None if admit_old is None else not admit_old
    parts: list[Filter] = []
    for name, operand in condition.items():
        values = operand if isinstance(operand, list | tuple) else [operand]
        match name:
            case "$eq" | "$in":
                parts.append(_has(values, admit_old))
            case "$ne" | "$nin":
                parts.append({"$not": _has(values, other_way)})
            case "$exists" if isinstance(operand, bool):
                parts.append({"tools": {"$ne" if operand else "$eq": []}})
            case _:
                raise ConfigurationError(
                    f"tool can be filtered by a name, $eq, $ne, $in, $nin and $exists, not by {name} {operand!r}"
                )
    return {"$and": cast("JSON", parts)}


def _has(tools: Iterable[JSON], admit_old: bool | None) -> Filter:  # noqa: FBT001
    any_of: list[Filter] = [{_mark(tool): True} for tool in tools if isinstance(tool, str)]
    if not any_of:
        return _NEVER
    if admit_old:
        any_of.append(_OLD)
    return any_of[0] if len(any_of) == 1 else {"$or": cast("JSON", any_of)}
