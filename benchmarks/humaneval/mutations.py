"""Small changes to a program: the operators of mutation testing, for seeding bugs and for searching repairs.

DeMillo, Lipton and Sayward 1978, "Hints on Test Data Selection". A repair by such changes, guided by tests, is
generate-and-validate program repair (as in Weimer et al. 2009), here without crossing programs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from .programs import parsed

Family = Literal["comparison", "arithmetic", "constant", "logic"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: Final[dict[type[ast.operator], tuple[type[ast.operator], ...]]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv, ast.Add),
    ast.Div: (ast.FloorDiv, ast.Mult),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one change."""

    source: str
    family: Family
    line: int


_Change = tuple[Family, int, Callable[[], Callable[[], None]]]
"""A family, a line, and what makes the change and returns what takes it back."""


def mutants(source: str, entry_point: str) -> list[Mutant]:
    """Return every program that is one change away, in the order of the source, each once.

    Only code within functions is changed, and never the docstring. The sources are as ``ast.unparse`` writes them. A
    source that can't be read has none.
    """
    tree = parsed(source)
    if tree is None:
        return []
    own = ast.unparse(tree)
    found: dict[str, Mutant] = {}
    for family, line, make in list(_changes(tree)):
        undo = make()
        text = ast.unparse(tree)
        undo()
        if text != own and f"def {entry_point}" in text:
            found.setdefault(text, Mutant(text, family, line))
    return list(found.values())


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.ClassDef):
            for statement in function.body:
                if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                    for node in ast.walk(statement):
                        yield from _changes_of(node)


def _changes_of(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                for other in _COMPARISONS.get(type(operator), ()):
                    yield "comparison", node.lineno, _item(node.ops, at, other())
        case ast.BinOp() | ast.AugAssign():
            for another in _ARITHMETIC.get(type(node.op), ()):
                yield "arithmetic", node.lineno, _field(node, "op", another())
        case ast.Constant(value=int() as value):
            for near in _near(value):
                yield "constant", node.lineno, _field(node, "value", near)
        case ast.BoolOp():
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "logic", node.lineno, _field(node, "op", swapped)
        case ast.If() | ast.While() | ast.IfExp():
            yield "logic", node.lineno, _field(node, "test", _negated(node.test))


def _near(value: int) -> tuple[int, ...]:
    return (not value,) if isinstance(value, bool) else (value + 1, value - 1)


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def _field(node: ast.AST, name: str, value: object) -> Callable[[], Callable[[], None]]:
    def make() -> Callable[[], None]:
        before = getattr(node, name)
        setattr(node, name, value)
        return lambda: setattr(node, name, before)

    return make


def _item(items: list[ast.cmpop], at: int, value: ast.cmpop) -> Callable[[], Callable[[], None]]:
    def make() -> Callable[[], None]:
        before = items[at]
        items[at] = value

        def undo() -> None:
            items[at] = before

        return undo

    return make
