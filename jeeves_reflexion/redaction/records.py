"""Redaction of values that hold text: JSON values, dataclass instances, and the events that a listener hears."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import anyio.to_thread

from jeeves_reflexion.callables import LONG
from jeeves_reflexion.events import Event
from jeeves_reflexion.redaction.scan import redact
from jeeves_reflexion.session import Listener, Session
from jeeves_reflexion.types import JSON

T = TypeVar("T")


def redact_json(value: JSON) -> JSON:
    """Return a JSON value with secrets removed from every string in it, keys included."""
    if isinstance(value, str):
        return redact_id(value)  # many of the strings are ids
    if isinstance(value, Mapping):
        return {redact(key): _named(key, item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [redact_json(item) for item in value]
    return value


def redact_id(id: str) -> str:
    """Return an id without secrets; ids made by this package, which are random or hashes, stay as they are.

    Ids that differ only in a secret become equal, so compare ids only after this.
    """
    return id if _OUR_ID.fullmatch(id) else redact(id)


_OUR_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")
_SECRET_NAME = re.compile(r"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|token|authorization)$")


def _named(key: str, item: JSON) -> JSON:
    """Redact the value of a key. If the key names a secret, each text in the value is a secret, whatever it is."""
    if not _SECRET_NAME.search(key):
        return redact_json(item)
    if isinstance(item, str):
        return "[REDACTED:secret]" if item else item
    if isinstance(item, Sequence):
        return [_named(key, part) for part in item]
    return redact_json(item)


def redact_record(record: T) -> T:
    """Return a dataclass instance with secrets removed at any depth; the same object if it holds none."""
    return cast("T", _cleaned(record))


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return redact_id(value)
    if not value or isinstance(value, (int, float)):
        return value
    if isinstance(value, tuple):
        parts = tuple(map(_cleaned, value))
        return parts if parts != value else value
    if isinstance(value, Mapping | list):
        return redact_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        new = {name: cleaned for name, part in old.items() if (cleaned := _cleaned(part)) != part}
        return replace(value, **new) if new else value
    return value


def redacting(session: Session) -> Session:
    """Return the session with a listener that hears no secrets; the same session if it has one already."""
    if session.listener is None or isinstance(session.listener, _Redacting):
        return session
    return session.listening(_Redacting(session.listener))


class _Redacting:
    """Redacts each event before the listener hears it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __call__(self, event: Event) -> Awaitable[None] | None:
        if len(repr(event)) > LONG:
            return self._hear_long(event)
        return self._listener(redact_record(event))

    async def _hear_long(self, event: Event) -> None:
        waiting = self._listener(await anyio.to_thread.run_sync(redact_record, event))
        if waiting is not None:
            await waiting
