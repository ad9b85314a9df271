"""Metadata filters as SQL, with the meaning that :mod:`vectorstores.filters` gives them.

Metadata is stored in ``facts jsonb``; values of declared keys also have columns of their own, with an index. Keys and
values are bound as parameters and never become part of a statement's text. No expression made here is ever NULL, since
with SQL's third truth value ``$not`` would lose the rows where a key is missing.

``jsonb`` numbers are exact decimals, Python's floats are binary. A whole float is written with all its digits, since
Python compares it with integers by its exact value. Any other float is written as its shortest decimal, which keeps
the order among floats and between floats and integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from vectorstores.base import InvalidFilterError
from vectorstores.filters import And, Exists, Not, OneOf, Or, Ordered

if TYPE_CHECKING:
    from vectorstores.base import JSON
    from vectorstores.filters import Node, Order

Compiled: TypeAlias = tuple[str, list[str | list[str]]]

_ORDERS: Final[Mapping[Order, str]] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_MAX_PARAMETERS: Final = 30_000  # the protocol ends at 65,535; the statement around the filter has its own
# Stands in a column for a value that is in ``facts`` only. Earlier versions added a digest of the value.
_ELSEWHERE_KEY: Final = "$sha256"
_ELSEWHERE: Final = f'{{"{_ELSEWHERE_KEY}":""}}'
# A b-tree refuses rows of 2,704 bytes and more, and a short text may be six times as long in jsonb.
_MAX_INDEXED: Final = 256


@dataclass(frozen=True, slots=True)
class Where:
    """A condition over a row of ``chunks``, with ``%b`` for each of its parameters."""

    sql: bytes
    parameters: tuple[str | list[str], ...] = ()


EVERYTHING: Final = Where(b"true")


def compile_filter(node: Node | None, columns: Mapping[str, str]) -> Where:
    """Return a filter as a condition; None admits everything. ``columns`` maps declared keys to their columns.

    A b-tree index can serve ``$eq`` and ``$in`` on such a column. Raises
    :class:`~vectorstores.InvalidFilterError` for a filter with too many values for one statement.
    """
    if node is None:
        return EVERYTHING
    expression, parameters = _compile(node, columns)
    if len(parameters) > _MAX_PARAMETERS:
        raise InvalidFilterError(
            f"the filter has {len(parameters):,} conditions; a statement takes {_MAX_PARAMETERS:,} ($in is one)"
        )
    return Where(expression.encode(), tuple(parameters))


def _compile(node: Node, columns: Mapping[str, str]) -> Compiled:
    match node:
        case And(parts) | Or(parts):
            operator, empty = (" AND ", "true") if isinstance(node, And) else (" OR ", "false")
            compiled = [_compile(part, columns) for part in parts]
            joined = operator.join([expression for expression, _ in compiled]) or empty
            return f"({joined})", [each for _, parameters in compiled for each in parameters]
        case Not(part):
            expression, parameters = _compile(part, columns)
            return f"(NOT {expression})", parameters
        case OneOf():
            return _one_of(node, columns.get(node.key))
        case Ordered():
            return _ordered(node, columns.get(node.key))
        case Exists():
            column = columns.get(node.key)
            if "\0" in node.key:
                return "false", []
            return ("(facts ? %b::text)", [node.key]) if column is None else (f"({column} IS NOT NULL)", [])


def _one_of(node: OneOf, column: str | None) -> Compiled:
    # No stored value contains a NUL, so a value with one equals none of them.
    values = [value for value in node.values if not holds_nul(value)]
    forms = [value_json(value) for value in values]
    if not forms or "\0" in node.key:
        return "false", []
    wanted, equal = (forms[0], "= %b::jsonb") if len(forms) == 1 else (forms, "= ANY(%b::jsonb[])")
    if column is None or _ELSEWHERE in map(column_json, values):
        return f"coalesce(facts -> %b::text {equal}, false)", [node.key, wanted]
    # Without coalesce, so that the index of the column can be used.
    return f"({column} IS NOT NULL AND {column} {equal})", [wanted]


def _ordered(node: Ordered, column: str | None) -> Compiled:
    if "\0" in node.key:
        return "false", []
    facts = "(facts -> %b::text)"
    if not isinstance(node.bound, str):
        value, key = (facts, [node.key]) if column is None else (column, [])
        # Among jsonb numbers jsonb's order is the order of numbers.
        holds = f"{value} {_ORDERS[node.order]} %b::jsonb"
        expression = f"CASE jsonb_typeof({value}) WHEN 'number' THEN {holds} ELSE false END"
        return expression, [*key, *key, value_json(node.bound)]
    order, (bound, nul, _) = node.order, node.bound.partition("\0")
    if nul:
        # No stored string contains a NUL, so a string that is not above the text before the NUL is below the bound.
        order = "$gt" if order in {"$gt", "$gte"} else "$lte"
    # jsonb would order strings by the collation of the database; in UTF-8, "C" is the order of code points.
    holds = f"({facts} #>> '{{}}') COLLATE \"C\" {_ORDERS[order]} %b::text"
    # Not by the column, which lacks the long ones.
    expression = f"CASE jsonb_typeof({facts}) WHEN 'string' THEN {holds} ELSE false END"
    return expression, [node.key, node.key, bound]


def value_json(value: JSON) -> str:
    """Return the normalised JSON text of a value; for a filter, two values are equal if their jsonb is equal."""
    return json.dumps(_normal(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def column_json(value: JSON) -> str:
    """Return the JSON text of a value for the column of a declared key.

    A value that is too long for an index is in ``facts`` only, where filters by such a value and by the order of
    strings read it. So is an object that looks like what stands in its place.
    """
    text = value_json(value)
    # Even a number of 309 digits is short in jsonb, and order comparisons read numbers from this column.
    fits = isinstance(value, int | float) or len(text.encode()) <= _MAX_INDEXED
    return text if fits and not (isinstance(value, Mapping) and _ELSEWHERE_KEY in value) else _ELSEWHERE


def _normal(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _normal(part) for key, part in value.items()}
    return [_normal(part) for part in value]


def holds_nul(value: object) -> bool:
    """Whether the character NUL is in one of the texts of a JSON value."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(map(holds_nul, value.keys())) or any(map(holds_nul, value.values()))
    return isinstance(value, Sequence) and any(map(holds_nul, value))
