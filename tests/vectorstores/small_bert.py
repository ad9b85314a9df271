"""Small BERT models with random weights, as folders of sentence-transformers' form."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, INNER, POSITIONS = 16, 32, 64
WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "put", "a", "the", "clean", "mug", "on", "desk", "lamp"),
    *("in", "safe", "query", ":", "##s", "##ing", "word"),
]


def make_bert(folder: Path, *, dtype: str = "F32", prefix: str = "", **changes: Any) -> Path:
    """Write a model; ``changes`` are merged into the files of these names (without ``.json``)."""
    (folder / "1_Pooling").mkdir(parents=True)
    files: dict[str, Any] = {
        "config": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": HIDDEN,
            "intermediate_size": INNER,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": POSITIONS,
            "type_vocab_size": 2,
            "vocab_size": len(WORDS),
            "layer_norm_eps": 1e-12,
            "pad_token_id": 0,
        },
        "sentence_bert_config": {"max_seq_length": 12, "do_lower_case": False},
        "config_sentence_transformers": {},
        "tokenizer_config": {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": True,
            "model_max_length": 512,
            **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
        },
        "1_Pooling/config": {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
        "tokenizer": tokenizer(),
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps({**content, **changes.get(name, {})}))
    kinds = "sentence_transformers.models."
    modules = changes.get("modules", ["Transformer", "Pooling", "Normalize"])
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": n, "name": str(n), "path": paths.get(kind, f"{n}_{kind}"), "type": kinds + kind}
                for n, kind in enumerate(modules)
            ]
        )
    )
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    write_weights(folder / "model.safetensors", weights(prefix), dtype)
    return folder


def tokenizer() -> dict[str, Any]:
    special = {word: WORDS.index(word) for word in WORDS[:5]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": {
            "strategy": {"Fixed": 32},
            "direction": "Right",
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
            "pad_to_multiple_of": None,
        },
        "added_tokens": [
            {
                "id": id,
                "content": word,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for word, id in special.items()
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                word: {"id": word, "ids": [special[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: n for n, word in enumerate(WORDS)},
        },
    }


def weights(prefix: str) -> dict[str, np.ndarray]:
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for layer in range(2):
        place = f"encoder.layer.{layer}."
        for part in (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        ):
            shapes |= {f"{place}{part}.weight": (HIDDEN, HIDDEN), f"{place}{part}.bias": (HIDDEN,)}
        shapes |= {
            f"{place}intermediate.dense.weight": (INNER, HIDDEN),
            f"{place}intermediate.dense.bias": (INNER,),
        }
        shapes |= {f"{place}output.dense.weight": (HIDDEN, INNER), f"{place}output.dense.bias": (HIDDEN,)}
        for part in ("attention.output", "output"):
            shapes |= {f"{place}{part}.LayerNorm.{end}": (HIDDEN,) for end in ("weight", "bias")}
    random = np.random.default_rng(7)
    return {
        prefix + name: random.normal(float(name.endswith("LayerNorm.weight")), 0.3, shape)
        for name, shape in shapes.items()
    }


def write_weights(path: Path, tensors: dict[str, np.ndarray], dtype: str) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        numbers = tensor.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": tensor.shape,
            "data_offsets": [len(data), len(data) + len(numbers)],
        }
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
