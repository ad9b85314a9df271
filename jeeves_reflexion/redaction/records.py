"""Redaction of values that hold text: JSON values and dataclass instances."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from jeeves_reflexion.redaction.scan import redact
from jeeves_reflexion.types import JSON

T = TypeVar("T")


def redact_json(value: JSON, *, name: str = "") -> JSON:
    """Return a JSON value with secrets removed from every string in it, keys included.

    ``name`` is the key of the value. If it names a secret, each text in the value is one, whatever it is.
    """
    if isinstance(value, str):
        if value and _SECRET_NAME.search(name):
            return "[REDACTED:secret]"
        return redact_id(value)  # many of the strings are ids
    if isinstance(value, Mapping):
        return {redact(key): redact_json(item, name=key) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [redact_json(item, name=name) for item in value]
    return value


def redact_id(id: str) -> str:
    """Return an id without secrets; ids made by this package, which are random or hashes, stay as they are.

    Ids that differ only in a secret become equal, so compare ids only after this.
    """
    return id if _OUR_ID.fullmatch(id) else redact(id)


_OUR_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")
_SECRET_NAME = re.compile(r"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|token|authorization)$")


def redact_record(record: T) -> T:
    """Return a dataclass instance with secrets removed at any depth; the same object if it holds none."""
    value: Any = record
    if not value or isinstance(value, (int, float)):
        return record
    if isinstance(value, str):
        value = redact_id(value)
    elif isinstance(value, tuple):
        parts = tuple(map(redact_record, value))
        value = parts if parts != value else value
    elif isinstance(value, Mapping | list):
        value = redact_json(value)
    elif is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        new = {name: cleaned for name, part in old.items() if (cleaned := redact_record(part)) != part}
        value = replace(value, **new) if new else value
    return cast("T", value)
