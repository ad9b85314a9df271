"""The filters of templates: few, and none of them can build a text out of proportion to what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2 import Undefined, filters

from jeeves_reflexion.workflows.values import MAX_TEXT, as_text, dumped

_MAX_INDENT: Final = 16


def joined(values: Iterable[object], separator: object = "", attribute: str | None = None) -> str:
    """Return values as one text; ``attribute`` takes that part of each instead."""
    if attribute is not None:
        values = (_part(value, attribute) for value in values)
    between = as_text(separator)
    parts: list[str] = []
    length = 0
    for value in values:
        _defined(value)
        part = as_text(value)
        length += len(part) + len(between)
        if length > MAX_TEXT:
            raise OverflowError(f"a text becomes longer than {MAX_TEXT:,} characters")
        parts.append(part)
    return between.join(parts)


def _part(value: object, name: str) -> object:
    if isinstance(value, Mapping) and name in value:
        return value[name]
    return Undefined(obj=value, name=name)


def _defined(value: object) -> None:
    if isinstance(value, Undefined):
        str(value)  # raises, for it is a strict one


def _tojson(value: object, indent: int | None = None) -> str:
    _defined(value)
    if indent is not None and not 0 <= indent <= _MAX_INDENT:
        raise OverflowError(f"tojson indents by at most {_MAX_INDENT}")
    return dumped(list(value) if isinstance(value, Iterable) and not _has_form(value) else value, indent)


def _has_form(value: object) -> bool:
    return isinstance(value, str | Mapping | list | tuple)


def _replaced(value: object, old: object, new: object, count: int = -1) -> str:
    text, before, after = as_text(value), as_text(old), as_text(new)
    if len(text) + (text.count(before) + 1) * len(after) > MAX_TEXT:
        raise OverflowError(f"a text becomes longer than {MAX_TEXT:,} characters")
    return text.replace(before, after, count)


def _indented(value: object, width: int = 4, first: bool = False) -> str:  # noqa: FBT001, FBT002 - as Jinja2 has it
    if not 0 <= width <= _MAX_INDENT:
        raise OverflowError(f"indent takes a width of at most {_MAX_INDENT}")
    lines = as_text(value).split("\n")
    if len(lines) * width > MAX_TEXT:
        raise OverflowError(f"a text becomes longer than {MAX_TEXT:,} characters")
    rest = ("\n" + " " * width).join(lines)
    return " " * width + rest if first else rest


def _truncated(value: object, length: int = 255) -> str:
    text = as_text(value)
    return text if len(text) <= length else text[: max(length - 3, 0)] + "..."


def _of_text(change: Callable[[str], str]) -> Callable[[object], str]:
    def changed(value: object) -> str:
        _defined(value)
        return change(as_text(value))

    return changed


def _sum(values: Iterable[Any], attribute: str | None = None) -> int | float:
    numbers: list[float] = []
    for value in values:
        number = value if attribute is None else _part(value, attribute)
        if not isinstance(number, int | float):
            raise TypeError("sum takes numbers")
        numbers.append(number)
    return sum(numbers)


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "tojson": _tojson,
    "join": joined,
    "string": _of_text(str),
    "lower": _of_text(str.lower),
    "upper": _of_text(str.upper),
    "title": _of_text(str.title),
    "capitalize": _of_text(str.capitalize),
    "trim": _of_text(str.strip),
    "replace": _replaced,
    "indent": _indented,
    "truncate": _truncated,
    "sum": _sum,
}
_JINJAS: Final = (
    "abs default d count length first last int float round list sort unique reverse min max dictsort items map"
    " select reject selectattr rejectattr"
)

FILTERS: Final = {**{name: filters.FILTERS[name] for name in _JINJAS.split()}, **_OWN}
