"""Writes models in the format of ONNX: as much of it as :mod:`vectorstores.embedders._bert` needs.

The format is protobuf, whose fields are written here by their numbers in ``onnx.proto`` (they never change),
so that neither the package ``onnx`` nor its compiler is needed for a few kilobytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

Attribute: TypeAlias = "float | Sequence[int]"

FLOAT: Final = 1
INT32: Final = 6
_IR_VERSION: Final = 8
OPSET: Final = 17
CONTRIB: Final = "com.microsoft"
_CONTRIB_OPSET: Final = 1
_EXTERNAL: Final = 1


def node(
    operator: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    *,
    domain: str = "",
    attributes: Mapping[str, Attribute] | None = None,
) -> bytes:
    """Return a ``NodeProto``."""
    return b"".join(
        (
            *(_field(1, name) for name in inputs),
            *(_field(2, name) for name in outputs),
            _field(4, operator),
            *(_field(5, _attribute(name, value)) for name, value in (attributes or {}).items()),
            _field(7, domain),
        )
    )


def stored_tensor(name: str, shape: Sequence[int], kind: int, place: tuple[Path, int, int]) -> bytes:
    """Return a ``TensorProto`` whose numbers lie in a file; ``place`` is file, offset and length in bytes."""
    file, offset, length = place
    entries = (("location", file.name), ("offset", str(offset)), ("length", str(length)))
    return b"".join(
        (
            *(_field(1, size) for size in shape),
            _field(2, kind),
            _field(8, name),
            *(_field(13, _field(1, key) + _field(2, value)) for key, value in entries),
            _field(14, _EXTERNAL),
        )
    )


def value(name: str, kind: int, dimensions: Iterable[str]) -> bytes:
    """Return a ``ValueInfoProto``: an input or output whose dimensions have names, not sizes."""
    shape = b"".join(_field(1, _field(2, dimension)) for dimension in dimensions)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def model(
    nodes: Iterable[bytes], tensors: Iterable[bytes], inputs: Iterable[bytes], outputs: Iterable[bytes]
) -> bytes:
    """Return a ``ModelProto`` over the standard operators and those of onnxruntime."""
    parts = ((1, nodes), (5, tensors), (11, inputs), (12, outputs))
    graph = _field(2, "encoder") + b"".join(_field(number, item) for number, items in parts for item in items)
    operators = b"".join(
        _field(8, _field(1, domain) + _field(2, version))
        for domain, version in (("", OPSET), (CONTRIB, _CONTRIB_OPSET))
    )
    return _field(1, _IR_VERSION) + _field(7, graph) + operators


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        content = _field(3, value) + _field(20, 2)
    elif isinstance(value, float):
        content = _field(2, value) + _field(20, 1)
    else:
        content = b"".join(_field(8, item) for item in value) + _field(20, 7)
    return _field(1, name) + content


def _field(number: int, content: float | str | bytes) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    if isinstance(content, float):
        return _varint(number << 3 | 5) + struct.pack("<f", content)
    data = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
