"""The metadata-filter language: parsed once into a small tree, then evaluated here or compiled by a store.

A filter is a mapping. Its keys are metadata keys, taken literally (a dot is not a path), or ``$and``, ``$or``,
``$not``. Several keys must all hold, and an empty filter admits everything::

    {"kind": "lesson", "score": {"$gte": 0.5, "$lt": 1}, "$or": [{"tool": "search"}, {"tool": {"$exists":
    False}}]}

==============================  ============================================================================
``key: value``                  the same as ``{"$eq": value}``; an object must be written with ``$eq``
``{"$eq": v}``, ``{"$ne": v}``  equal, and its negation
``{"$in": [...]}``, ``$nin``    equal to one of the values, and its negation; an empty ``$in`` admits nothing
``$gt $gte $lt $lte``           order, of numbers among numbers and of strings among strings (by code point)
``{"$exists": true}``           the key exists, even with the value null
``{"$and": [...]}``, ``$or``    all, any of the filters; an empty ``$and`` holds, an empty ``$or`` does not
``{"$not": {...}}``             the filter does not hold
==============================  ============================================================================

Comparisons respect types: ``true`` is not 1, ``"1"`` is not 1, while ``1`` and ``1.0`` are one number.
Lists and objects are equal when their parts are. A missing key is not null: ``{"$eq": None}`` needs a null
value. ``$ne`` and ``$nin`` are plain negations, so they admit a missing key; every order comparison
refuses one, as it refuses a value of another type.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from vectorstores._json import check_json, check_text
from vectorstores.base import JSON, Filter, InvalidFilterError

Order: TypeAlias = Literal["$gt", "$gte", "$lt", "$lte"]

MAX_DEPTH: Final = 32
_ORDERS: Final[Mapping[Order, Callable[[float | str, float | str], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class Missing:
    """The type of :data:`MISSING`, which stands for the value of a key that does not exist."""

    __slots__ = ()


MISSING: Final = Missing()


def canonical(value: JSON | Missing) -> Hashable:
    """Return a hashable form of a JSON value. A filter takes two values as equal if their forms are."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        return ("number", value)
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, Mapping):
        return ("object", frozenset((key, canonical(part)) for key, part in value.items()))
    if isinstance(value, Sequence):
        return ("list", tuple(canonical(part) for part in value))
    return ("missing",) if isinstance(value, Missing) else ("null",)


@dataclass(frozen=True, slots=True)
class Leaf(ABC):
    """A condition on the value of one key."""

    key: str

    @abstractmethod
    def admits(self, value: JSON | Missing) -> bool:
        """Decide about one value of the key, or about its absence."""

    def matches(self, metadata: Mapping[str, JSON]) -> bool:
        """Decide about the metadata of a chunk."""
        return self.admits(metadata.get(self.key, MISSING))


