"""Helpers for the values in ``types``: checked fields, hidden gold, and usage."""

from __future__ import annotations

import functools
import json
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, get_args

from jeeves_reflexion.errors import ConfigurationError

if TYPE_CHECKING:
    from jeeves_reflexion.types import JSON

C = TypeVar("C", bound=type)

_KINDS: Mapping[str, tuple[type, str]] = {
    "str": (str, "a text (str)"),
    "int": (int, "a whole number"),
    "float": (numbers.Real, "a number"),
    "bool": (bool, "True or False"),
    "Mapping": (Mapping, "a mapping"),
}
_PLAIN = {"str": str, "int": int, "float": float, "bool": bool, "Mapping": dict, "tuple": tuple}
_CLASSES = frozenset({"EvaluationError", "Step", "ToolCall", "Usage"})
_ANNOTATION = re.compile(
    r"(?:tuple\[(?P<item>\w+), \.\.\.\]|(?P<kind>\w+)(?:\[.*\])?)(?P<optional> \| None)?"
)


def checked(cls: C, *, refusal: type[ValueError] | None = None) -> C:
    """Make a dataclass check its fields against their annotations, before its own ``__post_init__``.

    A tuple field accepts any iterable of its items, except a single text, whose letters would become the items. A
    number field accepts a number of numpy. Raises ``TypeError`` that names the field, and ``ValueError`` for nan and
    for numbers beyond float's range; or ``refusal`` for either.
    """
    known = _KINDS.keys() | _CLASSES
    found = [(name, _ANNOTATION.fullmatch(kind)) for name, kind in cls.__annotations__.items()]
    kinds = [
        (name, _PLAIN.get(kind["kind"] or "tuple"), kind["item"], kind["kind"], kind["optional"])
        for name, kind in found
        if kind and {kind["item"], kind["kind"]} & known
    ]
    after: Callable[..., None] | None = getattr(cls, "__post_init__", None)

    def __post_init__(self: Any, *init_vars: object) -> None:  # noqa: ANN401, N807 - of any such class
        for name, plain, item, kind, optional in kinds:
            given = getattr(self, name)
            if given is None and optional:
                continue
            # Most values have the plain type and need no further check; nan and the items of a tuple do.
            if type(given) is plain and not (given if plain is tuple else plain is float and given != given):  # noqa: PLR0124
                continue
            try:
                value = _items(item, given) if item else _value(kind, given)
            except (TypeError, ValueError) as error:
                wanted = f"{error} or None" if optional else str(error)
                problem = f"{cls.__name__}.{name} must be {wanted}, not {given!r:.100}"
                raise (refusal or type(error))(problem) from None
            if value is not given:
                object.__setattr__(self, name, value)
        if after is not None:
            after(self, *init_vars)

    cls.__post_init__ = __post_init__  # type: ignore[attr-defined]
    return cls


def parametrised(cls: C) -> C:
    """Make ``Attempt[Answer](...)`` work for a frozen dataclass with slots, which fails in Python 3.11.

    Python then sets an attribute, and ignores an ``AttributeError`` for it. ``dataclass`` raises another error there,
    because ``slots=True`` makes a second class.
    """

    def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807 - what it becomes
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    cls.__setattr__ = __setattr__  # type: ignore[assignment]
    return cls


checked_settings = functools.partial(checked, refusal=ConfigurationError)
"""Make a settings class check its fields as :func:`checked` does; raises ``ConfigurationError``."""


