"""What posting JSON to a service takes, whoever posts: its address, its connections, when to try again, what to show.

The embedders here and the chat models above them share it; each has errors of its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from itertools import takewhile
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    from vectorstores.base import JSON

EXCERPT: Final = 300
"""How many characters of an unusable answer an error shows."""

_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_TOLD_BY: Final = 8
# Addresses begin alike, and so do values of several words ("Bearer ..."): these count as a whole, with their words.
_COMMON_BEGINNING: Final = re.compile(r"\s|%20|://|%3A%2F%2F")
_RETRIED: Final = frozenset({408, 409, 429})


def parse_base_url(text: str) -> httpx.URL:
    """Return the address of a service, or raise ``ValueError`` saying what is wrong with it.

    Credentials and queries are refused: an address appears in errors and in logs.
    """
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url can't be read as an address: {error}") from error
    if url.userinfo or url.query:
        raise ValueError("base_url must hold neither credentials nor a query: pass api_key instead")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"base_url must begin with http:// or https:// and name a host, not {text!r}")
    return url


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def new_client(
    url: httpx.URL, headers: Mapping[str, str], *, total: float, connect: float
) -> httpx.AsyncClient:
    """Return a client for one address; ``total`` and ``connect`` are seconds for a request and its connection."""
    return httpx.AsyncClient(
        headers={**headers, "Content-Type": "application/json"},
        timeout=httpx.Timeout(total, connect=min(connect, total)),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        # A proxy of the environment can't reach our own machine.
        trust_env=not is_loopback(url.host),
    )


async def close_at_end_of_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close a client when the generator is closed, or when the event loop ends; begin it with ``anext``."""
    # Both asyncio and trio close suspended async generators when their loop ends. So connections don't
    # outlive the loop they belong to where nobody closes them: a model used in several run_sync, for
    # instance.
    try:
        yield
    finally:
        await client.aclose()


def is_retried(status: int) -> bool:
    """Whether a request that was answered so may fare better later: 408, 409, 429 and 5xx."""
    return status in _RETRIED or status >= 500


def parsed(content: bytes) -> object:
    """Return the JSON value of an answer, or ``None`` where it is none."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value


def retry_after(value: str | None) -> float | None:
    """Read a ``Retry-After`` header (seconds or an HTTP date) as seconds from now; ``None`` if unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds == seconds else None  # noqa: PLR0124 - nan


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise ``ValueError`` for a header that can't be sent; its value, which may be a key, is not shown."""
    for name, value in headers.items():
        if not (isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)):
            raise ValueError(f"{name!r:.80} can't be the name of a header")
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be text of printable ASCII: was it copied whole?")


def secrets_of(headers: Mapping[str, str], body: Mapping[str, JSON] | None = None) -> tuple[str, ...]:
    """Return what errors must not show of the headers that are sent, and of what is added to the body.

    All that a header says counts, since a key may stand in any: its whole value, the last word of it (the key of
    "Bearer ..."), its longer parts (a cookie's), and the name and password of "Basic ...". Of the body's, texts count
    that are called a key, token, secret or password.
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
    # A shorter one is a placeholder, and its letters are everywhere.
    found = {text for text in found if len(text) >= 4}
    written = {form for text in found for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))}
    return tuple(sorted(written, key=len, reverse=True))


def without(secrets: Sequence[str], text: str) -> str:
    """Return a text without secrets, the longest first, in capitals or small letters.

    What a secret begins with counts too, from eight characters on: services cut the key that they show.
    """
    for secret in secrets:
        beginning = secret if _COMMON_BEGINNING.search(secret) else secret[:_TOLD_BY]
        parts: list[str] = []
        at = 0
        for match in re.finditer(re.escape(beginning), text, re.IGNORECASE):
            if match.start() >= at:
                shown = text[match.start() : match.start() + len(secret)]
                alike = takewhile(
                    lambda pair: pair[0].lower() == pair[1].lower(), zip(shown, secret, strict=False)
                )
                parts += text[at : match.start()], "[REDACTED:api_key]"
                at = max(match.end(), match.start() + sum(1 for _ in alike))
        text = "".join((*parts, text[at:]))
    return text


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."
