"""Jinja2's sandbox, with bounds that a template can't get around.

A template has no macros, includes or recursion, a few filters (:mod:`jeeves_reflexion.workflows.filters`) and methods,
and a bounded number of steps; nothing in it grows out of proportion. A name that is not there is an error.
"""

from __future__ import annotations

import difflib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from jeeves_reflexion.errors import MissingDependencyError
from jeeves_reflexion.workflows.values import MAX_BITS, MAX_TEXT, as_text, shown

try:
    import jinja2
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:  # pragma: no cover - the tests have it
    raise MissingDependencyError("templates", "workflows") from error

from jeeves_reflexion.workflows.filters import FILTERS, joined

# Jinja2 itself too, so that only one module has to say that it is missing.
__all__ = ["MAX_SECONDS", "MAX_STEPS", "counted", "environment", "jinja2", "nodes", "within_bounds"]

T = TypeVar("T")

MAX_STEPS: Final = 100_000
"""The most turns of loops, filters, calls and sums that a template may take together."""

MAX_SECONDS: Final = 2.0
_MAX_ASSIGNMENTS: Final = 16

_METHODS: Final = {
    dict: frozenset({"get", "items", "keys", "values"}),
    str: frozenset({"endswith", "isdigit", "lower", "lstrip", "rstrip", "split", "splitlines"})
    | frozenset({"startswith", "strip", "title", "upper"}),
    list: frozenset({"count", "index"}),
}
_LOOP: Final = frozenset(
    [
        "index",
        "index0",
        "revindex",
        "revindex0",
        "first",
        "last",
        "length",
        "previtem",
        "nextitem",
        "depth",
        "cycle",
    ]
)
_REFUSED: Final = {
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.Extends: "extends",
    nodes.Block: "block",
    nodes.FilterBlock: "filter",
    nodes.AssignBlock: "set ... endset",
}


class _Left:
    """What is left of a template's steps and time."""

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.until = time.monotonic() + MAX_SECONDS

    def take(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise OverflowError(f"it takes more than {MAX_STEPS:,} steps: turns of loops, filters and sums")
        if time.monotonic() > self.until:
            raise OverflowError(f"it takes longer than {MAX_SECONDS:g} s")


_left: ContextVar[_Left] = ContextVar("jeeves_reflexion_template_left")


class _Missing(jinja2.StrictUndefined):
    """A name that is not there: an error in whatever way it is used, and one that says what there is."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        name = str(self._undefined_name)
        if self._undefined_hint:
            return str(self._undefined_hint)
        if not isinstance(self._undefined_obj, Mapping):
            if self._undefined_obj is jinja2.utils.missing:
                return f"there is no {name!r} here: a template sees `state`"
            return f"{shown(self._undefined_obj, 15)} has no {name!r}"
        there = [str(key) for key in self._undefined_obj]
        near = difflib.get_close_matches(name, there, 1)
        if near:
            return f"there is no {name!r}: did you mean {near[0]!r}?"
        return f"there is no {name!r}: there is {', '.join(sorted(there)[:12]) or 'nothing yet'}"


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            undefined=_Missing,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            optimized=False,  # it takes cubic time over a chain of filters, and would run them before they are bounded
            keep_trailing_newline=False,
            finalize=_finalize,
            cache_size=0,
        )
        self.filters = {
            name: _stepping(work)
            for name, work in {**FILTERS, "_counted": counted, "_joined": joined}.items()
        }
        self.globals = {"range": self.globals["range"]}

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401
        # A key comes before a method: state.items is what the state calls so.
        if isinstance(obj, Mapping):
            if attribute in obj:
                return obj[attribute]
            if attribute not in _METHODS[dict]:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ANN401
        if isinstance(obj, jinja2.runtime.LoopContext):
            return attr in _LOOP
        allowed = next((names for kind, names in _METHODS.items() if isinstance(obj, kind)), frozenset())
        return attr in allowed and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:  # noqa: ANN401
        """Have texts format nothing: a width could make one as long as it likes."""

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as Jinja2 has it
        """Call a method; that is a step."""
        _left.get().take()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        _left.get().take()
        _check_size(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _tame(tree)
        return tree


def _stepping(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter whose every use is a step, so that a long chain of them ends."""

    @functools.wraps(work)  # Jinja2 marks the functions that it passes its context to
    def step(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as filters are
        _left.get().take()
        return work(*args, **kwargs)

    return step


def _finalize(value: object) -> str:
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises
    return as_text(value)


def counted(values: Iterable[object]) -> Iterator[object]:
    """Yield values, each of which is a step."""
    left = _left.get()
    for value in values:
        left.take()
        yield value


def _check_size(operator: str, left: object, right: object) -> None:
    sized = [side for side in (left, right) if isinstance(side, str | list | tuple)]
    if operator == "%" and isinstance(left, str):
        raise SecurityError("texts are not formatted with %: write {{ }} where a value belongs")
    if operator == "+" and sum(map(len, sized)) > MAX_TEXT:
        raise OverflowError(f"a value becomes longer than {MAX_TEXT:,}")
    if operator == "*" and sized and len(sized[0]) * max(_whole(left), _whole(right), 0) > MAX_TEXT:
        raise OverflowError(f"a value becomes longer than {MAX_TEXT:,}")
    if operator in {"*", "**"}:
        digits = _whole(left).bit_length() * (abs(_whole(right)) if operator == "**" else 1)
        if digits + _whole(right).bit_length() > MAX_BITS:
            raise OverflowError("a number becomes too large")


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _tame(tree: nodes.Template) -> None:
    """Refuse what could run away, and count the turns of the rest."""
    for node in tree.find_all(tuple(_REFUSED)):
        raise jinja2.TemplateSyntaxError(f"{{% {_REFUSED[type(node)]} %}} is not for templates", node.lineno)
    if sum(1 for _ in tree.find_all(nodes.Assign)) > _MAX_ASSIGNMENTS:
        raise jinja2.TemplateSyntaxError(f"a template has at most {_MAX_ASSIGNMENTS} {{% set %}}", 1)
    for loop in list(tree.find_all(nodes.For)):
        if loop.recursive:
            raise jinja2.TemplateSyntaxError("{% for ... recursive %} is not for templates", loop.lineno)
        loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
    _tame_joins(tree)


def _tame_joins(node: nodes.Node) -> None:
    for field, value in list(node.iter_fields()):
        if isinstance(value, list):
            value[:] = [_tamed(item) for item in value]
        elif isinstance(value, nodes.Node):
            setattr(node, field, _tamed(value))


def _tamed(node: Any) -> Any:  # noqa: ANN401 - fields of a node hold anything
    if not isinstance(node, nodes.Node):
        return node
    _tame_joins(node)
    if isinstance(node, nodes.Concat):
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "_joined", [], [], None, None, lineno=node.lineno)
    return node


environment: Final = _Environment()
"""What all templates are read and filled in by."""


def within_bounds(make: Callable[[], T]) -> T:
    """Return what a call comes to, whose templates have :data:`MAX_STEPS` and :data:`MAX_SECONDS` from now."""
    token = _left.set(_Left())
    try:
        return make()
    finally:
        _left.reset(token)
