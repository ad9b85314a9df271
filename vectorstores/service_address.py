"""Addresses of services, and the headers that carry their keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote

import httpx


class MissingKeyError(ValueError):
    """A service needs a key, but none was given."""


def address_and_key(
    base_url: str, given: str | None, variable: str, headers: Mapping[str, str]
) -> tuple[httpx.URL, str]:
    """Return the address of a service and its key: the given one, or that of the environment variable ``variable``.

    No key is needed on this machine, or if ``headers`` contains one. Raises ``ValueError`` for an invalid address or
    key, and :class:`MissingKeyError`. An address must not contain credentials or a query, since it appears in errors
    and logs; Azure's ``?api-version=`` is allowed.
    """
    try:
        base = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url can't be read as an address: {error}") from error
    if base.userinfo or set(base.params) - {"api-version"}:
        raise ValueError(
            "base_url must hold neither credentials nor a query but ?api-version=: pass api_key instead"
        )
    if base.scheme not in {"http", "https"} or not base.host:
        # Without the text, which may be or contain a key.
        raise ValueError("base_url must begin with http:// or https:// and name a host")
    key = (os.environ.get(variable, "") if given is None else given).strip()
    brings_key = not {"authorization", "api-key", "x-api-key"}.isdisjoint(map(str.lower, headers))
    if not (key or brings_key) and given is None and not is_loopback(base.host):
        raise MissingKeyError(
            f"{base} needs a key: set {variable} or pass api_key ('' for a service without keys)"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("the API key contains characters that a key can't have: was it copied whole?")
    return base, key


def address_of(base: httpx.URL, path: str, name: str) -> httpx.URL:
    """Return the address of a service's path; for the address of a whole Azure resource, in its deployment ``name``."""
    within = base.raw_path.partition(b"?")[0].decode().rstrip("/")
    if not within and _is_azure(base):
        within = f"/openai/deployments/{quote(name, safe='')}"
    return base.copy_with(raw_path=f"{within}{path}".encode() + (b"?" + base.query if base.query else b""))


def _is_azure(base: httpx.URL) -> bool:
    return "api-version" in base.params or base.host.endswith((".openai.azure.com", ".openai.azure.us"))


def key_headers(base: httpx.URL, key: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the given headers, and the key's header unless it is among them.

    The key is a bearer token, except on Azure, whose keys have their own header (a token of Entra ID is a bearer token
    there too).
    """
    own: dict[str, str] = {}
    if key and _is_azure(base) and not (key.startswith("eyJ") and key.count(".") == 2):
        own = {"api-key": key}
    elif key:
        own = {"Authorization": f"Bearer {key}"}
    headers = httpx.Headers(own)
    headers.update(given)
    return dict(headers)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
