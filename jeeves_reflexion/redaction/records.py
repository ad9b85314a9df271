"""Redaction of what holds text: JSON values, records, and the events that a listener hears."""

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
    """Return a JSON value with secrets taken out of every string in it, keys included."""
    if isinstance(value, str):
        return redact_id(value)  # as many are, such as those of lessons
    if isinstance(value, Mapping):
        return {redact(key): _named(key, item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [redact_json(item) for item in value]
    return value


def redact_id(id: str) -> str:
    """Return an id without secrets; one of ours, which is random or a hash, stays whatever it looks like.

    Two ids that differ by their secret alone become one, so whoever compares ids compares what this returns.
    """
    return id if _OUR_ID.fullmatch(id) else redact(id)


_OUR_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")
_SECRET_NAME = re.compile(r"(?i)(?:password|passwd|passphrase|secret|api[_-]?key|token|authorization)$")


def _named(key: str, item: JSON) -> JSON:
    """A text under a key that names a secret is one, however it looks, and so are the texts of a list."""
    if not _SECRET_NAME.search(key):
        return redact_json(item)
    if isinstance(item, str):
        return "[REDACTED:secret]" if item else item
    if isinstance(item, Sequence):
        return [_named(key, part) for part in item]
    return redact_json(item)


def redact_record(record: T) -> T:
    """Return a dataclass instance with secrets taken out of every text in it, however deep; itself without any."""
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
    """Return the session with a listener that hears no secrets; the session itself if that is so already."""
    if session.listener is None or isinstance(session.listener, _Redacting):
        return session
    return session.listening(_Redacting(session.listener))


class _Redacting:
    """A listener before the listener."""

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
