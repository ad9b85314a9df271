"""Messages between the processes: a length of eight bytes, then bytes or JSON. Values are sent as JSON only."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from typing import Any

LENGTH = struct.Struct(">Q")
_DEEPEST = 200
RESULT = "result"
"""The name of the variable that holds the value of a program."""
_write, _dumps = os.write, json.dumps  # code in the same process may replace the originals


def packed(data: bytes) -> bytes:
    """Return ``data`` with its length in front."""
    return LENGTH.pack(len(data)) + data


def send(descriptor: int, data: bytes) -> None:
    """Write all of ``data``."""
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def receive(descriptor: int) -> bytes | None:
    """Read one message; None if the other end closed before it was complete."""
    head = _exactly(descriptor, LENGTH.size)
    return None if head is None else _exactly(descriptor, LENGTH.unpack(head)[0])


def receive_request(result: int, descriptor: int) -> dict[str, Any]:
    """Read the request in the code's process. Ends the process if there is none, or no memory for it."""
    try:
        data = receive(descriptor)
        if data is not None:
            return dict(json.loads(data))
    except MemoryError:
        send(result, b'{"error": {"kind": "memory_mb", "message": "no memory left to read the inputs"}}')
    os._exit(0)


def _exactly(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = os.read(descriptor, min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def tell(status: int, message: dict[str, object]) -> None:
    """Send a message to the supervisor, if it is there: one line, short enough to be written atomically."""
    with contextlib.suppress(BrokenPipeError):
        send(status, json.dumps(message)[:3000].encode() + b"\n")


def tell_problem(status: int, error: BaseException) -> None:
    """Tell the supervisor why the code can't be run; the host raises it."""
    tell(status, {"problem": str(error) or type(error).__name__})


def failure(**problem: object) -> bytes:
    """Return the message for a failure of the code, with its ``kind`` (a limit, ``value`` or ``raised``) and more."""
    return b'{"error": ' + encode(problem, "error") + b"}"


def encode(value: object, name: str) -> bytes:
    """Return ``value`` as JSON; tuples become lists. Raises ``ValueError`` if that is not possible."""
    try:
        data = _dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not JSON: text with half of a surrogate pair") from None
    except RecursionError:
        raise ValueError(f"{name} is not JSON: it is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from None
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        for key in (key for each in level if isinstance(each, dict) for key in each):
            if not isinstance(key, str):
                raise ValueError(f"{name} is not JSON: its key {key!r:.100} is not a text")  # noqa: TRY004
        holders = [each for each in level if isinstance(each, dict | list | tuple)]
        if not holders:
            return data
        level = [item for each in holders for item in (each.values() if isinstance(each, dict) else each)]
    raise ValueError(f"{name} is nested deeper than {_DEEPEST} levels")


def decode(data: bytes) -> object:
    """Read untrusted JSON. Raises ``ValueError``."""
    try:
        value: object = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    encode(value, "the value")  # refuses NaN, and halves of surrogate pairs written as escapes
    return value
