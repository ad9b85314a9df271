"""Who is let in: the Host that is asked for, a token in the start URL and a cookie afterwards, forms of our own."""

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
_MOST_BYTES: Final = 200_000
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_NAME: Final = r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)"
_HOST: Final = re.compile(rf"{_NAME}(?::[0-9]+)?")
_HEADERS: Final[Mapping[str, str]] = {
    # Texts of models are escaped; should one slip through all the same, the browser runs and loads nothing of it.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser calls the origin of its own forms null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that is bound to a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """The token of one server, and the ``names`` by which it may be asked, besides those of loopback.

    The token is that of ``JEEVES_UI_TOKEN``, else a new one. Raises :class:`ConfigurationError` for one that can be
    guessed, and for what is no host name.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.token = os.environ.get(TOKEN_VARIABLE, "") or secrets.token_urlsafe(24)
        if len(self.token) < _SHORTEST or not self.token.isascii():
            raise ConfigurationError(f"{TOKEN_VARIABLE} must have at least {_SHORTEST} characters, all ASCII")
        for name in names:
            if not re.fullmatch(_NAME, name.lower()):
                raise ConfigurationError(
                    f"{name!r} is no host name: say it without http:// and port, IPv6 in brackets, such as"
                    " lessons.example.org"
                )
        self.names = names
        self._hosts = _LOOPBACK | {name.lower() for name in names}
        self.form_token = self._digest("form")
        # Of its own, because cookies of one host do not tell its ports apart.
        self._cookie, self._pass = f"jeeves_{self._digest('name')[:8]}", self._digest("cookie")

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is not let in, None for one that is."""
        host = request.headers.get("host", "").lower()
        # Read strictly, and no address is built of it: request.url would take a path out of a Host such as "a:1/b?".
        scheme, path = request.scope["scheme"], request.scope["path"]
        named = _HOST.fullmatch(host)
        if named is None or named[1] not in self._hosts:
            return PlainTextResponse("This server is not known by that name.", 421)
        origin = request.headers.get("origin")
        if request.method not in ("GET", "HEAD") and origin != f"{scheme}://{host}":
            return PlainTextResponse("A change must come from a form of this page.", 403)
        query = dict(request.query_params)
        if request.method == "GET" and _same(query.pop("token", ""), self.token):
            # So that it stands neither in the history nor in what is copied from the address bar.
            there = path + (f"?{urlencode(query)}" if query else "")
            response = RedirectResponse(f"/{there.lstrip('/')}", 303)
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
        """Return the fields of a form of ours; raises :class:`HTTPException` for one of another's, or too large."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                raise HTTPException(413, "The form is too large.")
        fields: dict[str, list[str]] = {}
        for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
            fields.setdefault(name, []).append(value)
        if not _same(fields.get("form", [""])[0], self.form_token):
            raise HTTPException(403, "This form is of an earlier start of the server: load the page again.")
        return fields

    def _digest(self, use: str) -> str:
        return hmac.new(self.token.encode(), use.encode(), hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


class Guard:
    """Lets nobody past who is not let in, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await (self.access.refusal(Request(scope)) or self.app)(scope, receive, secured)
