"""Access control: the Host header, a token in the start URL and a cookie afterwards, and a token in every form."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jeeves_reflexion.errors import ConfigurationError

TOKEN_VARIABLE: Final = "JEEVES_UI_TOKEN"  # noqa: S105 - a name
_SHORTEST: Final = 16
_MAX_FORM_BYTES: Final = 200_000
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_NAME: Final = r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)"
_HOST: Final = re.compile(rf"{_NAME}(?::[0-9]+)?")
_HEADERS: Final[Mapping[str, str]] = {
    # Templates escape the texts of models. If one slips through, this policy keeps the browser from running it.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer, browsers would send "Origin: null" with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether a server bound to this host can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """The token of one server, and the host ``names`` that it answers to besides those of loopback.

    The token comes from ``JEEVES_UI_TOKEN``, else a new one is made. Raises :class:`ConfigurationError` if the token is
    too short or not ASCII, or a name is not a host name.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.token = os.environ.get(TOKEN_VARIABLE, "") or secrets.token_urlsafe(24)
        if len(self.token) < _SHORTEST or not self.token.isascii():
            raise ConfigurationError(f"{TOKEN_VARIABLE} must have at least {_SHORTEST} characters, all ASCII")
        for name in names:
            if not re.fullmatch(_NAME, name.lower()):
                raise ConfigurationError(
                    f"{name!r} is not a host name: write it without http:// and port, IPv6 in brackets, such as"
                    " lessons.example.org"
                )
        self.names = names
        self._hosts = _LOOPBACK | {name.lower() for name in names}
        self.form_token = self._digest("form")
        # The name differs from server to server, because cookies of one host are shared by all its ports.
        self._cookie, self._pass = f"jeeves_{self._digest('name')[:8]}", self._digest("cookie")

    def refusal(self, request: Request) -> Response | None:
        """Return the response that turns a request away, or None if the request is allowed."""
        host = request.headers.get("host", "").lower()
        # request.url is not used: from a Host such as "a:1/b?" it would take a wrong path.
        scheme, path = request.scope["scheme"], request.scope["path"]
        named = _HOST.fullmatch(host)
        if named is None or named[1] not in self._hosts:
            return PlainTextResponse("This server is not known by that name.", 421)
        origin = request.headers.get("origin")
        if request.method not in ("GET", "HEAD") and origin != f"{scheme}://{host}":
            return PlainTextResponse("A change must come from a form of this page.", 403)
        query = dict(request.query_params)
        if request.method == "GET" and _same(query.pop("token", ""), self.token):
            # Redirect, so that the token stays out of the browser's history and its address bar.
            target = path + (f"?{urlencode(query)}" if query else "")
            response = RedirectResponse(f"/{target.lstrip('/')}", 303)
            response.set_cookie(
                self._cookie,
                self._pass,
                httponly=True,
                samesite="strict",
                secure=scheme == "https",
            )
            return response
        if path.startswith("/static/") or _same(request.cookies.get(self._cookie, ""), self._pass):
            return None
        return PlainTextResponse(
            "Open the address that the command printed at its start: it has the token that lets you in.", 401
        )

    async def form(self, request: Request) -> dict[str, list[str]]:
        """Return the fields of a form. Raises :class:`HTTPException` if it is too large, or lacks our token."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MAX_FORM_BYTES:
                raise HTTPException(413, "The form is too large.")
        fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
            fields.setdefault(name, []).append(value)
        if not _same(fields.get("form", [""])[0], self.form_token):
            raise HTTPException(
                403, "This form was made before the server was restarted: load the page again."
            )
        return fields

    def _digest(self, use: str) -> str:
        return hmac.new(self.token.encode(), use.encode(), hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


class Guard:
    """ASGI middleware that turns away requests without access and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await (self.access.refusal(Request(scope)) or self.app)(scope, receive, secured)
