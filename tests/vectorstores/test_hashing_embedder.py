"""The embedder without a model."""

import subprocess
import sys
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectorstores import Embedder, HashingEmbedder


def embed(*texts: str, dim: int = 512) -> np.ndarray:
    return anyio.run(HashingEmbedder(dim).embed, texts)


@given(st.lists(st.text(max_size=40), max_size=5))
def test_every_text_has_a_unit_vector_that_depends_on_nothing_else(texts):
    together = embed(*texts, dim=64)
    assert together.shape == (len(texts), 64)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, row in zip(texts, together, strict=True):
        assert (embed(text, dim=64)[0] == row).all()


def test_the_same_text_has_the_same_vector_in_another_process():
    script = (
        "import anyio; from vectorstores import HashingEmbedder;"
        "print(anyio.run(HashingEmbedder().embed, ['put a clean mug on the desk']).tobytes().hex())"
    )
    root = Path(__file__).parents[2]
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in (1, 2)
    }
    assert printed == {embed("put a clean mug on the desk").tobytes().hex()}


def test_texts_that_share_words_or_stems_are_near():
    query, same_task, stem, other, stop_words = embed(
        "put a clean mug in the coffee machine",
        "clean a mug and put it in the coffee machine",
        "cleaning mugs",
        "examine the alarm clock with the desk lamp",
        "what is in the one that you have been with",
    )
    assert query @ same_task > 0.7
    assert query @ stem > 0.1
    assert abs(query @ other) < 0.08
    assert abs(query @ stop_words) < 0.08


def test_case_and_punctuation_do_not_count():
    one, other = embed("Put the MUG, on: the desk!", "put the mug on the desk")
    assert one @ other == pytest.approx(1.0, abs=1e-6)


def test_it_is_an_embedder_that_names_its_vectors():
    assert isinstance(HashingEmbedder(), Embedder)
    assert HashingEmbedder().dim == 512
    assert HashingEmbedder(64).id != HashingEmbedder(65).id
    assert HashingEmbedder(64).id == HashingEmbedder(64).id
    with pytest.raises(ValueError, match="dim"):
        HashingEmbedder(0)


@pytest.mark.anyio
async def test_a_large_batch_does_not_hold_up_the_loop():
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await anyio.sleep(0.001)
            beats += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        await HashingEmbedder().embed([f"text {n} with words of its own {n * 7}" for n in range(2000)])
        tasks.cancel_scope.cancel()
    assert beats > 0
