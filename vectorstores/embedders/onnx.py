"""Sentence embeddings from a model on this machine, through onnxruntime: quick to load, and without torch.

The encoder of BERT (J. Devlin et al., NAACL 2019) is written as an ONNX graph of a few kilobytes, which uses the fused
operators of onnxruntime and refers to the weights by their offsets in ``model.safetensors``, without copying them. ONNX
is a protobuf format; its fields are written here by their numbers in ``onnx.proto``, which never change, so that
neither the package ``onnx`` nor its compiler is needed.
"""

from __future__ import annotations

import importlib.util
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores.base import EmbeddingError, MissingDependencyError
from vectorstores.embedders.local import LocalEmbedder, log_cut
from vectorstores.embedders.model_folder import Recipe, read_recipe

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

_WEIGHTS: Final = "model.safetensors"
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
# Data types, versions of the format and of its operators, and the mark of data stored in another file.
_FLOAT, _INT32 = 1, 6
_IR_VERSION, _OPSET, _CONTRIB_OPSET = 8, 17, 1
_EXTERNAL: Final = 1
_CONTRIB: Final = "com.microsoft"
_MOST_HEADER: Final = 100_000_000


class OnnxEmbedder(LocalEmbedder):
    """Unit vectors from a BERT encoder on onnxruntime, loaded at the first text and shared by the whole process.

    ``model`` is a folder or a name, as for :class:`~vectorstores.SentenceTransformerEmbedder`. Both make the same
    vectors and have the same ``id``, so a store made with one can be opened with the other. The model must be of type
    bert with ``model.safetensors`` in full precision (which is mapped, not copied), and mean or cls pooling.

    Raises :class:`~vectorstores.MissingDependencyError` if onnxruntime or tokenizers is not installed, and
    later :class:`~vectorstores.EmbeddingError` if the model does not exist or is of another kind.
    """

    def __init__(self, model: str = "all-MiniLM-L6-v2") -> None:
        for package in ("onnxruntime", "tokenizers"):
            if importlib.util.find_spec(package) is None:
                raise MissingDependencyError(
                    f"embedding with onnxruntime needs {package}, which is not installed:"
                    ' pip install "jeeves-reflexion[onnx]"'
                )
        super().__init__(model)

    def _load(self, folder: Path) -> Callable[[Sequence[str]], FloatArray]:
        recipe = read_recipe(folder)
        if len(recipe.pooling) != 1 or recipe.pooling[0] not in {"mean", "cls"} or recipe.other_modules:
            made = ", ".join((*recipe.pooling, *recipe.other_modules))
            raise EmbeddingError(
                f"{folder}: OnnxEmbedder supports models with mean or cls pooling and nothing after it, this one"
                f" has {made}; use SentenceTransformerEmbedder"
            )
        try:
            return _Encoder(folder, recipe)
        except EmbeddingError:
            raise
        except Exception as error:  # both libraries raise plain exceptions of their own
            raise EmbeddingError(f"the model in {folder} can't be loaded: {error}") from error


