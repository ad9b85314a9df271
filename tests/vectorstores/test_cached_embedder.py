"""An embedder with a memory on disk."""

import sqlite3
from pathlib import Path

import anyio
import numpy as np
import pytest

from vectorstores import (
    CachedEmbedder,
    Embedder,
    EmbeddingError,
    HashingEmbedder,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: test_embedder_contract.py runs every embedder on both."""
    return "asyncio"


class Counting(HashingEmbedder):
    def __init__(self, dim: int = 16) -> None:
        super().__init__(dim)
        self.asked: list[str] = []

    async def embed(self, texts):
        self.asked += texts
        return await super().embed(texts)


async def test_a_text_is_computed_once_in_the_order_asked(tmp_path):
    inner = Counting()
    plain = await HashingEmbedder(16).embed(["a", "b", "a", "c"])
    async with CachedEmbedder(inner, tmp_path / "folder" / "cache.sqlite3") as embedder:
        assert isinstance(embedder, Embedder)
        assert (embedder.id, embedder.dim, repr(embedder)) == (inner.id, 16, repr(inner))
        assert np.allclose(await embedder.embed(["b"]), plain[1:2])
        assert np.allclose(await embedder.embed(["a", "b", "a", "c"]), plain)
        assert (await embedder.embed([])).shape == (0, 16)
    assert inner.asked == ["b", "a", "c"]
    async with CachedEmbedder(again := Counting(), tmp_path / "folder" / "cache.sqlite3") as embedder:
        assert np.allclose(await embedder.embed(["c", "a"]), plain[[3, 0]])
    assert again.asked == []


async def test_embedders_share_a_file_without_mixing(tmp_path):
    path = tmp_path / "cache.sqlite3"
    for dim in (16, 24):
        async with CachedEmbedder(Counting(dim), path) as embedder:
            assert (await embedder.embed(["a"])).shape == (1, dim)


async def test_the_file_holds_no_text_and_is_for_this_user_alone(tmp_path):
    path = tmp_path / "cache.sqlite3"
    async with CachedEmbedder(Counting(), path) as embedder:
        await embedder.embed(["my secret question"])
        files = list(tmp_path.iterdir())
        assert all(b"secret" not in file.read_bytes() for file in files)
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


async def test_the_least_recently_used_make_room(tmp_path, monkeypatch):
    path = tmp_path / "cache.sqlite3"
    inner = Counting()
    monkeypatch.setattr("vectorstores.embedders.cached.CAPACITY", 100)
    async with CachedEmbedder(inner, path) as embedder:
        await embedder.embed(["old", "kept"])
        for batch in range(2):
            await embedder.embed(["kept"])
            await embedder.embed([f"{batch} {n}" for n in range(70)])
        inner.asked.clear()
        await embedder.embed(["kept"])
        assert inner.asked == []
        await embedder.embed(["old"])
        assert inner.asked == ["old"]
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM embeddings").fetchone()
    connection.close()
    assert count <= 101


async def test_a_failing_embedder_leaves_nothing_in_the_cache(tmp_path):
    class Broken(Counting):
        async def embed(self, texts):
            await super().embed(texts)
            return np.full((len(texts), 16), np.nan, dtype=np.float32)

    for _ in range(2):
        async with CachedEmbedder(inner := Broken(), tmp_path / "cache.sqlite3") as embedder:
            with pytest.raises(EmbeddingError, match="NaN"):
                await embedder.embed(["a"])
        assert inner.asked == ["a"]


async def test_places_that_hold_no_cache(tmp_path):
    other = tmp_path / "other.sqlite3"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    text = tmp_path / "text"
    text.write_text("some text, not a database, long enough to be read as a header" * 20)
    for path, error in (
        (other, StoreCorruptError),
        (text, StoreCorruptError),
        (text / "x", StoreUnavailableError),
    ):
        with pytest.raises(error, match=str(path)):
            await CachedEmbedder(Counting(), Path(path)).embed(["a"])


async def test_a_closed_cache_says_so(tmp_path):
    embedder = CachedEmbedder(Counting(), tmp_path / "cache.sqlite3")
    await embedder.embed(["a"])
    await embedder.close()
    await embedder.close()
    with pytest.raises(StoreClosedError):
        await embedder.embed(["a"])


async def test_many_tasks_share_it(tmp_path):
    async with (
        CachedEmbedder(Counting(), tmp_path / "cache.sqlite3") as embedder,
        anyio.create_task_group() as tasks,
    ):
        for n in range(50):
            tasks.start_soon(embedder.embed, [f"text {n % 5}"])
