"""Values as JSON and back: what a run's folder keeps of a trial is all of it, so that a run can be resumed from it."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

from jeeves_reflexion.types import JSON

T = TypeVar("T")


def plain(value: object) -> JSON:
    """Return a value of :mod:`jeeves_reflexion.types` or an event as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _logged(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(str(item) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # numpy's numbers and the like, which an environment may report.
    item = getattr(value, "item", None)
    return plain(item()) if callable(item) else str(value)


def rebuilt(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return the dataclass instance that :func:`plain` made JSON of.

    Fields that are missing take their default, unknown ones are left out: the log may be of a neighbouring version.
    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for data of another kind.
    """
    hints = _hints(cast("Hashable", kind))
    found = {name: _value(hints[name], data[name]) for name in hints if name in data}
    return kind(**found)


@functools.cache
def _hints(kind: Hashable) -> dict[str, Any]:
    names = _logged(cast("Any", kind))
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name in names}


def _logged(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass or an instance of one
    return tuple(item.name for item in dataclasses.fields(kind) if item.metadata.get("logged", True))


def _value(hint: Any, data: Any) -> Any:  # noqa: ANN401 - whatever a field may hold
    if data is None:
        return None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        known = [each for each in arguments if each is not type(None)]
        return _value(known[0], data) if len(known) == 1 else data
    kind = origin or hint  # of a generic one, such as Attempt[T]
    if dataclasses.is_dataclass(kind):
        data = rebuilt(cast("type[Any]", kind), data)
    elif origin is tuple:
        data = tuple(_value(arguments[0], item) for item in data)
    elif origin is frozenset:
        data = frozenset(data)
    elif origin is Mapping:
        data = {key: _value(arguments[1], item) for key, item in data.items()}
    return data
