"""Turns a text into the integer, number or boolean that a schema asks for, or back, where nothing is lost by it.

Only a single ``type`` is followed, and no alternatives: what ``type: [integer, "null"]`` or ``anyOf`` wants is not
clear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from referencing.exceptions import Unresolvable

from jeeves_reflexion.types import JSON
from jeeves_reflexion.workflows.values import MAX_DEPTH

TRUE_WORDS: Final = frozenset({"true", "yes", "1"})
FALSE_WORDS: Final = frozenset({"false", "no", "0"})
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,999}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]{1,999})?(?:[eE][+-]?[0-9]{1,4})?")


def coerce_scalar(value: JSON, kind: str) -> JSON:
    """Return a scalar as ``integer``, ``number``, ``boolean`` or ``string``; itself where that would lose something.

    A text is an integer in its one usual form alone (``"007"``, ``"+5"`` and ``"3.0"`` are not), a number in any form
    of JSON whose value a float holds exactly to its last digit, a boolean as true, yes, 1, false, no or 0 in any case.
    """
    if isinstance(value, str):
        return _READERS[kind](value) if kind in _READERS else value
    if kind == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if kind == "string" and isinstance(value, int | float):
        return repr(value)
    return value


def _integer(text: str) -> JSON:
    return int(text) if _INTEGER.fullmatch(text) else text


def _boolean(text: str) -> JSON:
    word = text.lower()
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else text


def _number(text: str) -> JSON:
    if not _NUMBER.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text)
    # Compared as decimals: 0.1 is the same 0.1 when it is written again, 0.10000000000000000001 is not.
    if number in {float("inf"), float("-inf")} or Decimal(repr(number)) != Decimal(text):
        return text
    return number


_READERS: Final = {"integer": _integer, "number": _number, "boolean": _boolean}


def coerce(value: JSON, schema: JSON, resolver: Any, depth: int = 0) -> JSON:  # noqa: ANN401 - referencing's own type
    """Return a value with its parts coerced as the schema asks; ``resolver`` follows its references."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return value
    if isinstance(reference := schema.get("$ref"), str):
        try:
            resolved = resolver.lookup(reference)
        except Unresolvable:
            return value
        value = coerce(value, resolved.contents, resolved.resolver, depth + 1)
    if isinstance(value, Mapping):
        return _object(value, schema, resolver, depth)
    if isinstance(value, list):
        return _array(value, schema, resolver, depth)
    kind = schema.get("type")
    return coerce_scalar(value, kind) if isinstance(kind, str) else value


def _object(value: Mapping[str, JSON], schema: Mapping[str, JSON], resolver: Any, depth: int) -> JSON:  # noqa: ANN401
    named, patterns = _mapping(schema.get("properties")), _mapping(schema.get("patternProperties"))
    others = schema.get("additionalProperties")
    if not named and not patterns and not isinstance(others, Mapping):
        return value
    changed = {}
    for key, item in value.items():
        wanted = [named[key]] if key in named else []
        wanted += [part for pattern, part in patterns.items() if re.search(pattern, key)]
        for part in wanted or [others]:
            item = coerce(item, part, resolver, depth + 1)  # noqa: PLW2901 - each adds to the last
        changed[key] = item
    return changed


def _array(value: list[JSON], schema: Mapping[str, JSON], resolver: Any, depth: int) -> JSON:  # noqa: ANN401
    items, first = schema.get("items"), schema.get("prefixItems")
    if isinstance(items, list):  # drafts before 2020-12
        first, items = items, schema.get("additionalItems")
    ahead = first if isinstance(first, list) else []
    wanted = [ahead[place] if place < len(ahead) else items for place in range(len(value))]
    return [coerce(item, part, resolver, depth + 1) for item, part in zip(value, wanted, strict=True)]


def _mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}
