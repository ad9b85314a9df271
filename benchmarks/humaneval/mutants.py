"""Programs that are one small change away from a right one: mutants (DeMillo, Lipton and Sayward 1978).

The operators are those of Offutt et al. 1996 (arithmetic, relational, logical) with the constants and deleted
statements of later tools (Deng, Offutt and Li 2013). A mutant may still be right, so the caller must judge it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

from .programs import parsed

Operator: TypeAlias = Literal["arithmetic", "relational", "logical", "constant", "deletion"]

_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

_Change: TypeAlias = tuple[Operator, Callable[[Any], None]]
"""An operator, and a function that changes a copy of the node."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one change."""

    source: str
    operator: Operator


def mutants(source: str) -> list[Mutant]:
    """Return every program that is one change away, each once and always in the same order.

    Only the bodies of functions are changed, and no docstring. Mutants are written by ``ast.unparse``. A source that
    can't be parsed has none.
    """
    tree = parsed(source)
    if tree is None:
        return []
    own, found = ast.unparse(tree), dict[str, Mutant]()
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    bodies = {id(node) for each in functions for part in each.body for node in ast.walk(part)}
    for number, node in enumerate(nodes):
        for operator, change in (
            chain(_replacements(node), _deletions(node)) if id(node) in bodies or node in functions else ()
        ):
            copied = copy.deepcopy(tree)
            change(list(ast.walk(copied))[number])
            text = ast.unparse(copied)
            if text != own and parsed(text) is not None:
                found.setdefault(text, Mutant(text, operator))
    return list(found.values())


def _replacements(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.BinOp() | ast.AugAssign() if isinstance(node.op, _ARITHMETIC):
            yield from (("arithmetic", _set("op", kind())) for kind in _ARITHMETIC)
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                opposite = _OPPOSITES.get(type(operator))
                for kind in (opposite,) if opposite else _ORDERS:
                    yield "relational", _put("ops", at, kind())
        case ast.BoolOp():
            yield "logical", _set("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.If() | ast.While() | ast.IfExp():
            yield "logical", _set("test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Constant(value=bool() as value):
            yield "constant", _set("value", not value)
        case ast.Constant(value=int() | float() as value):
            yield from (("constant", _set("value", near)) for near in (value + 1, value - 1))


def _deletions(node: ast.AST) -> Iterator[_Change]:
    for name in ("body", "orelse"):
        statements = getattr(node, name, None)
        for at, statement in enumerate(statements if isinstance(statements, list) else ()):
            docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not docstring and not isinstance(statement, ast.Pass):
                yield "deletion", _put(name, at, ast.Pass())


def _set(name: str, value: object) -> Callable[[Any], None]:
    return lambda node: setattr(node, name, value)


def _put(name: str, at: int, value: object) -> Callable[[Any], None]:
    return lambda node: getattr(node, name).__setitem__(at, value)
