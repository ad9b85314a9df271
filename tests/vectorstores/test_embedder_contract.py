"""What holds for every embedder: any text has a unit vector, and what is no text is refused by its index."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import anyio
import numpy as np
import pytest
from embedding_service import DIM, Service
from small_bert import make_bert

from vectorstores import (
    Embedder,
    EmbeddingError,
    HashingEmbedder,
    HttpEmbedder,
    OnnxEmbedder,
    SentenceTransformerEmbedder,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]
NEEDED = {"onnx": ("onnxruntime", "tokenizers"), "sentence-transformers": ("sentence_transformers",)}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    serving = Service()
    yield serving
    serving.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_bert(tmp_path_factory.mktemp("contract") / "model"))


@pytest.fixture(params=["hashing", "http", *NEEDED])
def embedder(request: pytest.FixtureRequest, service: Service, model: str, tmp_path: Path) -> Embedder:
    for name in NEEDED.get(request.param, ()):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    made: dict[str, Embedder] = {
        "hashing": HashingEmbedder(DIM),
        "http": HttpEmbedder("m", dim=DIM, base_url=service.url, api_key=""),
    }
    if request.param in made:
        return made[request.param]
    if request.param == "onnx":
        return OnnxEmbedder(model)
    return SentenceTransformerEmbedder(model, device="cpu")


@pytest.fixture(autouse=True)
async def closed(embedder: Embedder):
    yield
    if isinstance(embedder, HttpEmbedder):
        await embedder.close()


TEXTS = [
    "put the mug on the desk",
    "",
    "   ",
    "\n\t",
    "mug \x00 \u202e 🎉",
    "a lamp " * 30_000,  # longer than what one request may hold
    "y" * 210_000,
]


async def test_any_text_has_a_unit_vector_that_its_neighbours_do_not_change(embedder):
    together = await embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), embedder.dim)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, row in zip(TEXTS, together, strict=True):
        assert np.allclose((await embedder.embed((text,)))[0], row, atol=1e-5)


async def test_no_texts_have_no_vectors(embedder):
    nothing = await embedder.embed([])
    assert nothing.shape == (0, embedder.dim)
    assert nothing.dtype == np.float32


async def test_what_is_no_text_is_refused_by_its_index(embedder):
    for wrong in ("half of \ud83d", "\udcff", None, 7, b"bytes"):
        with pytest.raises(EmbeddingError, match=r"texts\[1\]"):
            await embedder.embed(["a", wrong])
    with pytest.raises(TypeError, match="one string"):
        await embedder.embed("one string")
    assert (await embedder.embed(["a"])).shape == (1, embedder.dim)


async def test_many_callers_get_their_own(embedder):
    texts = [f"mug {'on desk ' * (n % 5)}lamp" for n in range(12)]
    known = await embedder.embed(texts)
    found: dict[int, np.ndarray] = {}
    failed: list[int] = []

    async def ask(n: int) -> None:
        try:
            found[n] = await embedder.embed([texts[n], "\udcff"] if n == 5 else [texts[n]])
        except EmbeddingError:
            failed.append(n)

    async with anyio.create_task_group() as tasks:
        for n in range(12):
            tasks.start_soon(ask, n)
    assert failed == [5]
    for n, rows in found.items():
        assert np.allclose(rows[0], known[n], atol=1e-5)
