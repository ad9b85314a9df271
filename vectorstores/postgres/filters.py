"""Metadata filters as SQL, with the meaning that :mod:`vectorstores.filters` gives them.

Metadata is stored in ``facts jsonb``; values of declared keys also have columns of their own, with an index. Keys and
values are bound as parameters and never become part of a statement's text. No expression made here is ever NULL, since
with SQL's third truth value ``$not`` would lose the rows where a key is missing.

``jsonb`` numbers are exact decimals, Python's floats are binary. A whole float is written with all its digits, since
Python compares it with integers by its exact value. Any other float is written as its shortest decimal, which keeps
the order among floats and between floats and integers.
"""

from __future__ import annotations

import hashlib
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
_DIGEST_KEY: Final = "$sha256"
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
    if column is None:
        forms = [value_json(value) for value in values]
    else:
        # A column holds a value or its digest. An object that looks like a digest is itself never stored there.
        plain = [
            value_json(value) for value in values if not (isinstance(value, Mapping) and _DIGEST_KEY in value)
        ]
        forms = list(dict.fromkeys([*map(column_json, values), *plain]))
    if not forms or "\0" in node.key:
        return "false", []
    wanted, equal = (forms[0], "= %b::jsonb") if len(forms) == 1 else (forms, "= ANY(%b::jsonb[])")
    if column is None:
        return f"coalesce(facts -> %b::text {equal}, false)", [node.key, wanted]
    # Without coalesce, so that the index of the column can be used.
    return f"({column} IS NOT NULL AND {column} {equal})", [wanted]


def _ordered(node: Ordered, column: str | None) -> Compiled:
    if "\0" in node.key:
        return "false", []
    facts = "(facts -> %b::text)"
    value, key = (facts, [node.key]) if column is None else (column, [])
    if not isinstance(node.bound, str):
        # Among jsonb numbers jsonb's order is the order of numbers.
        holds = f"{value} {_ORDERS[node.order]} %b::jsonb"
        expression = f"CASE jsonb_typeof({value}) WHEN 'number' THEN {holds} ELSE false END"
        return expression, [*key, *key, value_json(node.bound)]
    order, (bound, nul, _) = node.order, node.bound.partition("\0")
    if nul:
        # No stored string contains a NUL, so a string that is not above the text before the NUL is below the bound.
        order = "$gt" if order in {"$gt", "$gte"} else "$lte"
    # jsonb would order strings by the collation of the database; in UTF-8, "C" is the order of code points.
    compare = f"({{}} #>> '{{{{}}}}') COLLATE \"C\" {_ORDERS[order]} %b::text"
    expression = f"CASE jsonb_typeof({value}) WHEN 'string' THEN {compare.format(value)}"
    if column is None:
        return f"{expression} ELSE false END", [*key, *key, bound]
    long = f"{column} ? '{_DIGEST_KEY}' AND jsonb_typeof({facts}) = 'string' AND {compare.format(facts)}"
    return f"{expression} WHEN 'object' THEN {long} ELSE false END", [bound, node.key, node.key, bound]


def value_json(value: JSON) -> str:
    """Return the normalised JSON text of a value; for a filter, two values are equal if their jsonb is equal."""
    return json.dumps(_normal(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def column_json(value: JSON) -> str:
    """Return the JSON text of a value for the column of a declared key.

    A value that is too long for an index is replaced by an object with its digest; equal values have equal digests, and
    an order comparison reads the value itself from ``facts``. An object that looks like such a replacement is replaced
    too, so that nobody can forge one.
    """
    text = value_json(value)
    # Even a number of 309 digits is short in jsonb, and order comparisons read numbers from this column.
    fits = isinstance(value, int | float) or len(text.encode()) <= _MAX_INDEXED
    if fits and not (isinstance(value, Mapping) and _DIGEST_KEY in value):
        return text
    canonical = json.dumps(_normal(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return json.dumps({_DIGEST_KEY: hashlib.sha256(canonical.encode()).hexdigest()})


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
