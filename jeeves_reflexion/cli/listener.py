"""Serving over HTTP: a socket to listen on, and a server that runs until it is interrupted. Needs uvicorn."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from jeeves_reflexion.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_LEAVE: Final = 3


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host name or address; port 0 takes any free port.

    Raises :class:`ConfigurationError` if the socket can't listen there.
    """
    try:
        host.encode("idna")  # sockets raise a TypeError for an invalid name
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"can't listen on port {port} of {host}: {why}; choose another") from error
    # Connections inherit this. asyncio sets it only on its own sockets; without it each response waits 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url_of(listening: socket.socket, host: str = "") -> str:
    """Return the URL of a listening socket, with ``host`` in place of its address if given."""
    bound, port = listening.getsockname()[:2]
    return f"http://{host or (f'[{bound}]' if ':' in bound else bound)}:{port}"


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server for an application. After an interrupt, open requests have three more seconds."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_LEAVE,
            lifespan="on",  # reports errors of background tasks, which "auto" would hide
        )
    )
