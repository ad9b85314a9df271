"""Finds the secrets in request headers, and removes them from error texts."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from vectorstores.base import JSON

_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_PREFIX: Final = 8
_REST_OF_WORD: Final = r"""[^\s"'<>,;)]*"""
# Many addresses begin alike, and so do values of several words ("Bearer ..."): these are matched as a whole only.
_COMMON_BEGINNING: Final = re.compile(r"\s|%20|://|%3A%2F%2F")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise ``ValueError`` for a header that can't be sent, without its value, which may be a key."""
    for name, value in headers.items():
        if not (isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)):
            raise ValueError(f"{name!r:.80} is not a valid name of a header")
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be text of printable ASCII: was it copied whole?")


def secrets_of(headers: Mapping[str, str], body: Mapping[str, JSON] | None = None) -> tuple[str, ...]:
    """Return what errors must not show of the headers, and of the fields that are added to the body.

    Any header may contain a key, so these count: its whole value, the last word (the key of "Bearer ..."), the longer
    parts (of a cookie), and the name and password of "Basic ...". In the body, texts count whose names say that they
    are a key, token, secret or password.
    """
    found: set[str] = set()
    for value in headers.values():
        words = value.split()
        found |= {value, *words[-1:]} | {part for part in re.split(r"[\s,;=]+", value) if len(part) >= 8}
        if len(words) == 2 and words[0].lower() == "basic":
            with contextlib.suppress(ValueError):
                pair = base64.b64decode(words[1], validate=True).decode()
                found |= {pair, pair.partition(":")[2]}
    for name, item in (body or {}).items():
        if isinstance(item, str) and _SECRET_NAME.search(name):
            found.add(item)
    # A shorter one is a placeholder, and would match everywhere.
    found = {text for text in found if len(text) >= 4}
    written = {form for text in found for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))}
    return tuple(sorted(written, key=len, reverse=True))


def without(secrets: Sequence[str], text: str) -> str:
    """Return a text without secrets, which must be sorted with the longest first. Case is ignored.

    A word with the first eight characters of a secret is removed too, because services shorten the key that they show.
    """
    for secret in secrets:
        pattern = re.escape(secret)
        if len(secret) > _PREFIX and not _COMMON_BEGINNING.search(secret):
            pattern += "|" + re.escape(secret[:_PREFIX]) + _REST_OF_WORD
        text = re.sub(pattern, "[REDACTED:api_key]", text, flags=re.IGNORECASE)
    return text
