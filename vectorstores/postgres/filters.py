"""Metadata filters as SQL, with the meaning that :mod:`vectorstores.filters` gives them.

Keys and values are bound as parameters and never become text of a statement. No expression made here is ever
NULL: SQL's third truth value would let ``$not`` lose the rows where a key is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from psycopg import sql

from vectorstores.base import InvalidFilterError
from vectorstores.filters import And, Exists, Not, OneOf, Or, Ordered
from vectorstores.postgres.facts import DIGEST_KEY, column_forms, has_nul, value_json

if TYPE_CHECKING:
    from vectorstores.filters import Node, Order

Compiled: TypeAlias = tuple[sql.Composable, list[object]]

_TRUE: Final = sql.SQL("TRUE")
_FALSE: Final = sql.SQL("FALSE")
_ORDERS: Final[Mapping[Order, sql.SQL]] = {
    "$gt": sql.SQL(">"),
    "$gte": sql.SQL(">="),
    "$lt": sql.SQL("<"),
    "$lte": sql.SQL("<="),
}
_MAX_PARAMETERS: Final = 30_000  # the protocol ends at 65,535; the statement around the filter has its own


def compile_filter(node: Node, columns: Mapping[str, str]) -> Compiled:
    """Return a filter as a boolean expression with its positional parameters (``%s``).

    It reads the column ``facts jsonb`` (see :func:`~vectorstores.postgres.facts.facts_json`) and, for the keys in
    ``columns``, the jsonb column of that name (see :func:`~vectorstores.postgres.facts.column_json`; NULL stands for
    a missing key). ``$eq`` and ``$in`` on such a column are of a form that a b-tree index serves.

    Raises :class:`~vectorstores.InvalidFilterError` for a filter with too many values for one statement.
    """
    expression, parameters = _compile(node, columns)
    if len(parameters) > _MAX_PARAMETERS:
        raise InvalidFilterError(
            f"the filter has {len(parameters):,} conditions; a statement takes {_MAX_PARAMETERS:,} ($in is one)"
        )
    return expression, parameters


def _compile(node: Node, columns: Mapping[str, str]) -> Compiled:
    match node:
        case And(parts):
            return _join([_compile(part, columns) for part in parts], " AND ", _TRUE)
        case Or(parts):
            return _join([_compile(part, columns) for part in parts], " OR ", _FALSE)
        case Not(part):
            expression, parameters = _compile(part, columns)
            return sql.SQL("(NOT {})").format(expression), parameters
        case OneOf():
            return _one_of(node, columns.get(node.key))
        case Ordered():
            return _ordered(node, columns.get(node.key))
        case Exists():
            return _exists(node, columns.get(node.key))


def _join(parts: list[Compiled], operator: str, empty: sql.SQL) -> Compiled:
    if not parts:
        return empty, []
    joined = sql.SQL(operator).join([expression for expression, _ in parts])
    return sql.SQL("({})").format(joined), [each for _, parameters in parts for each in parameters]


def _one_of(node: OneOf, column: str | None) -> Compiled:
    # No stored value has a NUL in it, so such values are equal to none.
    values = [value for value in node.values if not has_nul(value)]
    if column is None:
        forms = [value_json(value) for value in values]
    else:
        forms = [form for value in values for form in column_forms(value)]
    if not forms or "\0" in node.key:
        return (_TRUE if node.negated else _FALSE), []
    wanted: object = forms[0] if len(forms) == 1 else forms
    equal = sql.SQL("= %s::jsonb" if len(forms) == 1 else "= ANY(%s::jsonb[])")
    if column is None:
        positive = sql.SQL("coalesce(facts -> %s::text {}, FALSE)").format(equal)
        return _negate(positive, negated=node.negated), [node.key, wanted]
    # Not coalesce, which would hide the column from its index.
    positive = sql.SQL("({0} IS NOT NULL AND {0} {1})").format(sql.Identifier(column), equal)
    return _negate(positive, negated=node.negated), [wanted]


def _negate(expression: sql.Composed, *, negated: bool) -> sql.Composed:
    return sql.SQL("(NOT {})").format(expression) if negated else expression


def _ordered(node: Ordered, column: str | None) -> Compiled:
    if "\0" in node.key:
        return _FALSE, []
    value, parameters = _value(node.key, column)
    if not isinstance(node.bound, str):
        # Among jsonb numbers jsonb's order is the order of numbers.
        holds = sql.SQL("CASE jsonb_typeof({0}) WHEN 'number' THEN {0} {1} %s::jsonb ELSE FALSE END")
        expression = holds.format(value, _ORDERS[node.order])
        return expression, [*parameters, *parameters, value_json(node.bound)]
    order, (bound, nul, _) = node.order, node.bound.partition("\0")
    if nul:
        # No stored string has a NUL: what begins with the bound's beginning is that beginning, or behind it all.
        order = "$gt" if order in {"$gt", "$gte"} else "$lte"
    return _ordered_string(node.key, column, order, bound)


def _ordered_string(key: str, column: str | None, order: Order, bound: str) -> Compiled:
    # jsonb orders strings by the collation of the database; "C" is the order of code points in UTF-8.
    compare = "({} #>> '{{}}') COLLATE \"C\" {} %s::text"
    value, parameters = _value(key, column)
    short = sql.SQL("CASE jsonb_typeof({}) WHEN 'string' THEN " + compare).format(
        value, value, _ORDERS[order]
    )
    if column is None:
        return short + sql.SQL(" ELSE FALSE END"), [*parameters, *parameters, bound]
    facts, key_parameters = _value(key, None)
    long = sql.SQL(
        " WHEN 'object' THEN {} ? {} AND jsonb_typeof({}) = 'string' AND " + compare + " ELSE FALSE END"
    ).format(value, sql.Literal(DIGEST_KEY), facts, facts, _ORDERS[order])
    return short + long, [*parameters, *parameters, bound, *key_parameters, *key_parameters, bound]


def _exists(node: Exists, column: str | None) -> Compiled:
    if "\0" in node.key:
        return (_FALSE if node.present else _TRUE), []
    if column is not None:
        form = "({} IS NOT NULL)" if node.present else "({} IS NULL)"
        return sql.SQL(form).format(sql.Identifier(column)), []
    return sql.SQL("(facts ? %s::text)" if node.present else "(NOT facts ? %s::text)"), [node.key]


def _value(key: str, column: str | None) -> tuple[sql.Composable, list[object]]:
    """Return the value of a key as an expression; it is NULL where the key is missing."""
    if column is not None:
        return sql.Identifier(column), []
    return sql.SQL("(facts -> %s::text)"), [key]
