"""The encoder of BERT as an ONNX graph over the weights of a ``model.safetensors``, which is not copied.

J. Devlin et al.: BERT, NAACL 2019. The graph is a few kilobytes, names the weights by their places in the
file, and uses the fused operators of onnxruntime; joining and transposing the weights is left to its constant
folding. The format of ONNX is protobuf, whose fields are written by their numbers in ``onnx.proto`` (they never
change), so that neither the package ``onnx`` nor its compiler is needed for a few kilobytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from vectorstores.base import EmbeddingError

WEIGHTS: Final = "model.safetensors"
Attribute: TypeAlias = "float | Sequence[int]"

# Types of numbers, versions of the format and of its operators, and the mark of numbers that lie in a file.
_FLOAT, _INT32 = 1, 6
_IR_VERSION, _OPSET, _CONTRIB_OPSET = 8, 17, 1
_EXTERNAL: Final = 1
_CONTRIB: Final = "com.microsoft"
_KINDS: Final = {"F32": _FLOAT, "F16": 10, "BF16": 16}
_MOST_HEADER: Final = 100_000_000


def build_encoder(config: Mapping[str, Any], weights: Path) -> bytes:
    """Return the model: int32 ``input_ids``, ``attention_mask`` and ``token_type_ids`` of shape ``(texts,
    tokens)`` to float32 ``last_hidden_state`` of shape ``(texts, tokens, hidden)``.

    Tensors are looked up in the folder of ``weights``, by the file's name. Raises :class:`EmbeddingError` for
    weights or a configuration that are not those of a plain BERT.
    """
    activation, positions = config.get("hidden_act"), config.get("position_embedding_type", "absolute")
    if activation != "gelu" or positions != "absolute":
        raise EmbeddingError(
            f"{weights.parent}: onnxruntime is given BERT with gelu and absolute positions only, this model"
            f" has {activation} and {positions}; use SentenceTransformerEmbedder"
        )
    graph = _Graph(weights, config)
    graph.embed()
    try:
        layers, heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
    except (KeyError, TypeError, ValueError) as error:
        raise EmbeddingError(f"{weights.parent}/config.json: no usable {error}") from error
    for number in range(layers):
        graph.layer(f"encoder.layer.{number}", heads)
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    return _model(
        [*graph.nodes, _node("Identity", [graph.state], ["last_hidden_state"])],
        graph.tensors.values(),
        [_value(name, _INT32, ("texts", "tokens")) for name in inputs],
        [_value("last_hidden_state", _FLOAT, ("texts", "tokens", "hidden"))],
    )


class _Graph:
    """A graph that grows layer by layer; ``state`` names what the last one gives."""

    def __init__(self, weights: Path, config: Mapping[str, Any]) -> None:
        self.nodes: list[bytes] = []
        self.tensors: dict[str, bytes] = {}
        self.state = "embedded"
        self._weights = weights
        self._start, self._header = _read_header(weights)
        self._prefix = "bert." if any(name.startswith("bert.") for name in self._header) else ""
        self._small = float(config.get("layer_norm_eps", 1e-12))

    def embed(self) -> None:
        tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
        weights = [
            *(self._tensor(f"embeddings.{table}.weight") for table in tables),
            *(self._tensor(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias")),
        ]
        inputs = ["input_ids", "token_type_ids", *weights, "attention_mask"]
        # The operator gives the lengths of the texts too, which nothing reads, and insists on a name for them.
        attributes = {"epsilon": self._small}
        outputs = [self.state, "lengths"]
        self.nodes.append(
            _node("EmbedLayerNormalization", inputs, outputs, domain=_CONTRIB, attributes=attributes)
        )

    def layer(self, place: str, heads: int) -> None:
        attention, parts = f"{place}.attention", ("query", "key", "value")
        rows = [self._tensor(f"{attention}.self.{part}.weight") for part in parts]
        biases = [self._tensor(f"{attention}.self.{part}.bias") for part in parts]
        joined, bias = f"{attention}.joined", f"{attention}.bias"
        self.nodes.append(_node("Concat", rows, [joined], attributes={"axis": 0}))
        self.nodes.append(_node("Concat", biases, [bias], attributes={"axis": 0}))
        inputs = [self.state, self._transposed(joined), bias, "attention_mask"]
        self._fused("Attention", inputs, f"{attention}.seen", num_heads=heads)
        self._add_and_normalise(f"{attention}.seen", f"{attention}.output")

        dense = f"{place}.intermediate.dense"
        self._fused(
            "BiasGelu", [self._product(self.state, dense), self._tensor(f"{dense}.bias")], f"{dense}.active"
        )
        self._add_and_normalise(f"{dense}.active", f"{place}.output")

    def _add_and_normalise(self, given: str, place: str) -> None:
        """Project ``given``, add it to the state and normalise, as each half of a layer ends."""
        weights = [
            self._tensor(f"{place}.{part}") for part in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        ]
        inputs = [self._product(given, f"{place}.dense"), self.state, *weights]
        self.state = f"{place}.state"
        self._fused("SkipLayerNormalization", inputs, self.state, epsilon=self._small)

    def _product(self, given: str, place: str) -> str:
        weight = self._transposed(self._tensor(f"{place}.weight"))
        self.nodes.append(_node("MatMul", [given, weight], [f"{place}.product"]))
        return f"{place}.product"

    def _transposed(self, name: str) -> str:
        self.nodes.append(_node("Transpose", [name], [f"{name}.T"], attributes={"perm": (1, 0)}))
        return f"{name}.T"

    def _fused(self, operator: str, inputs: Sequence[str], output: str, **attributes: float) -> None:
        self.nodes.append(_node(operator, inputs, [output], domain=_CONTRIB, attributes=attributes))

    def _tensor(self, name: str) -> str:
        """Name a weight as float32 in the graph, declaring it at its first use."""
        entry = self._header.get(self._prefix + name)
        if not isinstance(entry, dict) or entry.get("dtype") not in _KINDS:
            found = "is missing" if entry is None else f"is of type {entry.get('dtype')}"
            raise EmbeddingError(f"{self._weights}: {self._prefix + name} {found}; this is no BERT encoder")
        if name not in self.tensors:
            kind, (begin, end) = _KINDS[entry["dtype"]], entry["data_offsets"]
            place = self._weights, self._start + begin, end - begin
            self.tensors[name] = _stored_tensor(name, entry["shape"], kind, place)
            if kind != _FLOAT:
                self.nodes.append(_node("Cast", [name], [f"{name}.float"], attributes={"to": _FLOAT}))
        return name if entry["dtype"] == "F32" else f"{name}.float"


def _read_header(weights: Path) -> tuple[int, dict[str, Any]]:
    """Return where the numbers of a safetensors file begin, and its table of tensors."""
    try:
        with weights.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, _MOST_HEADER)))
        last = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise EmbeddingError(f"{weights} can't be read: {error}; install the model again") from error
    if weights.stat().st_size < 8 + length + last:
        raise EmbeddingError(f"{weights} is cut short; install the model again")
    return 8 + length, header


def _node(
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


def _stored_tensor(name: str, shape: Sequence[int], kind: int, place: tuple[Path, int, int]) -> bytes:
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


def _value(name: str, kind: int, dimensions: Iterable[str]) -> bytes:
    """Return a ``ValueInfoProto``: an input or output whose dimensions have names, not sizes."""
    shape = b"".join(_field(1, _field(2, dimension)) for dimension in dimensions)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _model(
    nodes: Iterable[bytes], tensors: Iterable[bytes], inputs: Iterable[bytes], outputs: Iterable[bytes]
) -> bytes:
    """Return a ``ModelProto`` over the standard operators and those of onnxruntime."""
    parts = ((1, nodes), (5, tensors), (11, inputs), (12, outputs))
    graph = _field(2, "encoder") + b"".join(_field(number, item) for number, items in parts for item in items)
    operators = b"".join(
        _field(8, _field(1, domain) + _field(2, version))
        for domain, version in (("", _OPSET), (_CONTRIB, _CONTRIB_OPSET))
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
