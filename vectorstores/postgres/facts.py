"""Metadata as ``jsonb`` that compares as :mod:`vectorstores.filters` does.

``jsonb`` numbers are exact decimals, Python's floats are binary. A whole float is written with all its digits,
since Python compares it with integers by its exact value; any other by its shortest decimal, which keeps the
order among floats and between them and integers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vectorstores.base import JSON

DIGEST_KEY: Final = "$sha256"
# A b-tree refuses rows of 2,704 bytes and more, and a short text may be six times as long in jsonb.
_MAX_INDEXED: Final = 256


def facts_json(metadata: Mapping[str, JSON]) -> str:
    """Return the JSON text for the column ``facts``. It holds every key, also those that have a column."""
    return value_json(metadata)


def value_json(value: JSON) -> str:
    """Return the JSON text of one value, normalised; two values are equal for a filter if their jsonb is."""
    return json.dumps(_normal(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def column_json(value: JSON) -> str:
    """Return the JSON text of a value for the column of a declared key.

    A value that is too long for an index is replaced by an object with its digest: equal digests stand for
    equal values, and what needs the value itself reads it from ``facts``. Objects that look like such a
    replacement are replaced too, so that nobody can pass one for another value.
    """
    text = value_json(value)
    # A number of 309 digits is short in jsonb, and order comparisons read it here.
    fits = isinstance(value, int | float) or len(text.encode()) <= _MAX_INDEXED
    if fits and not _posed(value):
        return text
    canonical = json.dumps(_normal(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return json.dumps({DIGEST_KEY: hashlib.sha256(canonical.encode()).hexdigest()})


def column_forms(value: JSON) -> list[str]:
    """Return the JSON texts that a declared key's column may hold for a value, with or without a digest."""
    stored = column_json(value)
    return [stored] if _posed(value) else list(dict.fromkeys([stored, value_json(value)]))


def _posed(value: JSON) -> bool:
    return isinstance(value, Mapping) and DIGEST_KEY in value


def has_nul(value: JSON) -> bool:
    """Return whether a NUL character is anywhere in a value: PostgreSQL can't hold it."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any("\0" in key or has_nul(part) for key, part in value.items())
    return isinstance(value, Sequence) and any(map(has_nul, value))


def _normal(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _normal(part) for key, part in value.items()}
    return [_normal(part) for part in value]