def plain_number(value: object) -> object:
    """Return a number of numpy or torch as a Python number; return anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _items(kind: str, value: object) -> tuple[object, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError("a tuple")
    try:
        return tuple([_value(kind, item) for item in value])
    except TypeError as error:
        raise TypeError(f"a tuple, each {error}") from None


def _value(kind: str, value: object) -> object:
    """Return a value of a kind; raises ``TypeError`` or ``ValueError`` that says what it must be."""
    if kind in _CLASSES:
        if type(value).__name__ != kind and not any(cls.__name__ == kind for cls in type(value).__mro__):
            raise TypeError(f"of the class {kind}")
        return value
    accepted, said = _KINDS[kind]
    value = value if isinstance(value, accepted) else plain_number(value)
    if not isinstance(value, accepted) or (kind == "int" and isinstance(value, bool)):
        raise TypeError(said)
    if kind != "float":
        return value
    try:
        number = float(value)  # type: ignore[arg-type] # a numbers.Real
    except OverflowError:
        raise ValueError("a number of float's range") from None
    if math.isnan(number):  # every comparison with nan is false, so later checks would let it pass
        raise ValueError(said)
    return number


@dataclass(frozen=True, slots=True)
@checked
class Usage:
    """What model calls used. ``unreported`` counts calls whose endpoint gave no token counts.

    ``cost_usd`` is ``None`` as soon as the price of one call is unknown, since unknown is not free. In the same way
    ``cached_tokens``, the input read from a cache, and ``reasoning_tokens``, the output spent on thinking, are ``None``
    as soon as one call did not report them.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    unreported: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def tokens(self) -> int:
        """The sum of reported input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        one, other = (self, other) if self.calls or self.tokens else (other, self)
        if not (other.calls or other.tokens):  # no call, so its None parts do not mean "unreported"
            if other == NO_USAGE:
                return one
            cost = _sum(one.cost_usd, other.cost_usd)
            return replace(one, cost_usd=cost, unreported=one.unreported + other.unreported)
        return Usage(*map(_sum, _PARTS(one), _PARTS(other)))

    def beyond(self, other: Usage) -> Usage:
        """Return by how much this usage exceeds another, part by part, never below zero.

        If this usage's cost is ``None``, so is the excess cost, unless there is no excess.
        """
        if other is NO_USAGE:
            return self
        if self is other or self == other:
            return NO_USAGE
        parts = zip(_PARTS(self), _PARTS(other), strict=True)
        left: list[Any] = [None if one is None else max(one - (less or 0), 0) for one, less in parts]
        excess = Usage(*left)
        unpriced = excess.cost_usd is None and not (excess.calls or excess.tokens)
        return replace(excess, cost_usd=0.0) if unpriced else excess


def _sum(one: float | None, other: float | None) -> Any:  # noqa: ANN401 - a part of a usage
    return None if one is None or other is None else one + other


_PARTS = operator.attrgetter(*(each.name for each in fields(Usage)))
NO_USAGE = Usage()
UNKNOWN_USAGE = Usage(calls=1, cost_usd=None, unreported=1)


def check_share(label: str, given: object) -> float:
    """Return a number from 0 to 1, of numpy too, as a Python number; raise :class:`ConfigurationError` for others."""
    value = plain_number(given)
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise ConfigurationError(f"{label} must lie in [0, 1], not {given!r}")
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an int or float, and neither a bool nor NaN."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and not math.isnan(value))


def check_whole(label: str, given: object, least: int = 1) -> int:
    """Return a whole number of at least ``least``, of numpy too, as an int; raise :class:`ConfigurationError`."""
    value = plain_number(given)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{label} must be a whole number of at least {least}, not {given!r}")
    return value


def check_choice(label: str, value: object, kind: object) -> None:
    """Raise :class:`ConfigurationError` unless a value is one of those of a ``Literal`` type."""
    if value not in get_args(kind):
        raise ConfigurationError(f"{label} must be one of {', '.join(get_args(kind))}, not {value!r}")


WITHHELD = "[withheld]"


class Hider:
    """Replaces the texts of a reference, longest first, wherever they occur as whole words.

    It also finds them quoted as Python or JSON would write them, and with other white space.
    """

    def __init__(self, reference: JSON) -> None:
        leaves = _leaves(reference)
        texts = {*leaves, *(form[1:-1] for leaf in leaves for form in (repr(leaf), json.dumps(leaf)))}
        longest_first = (text.split() for text in sorted(texts, key=len, reverse=True))
        joined = "|".join(r"\s+".join(map(re.escape, words)) for words in longest_first)
        self.pattern = re.compile(rf"(?<!\w)(?:{joined})(?!\w)", re.IGNORECASE) if joined else None

    def __call__(self, text: str) -> str:
        """Return a text with each of them replaced by :data:`WITHHELD`."""
        return text if self.pattern is None else self.pattern.sub(WITHHELD, text)


def _leaves(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, Sequence):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None or isinstance(value, bool) else [str(value)]
