"""The tools, endpoints and APIs that a text names: hosts of URLs, paths of an HTTP API, and ``… API``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_URL: Final = re.compile(
    r"(?:(?<![a-z0-9+-])[a-z][a-z0-9+.-]{0,20}://(?:[^\s/@]*@)?(?P<host>[\w-]+(?:\.[\w-]+)*(?::\d+)?)"
    r"|(?<![\w/.@-])(?P<bare>(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?=/\w)|(?:[\w-]+\.){2,}[a-z]{2,}(?![\w(])))"
    r"(?P<path>/[\w{}:./-]*)?",
    re.IGNORECASE,
)
_PATH: Final = re.compile(
    r"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+[`\"']?(?P<called>/[\w{}:./-]+)"
    r"|(?<![\w/.-])(?P<plain>/(?:api|v\d+)/[\w{}:./-]+)"
)
_VARIABLE: Final = re.compile(r"/(?:\d+|\{[^/]*|:[^/]*)(?=/|$).*")
_API: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<title>[A-Z][A-Za-z0-9]*) APIs?|(?P<snake>[A-Za-z][A-Za-z0-9]*)[_-](?i:apis?)"
    r"|(?P<camel>[A-Za-z][A-Za-z0-9]*[a-z0-9])A(?:PI|pi)s?)(?![A-Za-z0-9])"
)
_ANY: Final = frozenset({"the", "this", "that", "an", "our", "your", "rest", "http", "web", "json", "public"})
"""Words before "API" that do not name one."""


def tool_key(name: str) -> str:
    """Return a key that all names of one tool share, such as a URL with and without its scheme."""
    plain = re.sub(r"^[a-z][a-z0-9+.-]{0,20}://(?:www\.)?|^www\.", "", name.strip().casefold())
    return plain.rstrip("/") or plain


def named_tools(tools: Iterable[str], text: str) -> dict[str, str]:
    """Return the given tools and those that a text names, as a dict from their keys to their names.

    A URL names its host and its endpoint, without the query. A path ends before its first variable part, so that all
    calls of an endpoint are one tool.
    """
    given = list(tools)
    found = {tool_key(tool): tool for tool in given if tool.strip()}
    text = "\n".join([text, *given])
    for match in _URL.finditer(text):
        host = tool_key(match["host"] or match["bare"])
        found.setdefault(host, host)
        endpoint = host + _VARIABLE.sub("", (match["path"] or "").casefold()).rstrip("/.:-")
        found.setdefault(endpoint, endpoint)
    for match in _PATH.finditer(text):
        if path := _VARIABLE.sub("", (match["called"] or match["plain"]).casefold()).rstrip("/.:-"):
            found.setdefault(path, path)
    for match in _API.finditer(text):
        name = match["title"] or match["snake"] or match["camel"]
        if name.casefold() not in _ANY:
            found.setdefault(f"{name.casefold()} api", f"{name} API")
    return found
