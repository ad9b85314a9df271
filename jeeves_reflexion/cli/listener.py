"""Serving over HTTP: a port to listen at, and what answers there until it is interrupted. Needs uvicorn."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from jeeves_reflexion.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_LEAVE: Final = 3


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at a host, by its name or address; port 0 is any that is free.

    Raises :class:`ConfigurationError` where that can't be.
    """
    try:
        host.encode("idna")  # sockets raise a TypeError for what is no name
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"port {port} of {host} can't be listened at: {why}; name another"
        ) from error
    # Connections inherit it; asyncio sets it on sockets of its own making alone, and each answer would wait 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url_of(listening: socket.socket, host: str = "") -> str:
    """Return the address of a server that listens there, under another name for its host where one is given."""
    bound, port = listening.getsockname()[:2]
    return f"http://{host or (f'[{bound}]' if ':' in bound else bound)}:{port}"


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return what serves an application until the process is interrupted; requests then have three seconds more."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_LEAVE,
            lifespan="on",  # else a fault of what runs beside the answers would be told to nobody
        )
    )