class _Encoder:
    """Texts to unit vectors."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        library, runtime = import_module("tokenizers"), import_module("onnxruntime")
        self._tokenizer = library.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(recipe.max_tokens)
        if recipe.lower_case:
            own = [self._tokenizer.normalizer] if self._tokenizer.normalizer else []
            lower = library.normalizers.Lowercase()
            self._tokenizer.normalizer = library.normalizers.Sequence([lower, *own])
        weights = (folder / _WEIGHTS).resolve()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_mem_pattern = False  # which expects inputs of one shape
        options.log_severity_level = 3
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights.parent)
        )
        self._session = runtime.InferenceSession(
            _model(folder, recipe.config, weights), options, providers=["CPUExecutionProvider"]
        )
        self._recipe = recipe
        self._told = False

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        # Unlike encode(), this lets other threads run; for one text it starts none itself.
        tokens = [self._tokenizer.encode_batch([self._recipe.prompt + text])[0] for text in texts]
        if not self._told and any(each.overflowing for each in tokens):
            self._told = True
            log_cut(self._recipe.max_tokens)
        shape = len(tokens), max(len(each.ids) for each in tokens)
        ids, mask, kinds = (np.zeros(shape, np.int32) for _ in range(3))
        for row, each in enumerate(tokens):
            length = len(each.ids)
            ids[row, :length], mask[row, :length], kinds[row, :length] = each.ids, 1, each.type_ids
        feeds = dict(zip(_INPUTS, (ids, mask, kinds), strict=True))
        (hidden,) = self._session.run(None, feeds)
        # A sum serves as the mean, since the vector is scaled to unit length.
        weights = mask.astype(np.float32)[:, np.newaxis]
        vectors = hidden[:, 0] if self._recipe.pooling == ("cls",) else (weights @ hidden)[:, 0]
        unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def _model(folder: Path, config: Mapping[str, Any], weights: Path) -> bytes:
    """Return the ``ModelProto`` of a BERT: int32 ``input_ids``, ``attention_mask`` and ``token_type_ids`` of shape
    ``(texts, tokens)`` to the float32 state of the last layer, of shape ``(texts, tokens, hidden)``.

    onnxruntime looks the weights up by file name, in the folder of ``weights``. Raises :class:`EmbeddingError` for
    weights or a configuration other than those of a plain BERT.
    """
    kind = config.get("model_type")
    if kind != "bert" or not weights.is_file():
        raise EmbeddingError(
            f"{folder} holds no model of type bert with {_WEIGHTS} (it is of type {kind});"
            " use SentenceTransformerEmbedder"
        )
    activation, positions = config.get("hidden_act"), config.get("position_embedding_type", "absolute")
    if activation != "gelu" or positions != "absolute":
        raise EmbeddingError(
            f"{weights.parent}: OnnxEmbedder supports BERT with gelu and absolute positions only, this model"
            f" has {activation} and {positions}; use SentenceTransformerEmbedder"
        )
    try:
        layers, heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
    except (KeyError, TypeError, ValueError) as error:
        raise EmbeddingError(f"{weights.parent}/config.json: no usable {error}") from error
    graph = _Graph(weights, float(config.get("layer_norm_eps", 1e-12)))
    state = graph.embed()
    for number in range(layers):
        state = graph.layer(f"encoder.layer.{number}", state, heads)
    ends = [(11, name, _INT32, ["texts", "tokens"]) for name in _INPUTS]
    ends.append((12, state, _FLOAT, ["texts", "tokens", "hidden"]))
    content = [_field(1, node) for node in graph.nodes] + [_field(2, "encoder")]
    content += [_field(5, tensor) for tensor in graph.tensors.values()]
    for number, name, kind, dimensions in ends:
        # A ValueInfoProto whose dimensions have names, not sizes.
        shape = b"".join(_field(1, _field(2, dimension)) for dimension in dimensions)
        typed = _field(1, _field(1, kind) + _field(2, shape))
        content.append(_field(number, _field(1, name) + _field(2, typed)))
    operators = [
        _field(8, _field(1, domain) + _field(2, version))
        for domain, version in (("", _OPSET), (_CONTRIB, _CONTRIB_OPSET))
    ]
    return b"".join([_field(1, _IR_VERSION), _field(7, b"".join(content)), *operators])


class _Graph:
    """Nodes and tensors of a graph under construction. Each method returns the name of what it has added."""

    def __init__(self, weights: Path, epsilon: float) -> None:
        self.nodes: list[bytes] = []
        self.tensors: dict[str, bytes] = {}
        self._epsilon = epsilon
        self._weights = weights
        try:
            with weights.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                self._header: dict[str, Any] = json.loads(file.read(min(length, _MOST_HEADER)))
            tensors = (entry for name, entry in self._header.items() if name != "__metadata__")
            last = max(entry["data_offsets"][1] for entry in tensors)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise EmbeddingError(f"{weights} can't be read: {error}; install the model again") from error
        self._start = 8 + length
        if weights.stat().st_size < self._start + last:
            raise EmbeddingError(f"{weights} is cut short; install the model again")
        self._prefix = "bert." if any(name.startswith("bert.") for name in self._header) else ""

    def embed(self) -> str:
        tables = (f"{kind}_embeddings" for kind in ("word", "position", "token_type"))
        weights = [self._tensor(f"embeddings.{part}.weight") for part in (*tables, "LayerNorm")]
        inputs = [
            "input_ids",
            "token_type_ids",
            *weights,
            self._tensor("embeddings.LayerNorm.bias"),
            "attention_mask",
        ]
        # The operator has a second output, the lengths of the texts, which is unused but needs a name.
        return self._add("EmbedLayerNormalization", *inputs, also=("lengths",), epsilon=self._epsilon)

    def layer(self, place: str, state: str, heads: int) -> str:
        parts = [f"{place}.attention.self.{part}" for part in ("query", "key", "value")]
        weight, bias = (
            self._add("Concat", *(self._tensor(f"{part}.{kind}") for part in parts), domain="", axis=0)
            for kind in ("weight", "bias")
        )
        weight = self._add("Transpose", weight, domain="")
        seen = self._add("Attention", state, weight, bias, "attention_mask", num_heads=heads)
        state = self._project(seen, state, f"{place}.attention.output")
        dense = f"{place}.intermediate.dense"
        active = self._add("BiasGelu", self._product(state, dense), self._tensor(f"{dense}.bias"))
        return self._project(active, state, f"{place}.output")

    def _project(self, given: str, state: str, place: str) -> str:
        """Project ``given``, add it to the state and normalise: the end of each half of a layer."""
        weights = [
            self._tensor(f"{place}.{part}") for part in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        ]
        product = self._product(given, f"{place}.dense")
        return self._add("SkipLayerNormalization", product, state, *weights, epsilon=self._epsilon)

    def _product(self, given: str, place: str) -> str:
        weight = self._add("Transpose", self._tensor(f"{place}.weight"), domain="")
        return self._add("MatMul", given, weight, domain="")

    def _add(
        self,
        operator: str,
        *inputs: str,
        domain: str = _CONTRIB,
        also: Sequence[str] = (),
        **attributes: float,
    ) -> str:
        """Add a ``NodeProto``; ``also`` names outputs after the first."""
        output = f"{operator}.{len(self.nodes)}"
        node = [*(_field(1, name) for name in inputs), *(_field(2, name) for name in (output, *also))]
        node += [_field(4, operator), _field(7, domain)]
        for name, value in attributes.items():
            whole = isinstance(value, int)
            content = _field(3 if whole else 2, value) + _field(20, 2 if whole else 1)
            node.append(_field(5, _field(1, name) + content))
        self.nodes.append(b"".join(node))
        return output

    def _tensor(self, name: str) -> str:
        """Name a weight in the graph. Its ``TensorProto`` refers to the data in the file of the weights."""
        entry = self._header.get(self._prefix + name)
        if not isinstance(entry, dict) or entry.get("dtype") != "F32":
            found = "is missing" if entry is None else f"is of type {entry.get('dtype')}, not F32"
            raise EmbeddingError(
                f"{self._weights}: {self._prefix + name} {found}; OnnxEmbedder supports BERT encoders in full precision"
                " only: use SentenceTransformerEmbedder"
            )
        begin, end = entry["data_offsets"]
        place = {"location": self._weights.name, "offset": self._start + begin, "length": end - begin}
        tensor = [*(_field(1, size) for size in entry["shape"]), _field(2, _FLOAT), _field(8, name)]
        tensor += [_field(13, _field(1, key) + _field(2, str(value))) for key, value in place.items()]
        self.tensors[name] = b"".join([*tensor, _field(14, _EXTERNAL)])
        return name


def _field(number: int, content: float | str | bytes) -> bytes:
    """Return a field of a protobuf message: its number and kind, and its content."""
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
