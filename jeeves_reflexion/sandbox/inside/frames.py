"""Messages on pipes: eight bytes of length, then JSON or bytes."""

from __future__ import annotations

import contextlib
import json
import os
import struct

TYPE_CHECKING = False  # the module typing is not loaded where the code runs unless it asks for it
if TYPE_CHECKING:
    from typing import Any

LENGTH = struct.Struct(">Q")
_write = os.write  # kept: code in the same process may replace it


def packed(data: bytes) -> bytes:
    """Return ``data`` with its length in front."""
    return LENGTH.pack(len(data)) + data


def send(descriptor: int, data: bytes) -> None:
    """Write all of ``data``."""
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def receive(descriptor: int) -> bytes | None:
    """Read one message; ``None`` when the other end closed before it was whole."""
    head = _exactly(descriptor, LENGTH.size)
    return None if head is None else _exactly(descriptor, LENGTH.unpack(head)[0])


def receive_json(descriptor: int) -> dict[str, Any] | None:
    """Read one message that is a JSON object."""
    data = receive(descriptor)
    if data is None:
        return None
    value: dict[str, Any] = json.loads(data)
    return value


def send_json(descriptor: int, value: object) -> None:
    """Write one message that is JSON."""
    send(descriptor, packed(json.dumps(value).encode()))


def tell(status: int, message: dict[str, object]) -> None:
    """Say something to the supervisor, if it is there: one line, short enough to arrive in one piece."""
    with contextlib.suppress(BrokenPipeError):
        send(status, json.dumps(message)[:3000].encode() + b"\n")


def _exactly(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = os.read(descriptor, min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)
