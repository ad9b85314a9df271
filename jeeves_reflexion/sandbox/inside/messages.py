"""What crosses between the processes: eight bytes of length, then bytes or JSON; values cross as JSON, nothing else."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from typing import Any

LENGTH = struct.Struct(">Q")
RESULT = "result"
"""The name of the variable whose value a program comes to."""
_DEEPEST = 200
_write, _dumps = os.write, json.dumps  # kept: code in the same process may replace them


def packed(data: bytes) -> bytes:
    """Return ``data`` with its length in front."""
    return LENGTH.pack(len(data)) + data


def send(descriptor: int, data: bytes) -> None:
    """Write all of ``data``."""
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def send_json(descriptor: int, value: object) -> None:
    """Write one message that is JSON."""
    send(descriptor, packed(json.dumps(value).encode()))


def receive(descriptor: int) -> bytes | None:
    """Read one message; ``None`` when the other end closed before it was whole."""
    head = _exactly(descriptor, LENGTH.size)
    return None if head is None else _exactly(descriptor, LENGTH.unpack(head)[0])


def receive_json(descriptor: int) -> dict[str, Any] | None:
    """Read one message that is a JSON object."""
    data = receive(descriptor)
    return None if data is None else dict(json.loads(data))


def receive_request(result: int, descriptor: int) -> dict[str, Any]:
    """Read what is to be run, in the code's process; ends it where nothing comes, or no memory is left for it."""
    try:
        request = receive_json(descriptor)
    except MemoryError:
        send(result, b'{"error": {"kind": "memory_mb", "message": "no memory left to read the inputs"}}')
        request = None
    if request is None:
        os._exit(0)
    return request


def _exactly(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = os.read(descriptor, min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def tell(status: int, message: dict[str, object]) -> None:
    """Say something to the supervisor, if it is there: one line, short enough to arrive in one piece."""
    with contextlib.suppress(BrokenPipeError):
        send(status, json.dumps(message)[:3000].encode() + b"\n")


def tell_problem(status: int, error: BaseException) -> None:
    """Say why the code can't be run: the host raises it."""
    tell(status, {"problem": str(error) or type(error).__name__})


def failure(**problem: object) -> bytes:
    """Return the message that the code made no value: its ``kind`` (a limit, ``value`` or ``raised``), and more."""
    return b'{"error": ' + encode(problem, "error") + b"}"


def encode(value: object, name: str) -> bytes:
    """Return ``value`` as JSON; tuples become lists. Raises ``ValueError`` that says which part is no JSON."""
    _check(value, name, 0)
    try:
        return _dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # a whole number of more digits than Python writes
        raise ValueError(f"{name} is no JSON: {error}") from None


def decode(data: bytes) -> object:
    """Read JSON that may come from anybody. Raises ``ValueError``."""
    try:
        value: object = json.loads(data.decode(), parse_constant=_refuse)
        _check(value, "the value", 0)  # depth, and halves of surrogate pairs that were written as escapes
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _check(value: object, path: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"{path[:200]} is nested deeper than {_DEEPEST} levels, or in itself")
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path} is no JSON: its key {key!r:.100} is no text")  # noqa: TRY004
            _check(key, f"a key of {path}", depth + 1)
            _check(item, f"{path}[{key!r:.100}]", depth + 1)
    else:
        _check_leaf(value, path)


def _check_leaf(value: object, path: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{path} is no JSON: text with half of a surrogate pair") from None
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} is no JSON: {value}")
    elif value is not None and not isinstance(value, int | float):
        raise ValueError(f"{path} is no JSON: {type(value).__name__}")
