"""The encoder of BERT as an ONNX graph over the weights of a ``model.safetensors``, which is not copied.

J. Devlin et al.: BERT, NAACL 2019. The graph is a few kilobytes, names the weights by their places in the
file, and uses the fused operators of onnxruntime; joining and transposing the weights is left to its constant
folding.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from vectorstores.base import EmbeddingError
from vectorstores.embedders._onnx_file import CONTRIB, FLOAT, INT32, model, node, stored_tensor, value

WEIGHTS: Final = "model.safetensors"
_KINDS: Final = {"F32": FLOAT, "F16": 10, "BF16": 16}
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
    return model(
        [*graph.nodes, node("Identity", [graph.state], ["last_hidden_state"])],
        graph.tensors.values(),
        [value(name, INT32, ("texts", "tokens")) for name in inputs],
        [value("last_hidden_state", FLOAT, ("texts", "tokens", "hidden"))],
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
            node("EmbedLayerNormalization", inputs, outputs, domain=CONTRIB, attributes=attributes)
        )

    def layer(self, place: str, heads: int) -> None:
        attention, parts = f"{place}.attention", ("query", "key", "value")
        rows = [self._tensor(f"{attention}.self.{part}.weight") for part in parts]
        biases = [self._tensor(f"{attention}.self.{part}.bias") for part in parts]
        joined, bias = f"{attention}.joined", f"{attention}.bias"
        self.nodes.append(node("Concat", rows, [joined], attributes={"axis": 0}))
        self.nodes.append(node("Concat", biases, [bias], attributes={"axis": 0}))
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
        self.nodes.append(node("MatMul", [given, weight], [f"{place}.product"]))
        return f"{place}.product"

    def _transposed(self, name: str) -> str:
        self.nodes.append(node("Transpose", [name], [f"{name}.T"], attributes={"perm": (1, 0)}))
        return f"{name}.T"

    def _fused(self, operator: str, inputs: Sequence[str], output: str, **attributes: float) -> None:
        self.nodes.append(node(operator, inputs, [output], domain=CONTRIB, attributes=attributes))

    def _tensor(self, name: str) -> str:
        """Name a weight as float32 in the graph, declaring it at its first use."""
        entry = self._header.get(self._prefix + name)
        if not isinstance(entry, dict) or entry.get("dtype") not in _KINDS:
            found = "is missing" if entry is None else f"is of type {entry.get('dtype')}"
            raise EmbeddingError(f"{self._weights}: {self._prefix + name} {found}; this is no BERT encoder")
        if name not in self.tensors:
            kind, (begin, end) = _KINDS[entry["dtype"]], entry["data_offsets"]
            place = self._weights, self._start + begin, end - begin
            self.tensors[name] = stored_tensor(name, entry["shape"], kind, place)
            if kind != FLOAT:
                self.nodes.append(node("Cast", [name], [f"{name}.float"], attributes={"to": FLOAT}))
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
