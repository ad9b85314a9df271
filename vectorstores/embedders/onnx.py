"""Sentence embeddings by a model on this machine, through onnxruntime: quick to load, and without torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vectorstores.base import EmbeddingError, MissingDependencyError
from vectorstores.embedders.bert import WEIGHTS, build_encoder
from vectorstores.embedders.local import CutNotice, LocalEmbedder
from vectorstores.embedders.model_folder import Recipe, read_recipe

if TYPE_CHECKING:
    from vectorstores.base import FloatArray


class OnnxEmbedder(LocalEmbedder):
    """Unit vectors by a BERT encoder on onnxruntime, loaded at the first text and shared by the whole
    process.

    ``model`` is a folder or a name, as for :class:`~vectorstores.SentenceTransformerEmbedder`, whose vectors
    and ``id`` it shares, so that a store made with one is opened with the other. Needs a model of type bert
    with ``model.safetensors`` (which is mapped, not copied), or any with ``onnx/model.onnx`` in its folder,
    and mean or cls pooling.

    Raises :class:`~vectorstores.MissingDependencyError` if onnxruntime or tokenizers is not installed, and
    later :class:`~vectorstores.EmbeddingError` if there is no such model or it is of another make.
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
                f"{folder}: onnxruntime is given models with mean or cls pooling and nothing after it, this one"
                f" has {made}; use SentenceTransformerEmbedder"
            )
        try:
            return _Encoder(_Tokens(folder, recipe), _session(folder, recipe), recipe.pooling[0])
        except EmbeddingError:
            raise
        except Exception as error:  # both libraries raise plain exceptions of their own
            raise EmbeddingError(f"the model in {folder} can't be loaded: {error}") from error


class _Tokens:
    """Turns a text into the numbers of its tokens."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        library = import_module("tokenizers")
        self._tokenizer = library.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(recipe.max_tokens)
        if recipe.lower_case:
            own = [self._tokenizer.normalizer] if self._tokenizer.normalizer else []
            lower = library.normalizers.Lowercase()
            self._tokenizer.normalizer = library.normalizers.Sequence([lower, *own])
        self._prompt = recipe.prompt
        self._cut = CutNotice(recipe.max_tokens)

    def __call__(self, text: str) -> Any:  # noqa: ANN401 - tokenizers.Encoding
        # Other than encode(), this lets other threads run; for one text it starts none of its own.
        (found,) = self._tokenizer.encode_batch([self._prompt + text])
        if found.overflowing:
            self._cut()
        return found


class _Encoder:
    """Texts to unit vectors."""

    def __init__(self, tokens: _Tokens, session: Any, pooling: str) -> None:  # noqa: ANN401 - onnxruntime's
        self._tokens = tokens
        self._session = session
        self._pooling = pooling
        self._inputs = {
            given.name: np.dtype(np.int32 if given.type == "tensor(int32)" else np.int64)
            for given in session.get_inputs()
        }
        outputs = [given.name for given in session.get_outputs()]
        self._output = next((name for name in _HIDDEN if name in outputs), None)
        if self._output is None or not self._inputs.keys() <= _FEEDS.keys():
            raise EmbeddingError(
                f"the ONNX model takes {sorted(self._inputs)} and gives {outputs}; it should take"
                f" {', '.join(_FEEDS)} and give {' or '.join(_HIDDEN)}"
            )

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        tokens = [self._tokens(text) for text in texts]
        shape = len(tokens), max(len(each.ids) for each in tokens)
        feeds = {name: np.zeros(shape, dtype) for name, dtype in self._inputs.items()}
        mask = np.zeros(shape, np.float32)
        for row, each in enumerate(tokens):
            mask[row, : len(each.ids)] = 1.0
            for name, array in feeds.items():
                array[row, : len(each.ids)] = getattr(each, _FEEDS[name])
        (hidden,) = self._session.run([self._output], feeds)
        # The mean's divisor falls away when the length of the vector is made one.
        vectors = hidden[:, 0] if self._pooling == "cls" else (mask[:, np.newaxis] @ hidden)[:, 0]
        unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


_FEEDS: Final = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
_HIDDEN: Final = ("last_hidden_state", "token_embeddings")


def _session(folder: Path, recipe: Recipe) -> Any:  # noqa: ANN401 - onnxruntime.InferenceSession
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # it is for inputs of one shape
    options.log_severity_level = 3
    weights, ready = (folder / WEIGHTS).resolve(), folder / "onnx" / "model.onnx"
    if recipe.config.get("model_type") == "bert" and weights.is_file():
        source: str | bytes = build_encoder(recipe.config, weights)
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights.parent)
        )
    elif ready.is_file():
        source = str(ready.resolve())
    else:
        raise EmbeddingError(
            f"{folder} holds neither a model of type bert with {WEIGHTS} nor onnx/model.onnx (it is of type"
            f" {recipe.config.get('model_type')}); use SentenceTransformerEmbedder"
        )
    return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
