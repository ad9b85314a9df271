"""Takes secrets out of text before it is stored or logged. Redaction is code, applied at every write.

A hit is replaced by ``[REDACTED:kind]``; the rest of the text is untouched. The patterns are data: a name, and an
expression whose named group that took part (or whose whole match) is the value to hide.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar, cast

from jeeves_reflexion.events import Event
from jeeves_reflexion.session import Listener, Session
from jeeves_reflexion.types import JSON

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret and how it looks."""

    kind: str
    expression: re.Pattern[str]


def _pattern(kind: str, expression: str, flags: int = 0) -> Pattern:
    return Pattern(kind, re.compile(expression, flags))


# Prose such as "the password is required" names no secret: where the words allow for prose, a value must have a digit,
# a symbol within, or a capital after a small letter. Every repetition before a match is bounded, so that no text makes
# a search take more than linear time.
_ODD = r"(?=[^\s\"',;&]{0,80}(?:\d|[@#$%^*!_+=~](?=\w)|(?-i:[a-z][A-Z])))"
_MARKED = r"(?!\[REDACTED:)"
_BARE = r"[^\s\"',;&]"
_STRONG = (
    r"[a-z0-9]{0,30}passw(?:or)?d|pwd|passphrase|client[_-]?secret|secret[_-]?(?:access[_-]?)?key|(?:api|access|account|auth|private"
    r"|signing|encryption|shared[_-]?access)[_-]?key|(?:access|auth|refresh|private|bot|session|id|api)[_-]?token"
    r"|[a-z0-9]{1,30}_secret|[a-z0-9]{1,30}_token"
)
_NAME = r"(?<![a-z0-9])(?:[a-z0-9]{1,30}[_-]){0,4}"
_MIXED = r"(?=[a-z_-]{0,40}[A-Z0-9])[A-Za-z0-9_-]"  # words-in-a-row are no key


PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r".*?(?:-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.DOTALL,
    ),
    _pattern("jwt", r"\beyJ[A-Za-z0-9_-]{8,1000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}"),
    _pattern("api_key", rf"\bsk-(?:ant-|proj-|or-v1-|svcacct-)?{_MIXED}{{16,}}"),
    _pattern("api_key", r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{12,}"),
    _pattern("api_key", r"\bAIza[A-Za-z0-9_-]{30,}"),
    _pattern("api_key", rf"\b(?:hf|gsk|npm|dop_v1|glpat|pypi|shpat|xai|r8)[_-]{_MIXED}{{20,}}"),
    _pattern("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    _pattern("slack_token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _pattern("slack_token", r"\bhooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/_-]{20,})"),
    _pattern("aws_key", r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    _pattern(
        "authorization", rf"\b(?i:bearer|basic)\s{{1,5}}{_ODD}(?P<secret>[A-Za-z0-9._~+/-]{{12,}}={{0,2}})"
    ),
    _pattern(
        "authorization",
        rf"\b(?i:authorization)[\"']?\s{{0,5}}[:=]\s{{0,5}}{_MARKED}(?P<secret>[^\s\"',;]{{12,}})",
    ),
    _pattern("password", r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,100}:(?P<secret>[^\s/?#]+)@", re.IGNORECASE),
    _pattern(
        "secret",
        rf"{_NAME}(?:{_STRONG})[\"'\\]{{0,2}}\s{{0,5}}[:=]\s{{0,5}}"
        rf"(?:\\?\"{_MARKED}(?P<secret>[^\"\n\\]{{4,}})|\\?'{_MARKED}(?P<single>[^'\n\\]{{4,}})|{_MARKED}(?P<bare>{_BARE}{{6,}}))",
        re.IGNORECASE,
    ),
    _pattern(
        "secret",
        rf"(?:{_NAME}(?:{_STRONG}|secret|token)[\"']?(?:\s{{0,5}}[:=]|\s{{1,5}}is\b)|--(?:{_STRONG}|secret|token)\b)"
        rf"\s{{0,5}}[\"']?{_MARKED}{_ODD}(?P<secret>{_BARE}{{6,}})",
        re.IGNORECASE,
    ),
)


def redact(text: str, patterns: Sequence[Pattern] = PATTERNS) -> str:
    """Return the text with every secret of a known kind replaced by ``[REDACTED:kind]``."""
    for pattern in patterns:
        text = pattern.expression.sub(lambda match, kind=pattern.kind: _hide(match, kind), text)  # type: ignore[misc]
    return text


def _hide(match: re.Match[str], kind: str) -> str:
    mark = f"[REDACTED:{kind}]"
    for name in match.re.groupindex:
        if match[name] is not None:
            start, end = match.start(name) - match.start(), match.end(name) - match.start()
            return match[0][:start] + mark + match[0][end:]
    return mark


def redact_json(value: JSON) -> JSON:
    """Return a JSON value with secrets taken out of every string in it, keys included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _named(key, item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [redact_json(item) for item in value]
    return value


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
        return redact(value)
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
        return self._listener(redact_record(event))
