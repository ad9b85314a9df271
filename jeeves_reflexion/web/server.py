"""Serves the page until it is interrupted."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from urllib.parse import urlencode

import uvicorn

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.web.access import Access
from jeeves_reflexion.web.app import Shown, make_app


async def serve(
    shown: Shown, access: Access, *, host: str, port: int, started: Callable[[str], None]
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; ``started`` is told the address that lets a browser in.

    Raises :class:`ConfigurationError` where the port can't be had.
    """
    with contextlib.closing(_bound(host, port)) as bound:
        # Live pages never end by themselves, and nobody waits for another answer once the server is to end.
        config = uvicorn.Config(
            make_app(shown, access, stopping=lambda: server.should_exit),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            lifespan="on",  # else a fault of what watches the lessons would be told to nobody
        )
        server = uvicorn.Server(config)
        started(f"http://{access.names[0]}:{bound.getsockname()[1]}/?{urlencode({'token': access.token})}")
        await server.serve(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"port {port} of {host} can't be used: {reason}; name another with --port"
        ) from error
    return bound
