"""Takes secrets out of text before it is stored or logged. Redaction is code, applied at every write.

A hit is replaced by ``[REDACTED:kind]``; the rest of the text is untouched. The patterns are data: a name, and an
expression whose group ``secret`` (or whose whole match) is the value to hide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jeeves_reflexion.types import JSON


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret and how it looks."""

    kind: str
    expression: re.Pattern[str]


def _pattern(kind: str, expression: str, flags: int = 0) -> Pattern:
    return Pattern(kind, re.compile(expression, flags))


_VALUE = r"(?P<secret>(?!\[REDACTED:)[^\s\"',;&]{6,})"

PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.DOTALL,
    ),
    _pattern("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}"),
    _pattern("api_key", r"\bsk-(?:ant-|proj-|or-v1-|svcacct-)?[A-Za-z0-9_-]{16,}"),
    _pattern("api_key", r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{12,}"),
    _pattern("api_key", r"\bAIza[A-Za-z0-9_-]{30,}"),
    _pattern("api_key", r"\b(?:hf|gsk|npm|dop_v1|glpat|pypi|shpat|xai|r8)[_-][A-Za-z0-9_-]{20,}"),
    _pattern("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    _pattern("slack_token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _pattern("aws_key", r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    _pattern("authorization", r"\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9._~+/-]{12,}=*)", re.IGNORECASE),
    _pattern("password", r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<secret>[^\s/@]+)@", re.IGNORECASE),
    _pattern(
        "secret",
        r"\b[\w-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token"
        r"|client[_-]?secret|private[_-]?token)\b[\"']?\s*(?:[:=]|\bis\b)\s*[\"']?" + _VALUE,
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
    if "secret" not in match.re.groupindex:
        return mark
    start, end = match.start("secret") - match.start(), match.end("secret") - match.start()
    whole = match.group()
    return whole[:start] + mark + whole[end:]


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
    """A string under a key that names a secret is one, however it looks."""
    if isinstance(item, str) and item and _SECRET_NAME.search(key):
        return "[REDACTED:secret]"
    return redact_json(item)
