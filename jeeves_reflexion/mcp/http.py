"""Lessons over streamable HTTP: bearer tokens identify callers, and the rate and size of requests are limited."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection
from typing import Final

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from jeeves_reflexion.errors import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons import VectorLessonStore
from jeeves_reflexion.mcp.server import build_server
from jeeves_reflexion.mcp.tokens import Caller, Tokens
from jeeves_reflexion.mcp.tools import LessonTools
from jeeves_reflexion.session import logger

PATH: Final = "/mcp"
MOST_BYTES: Final = 256 * 1024
"""The size of the longest request."""
PER_MINUTE: Final = 600
"""The most requests per minute of a token, or of an address without a valid token."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_MOST_KNOWN: Final = 10_000


class _Verifier:
    """Looks tokens up for the SDK, at each request: a revoked token is refused at once."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        caller = await self._tokens.caller(token)
        if caller is None:
            return None
        return AccessToken(
            token="",
            client_id=caller.name,
            scopes=list(caller.rights),
            claims={"caller": caller},
        )


def _caller() -> Caller:
    """Return the caller of the current request."""
    token = get_access_token()
    caller = None if token is None else (token.claims or {}).get("caller")
    if not isinstance(caller, Caller):
        raise ConfigurationError("the call came without a token")
    return caller


def _limited(app: ASGIApp, per_minute: int) -> ASGIApp:
    """Limit the rate of requests with a token bucket for each token, and for each address without one."""
    buckets: dict[str, tuple[float, float]] = {}

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        user, client = scope.get("user"), scope.get("client")
        key = f"from {client and client[0]}"
        if isinstance(user, AuthenticatedUser):
            key = f"token {user.username}"
        now = time.monotonic()
        left, at = buckets.get(key, (per_minute, now))
        left = min(per_minute, left + (now - at) * per_minute / 60)
        if len(buckets) > _MOST_KNOWN:
            buckets.clear()  # a flood from many addresses: start again, so that memory stays bounded
        buckets[key] = (left - 1 if left >= 1 else left, now)
        if left >= 1:
            return await app(scope, receive, send)
        refused = JSONResponse({"error": "too many requests"}, 429, {"retry-after": "10"})
        return await refused(scope, receive, send)

    return limited


def _available(app: ASGIApp) -> ASGIApp:
    """Answer 503 if the store of the tokens fails."""

    async def available(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except LessonStoreError as error:
            logger.warning("%s", error)
            refused = JSONResponse({"error": "the lesson store can't be used"}, 503, {"retry-after": "10"})
            await refused(scope, receive, send)

    return available


def http_app(
    lessons: VectorLessonStore,
    tokens: Tokens,
    *,
    hosts: Collection[str] = LOOPBACK,
    origins: Collection[str] = (),
    per_minute: int = PER_MINUTE,
) -> Starlette:
    """Return the application. Requests need a valid token and one of ``hosts``; web pages one of ``origins``."""
    server = build_server(LessonTools(lessons, _caller), review=True, verifier=_Verifier(tokens))
    security = TransportSecuritySettings(
        allowed_hosts=[name for host in hosts for name in (host, f"{host}:*")],
        allowed_origins=list(origins),
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,  # so that a client that vanishes holds no memory
        max_request_body_size=MOST_BYTES,
        transport_security=security,
    )
    app.user_middleware.insert(0, Middleware(_available))
    app.user_middleware.append(Middleware(_limited, per_minute=per_minute))  # after authentication
    return app


def hosts_at(listening: socket.socket, host: str, hosts: Collection[str]) -> tuple[str, ...]:
    """Return the host names of a server: its address, ``host`` and ``hosts``.

    Raises :class:`ConfigurationError` if it listens on all addresses and ``hosts`` is empty.
    """
    bound = str(listening.getsockname()[0])
    if bound in ("0.0.0.0", "::") and not hosts:  # noqa: S104 - it is asked for
        raise ConfigurationError(
            f"the server listens on all addresses ({bound}): add --allow-host with the name that clients use"
        )
    own = f"[{bound}]" if ":" in bound else bound
    names = LOOPBACK if own in LOOPBACK else (own,)
    return tuple(dict.fromkeys((*names, host.lower(), *hosts)))
