"""What posting JSON to a service takes, whoever posts: its address, its connections, when to try again, what to show.

The embedders here and the chat models above them share it; each has errors of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Final

import httpx

EXCERPT: Final = 300
"""How many characters of an unusable answer an error shows."""

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


def without(secret: str, text: str) -> str:
    """Return a text without the secret."""
    # A shorter one is a placeholder, and its letters are everywhere.
    return text.replace(secret, "[REDACTED:api_key]") if len(secret) >= 4 else text


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."