@dataclass(frozen=True, slots=True)
class OneOf(Leaf):
    """The value of ``key`` is one of ``values``."""

    values: tuple[JSON, ...]
    forms: frozenset[Hashable] = field(init=False, repr=False, compare=False)
    """The canonical forms of ``values``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", frozenset(canonical(value) for value in self.values))

    def admits(self, value: JSON | Missing) -> bool:
        """Decide about one value of the key, or about its absence."""
        return canonical(value) in self.forms


@dataclass(frozen=True, slots=True)
class Ordered(Leaf):
    """The value of ``key`` has the type of ``bound`` and compares to it in this order."""

    order: Order
    bound: float | str

    def admits(self, value: JSON | Missing) -> bool:
        """Decide about one value of the key, or about its absence."""
        if isinstance(self.bound, str):
            return isinstance(value, str) and _ORDERS[self.order](value, self.bound)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return _ORDERS[self.order](value, self.bound)


@dataclass(frozen=True, slots=True)
class Exists(Leaf):
    """``key`` exists, with any value."""

    def admits(self, value: JSON | Missing) -> bool:
        """Decide about one value of the key, or about its absence."""
        return value is not MISSING


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold. True without parts."""

    parts: tuple[Node, ...]

    def matches(self, metadata: Mapping[str, JSON]) -> bool:
        """Decide about the metadata of a chunk."""
        return all(part.matches(metadata) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds. False without parts."""

    parts: tuple[Node, ...]

    def matches(self, metadata: Mapping[str, JSON]) -> bool:
        """Decide about the metadata of a chunk."""
        return any(part.matches(metadata) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Node

    def matches(self, metadata: Mapping[str, JSON]) -> bool:
        """Decide about the metadata of a chunk."""
        return not self.part.matches(metadata)


Node: TypeAlias = OneOf | Ordered | Exists | And | Or | Not


def parse(filter: Filter) -> Node:
    """Parse a filter into its tree.

    Raises :class:`~vectorstores.InvalidFilterError`, which names the place, such as ``filter.$or[1].score.$gt``.
    """
    return _parse_filter(filter, "filter", 0)


def _parse_filter(filter: object, path: str, depth: int) -> Node:
    if not isinstance(filter, Mapping):
        raise InvalidFilterError(f"{path}: expected a mapping, got {type(filter).__name__}")
    if depth > MAX_DEPTH:
        raise InvalidFilterError(f"{path}: nested more than {MAX_DEPTH} deep")
    parts: list[Node] = []
    for key, condition in filter.items():
        if not isinstance(key, str):
            raise InvalidFilterError(f"{path}: a key must be a string, got {key!r}")
        place = f"{path}.{key}"
        if key == "$not":
            parts.append(Not(_parse_filter(condition, place, depth + 1)))
        elif key in {"$and", "$or"}:
            children = tuple(
                _parse_filter(child, f"{place}[{index}]", depth + 1)
                for index, child in enumerate(_list(condition, place))
            )
            parts.append(And(children) if key == "$and" else Or(children))
        elif key.startswith("$"):
            raise InvalidFilterError(
                f"{place}: unknown operator here; expected $and, $or, $not or a metadata key"
            )
        else:
            check_text(key, place, InvalidFilterError)
            if not isinstance(condition, Mapping):
                parts.append(OneOf(key, (check_json(condition, place, InvalidFilterError),)))
            elif condition:
                parts += [
                    _parse_operator(key, name, each, f"{place}.{name}") for name, each in condition.items()
                ]
            else:
                raise InvalidFilterError(
                    f"{place}: an empty object; write {{'$eq': {{}}}} to compare with one"
                )
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parse_operator(key: str, name: object, operand: object, path: str) -> Node:
    match name:
        case "$ne" | "$nin":
            return Not(_parse_operator(key, "$eq" if name == "$ne" else "$in", operand, path))
        case "$eq":
            return OneOf(key, (check_json(operand, path, InvalidFilterError),))
        case "$in":
            values = tuple(
                check_json(value, f"{path}[{i}]", InvalidFilterError)
                for i, value in enumerate(_list(operand, path))
            )
            return OneOf(key, values)
        case "$gt" | "$gte" | "$lt" | "$lte":
            bound = check_json(operand, path, InvalidFilterError)
            if isinstance(bound, bool) or not isinstance(bound, int | float | str):
                raise InvalidFilterError(f"{path}: only numbers and strings have an order, got {operand!r}")
            return Ordered(key, name, bound)
        case "$exists":
            if not isinstance(operand, bool):
                raise InvalidFilterError(f"{path}: expected true or false, got {operand!r}")
            return Exists(key) if operand else Not(Exists(key))
        case _:
            raise InvalidFilterError(
                f"{path}: unknown operator; expected $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin or $exists"
                " (an object to compare with is written {'$eq': {...}})"
            )


def _list(value: object, path: str) -> list[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidFilterError(f"{path}: expected a list, got {type(value).__name__}")
    return list(value)
