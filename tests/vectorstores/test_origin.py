"""What made a store, without its embedder."""

import pytest

from vectorstores import (
    AbsentEmbedder,
    Chunk,
    EmbedderMismatchError,
    EmbeddingError,
    FaissVectorStore,
    HashingEmbedder,
    StoreCorruptError,
    StoreUnavailableError,
    origin_of,
)

pytestmark = pytest.mark.anyio


async def test_a_store_says_what_made_it_and_opens_without_it(tmp_path):
    folder = tmp_path / "store"
    made = HashingEmbedder(64)
    async with FaissVectorStore(folder, embedder=made, namespace="n") as store:
        await store.add([Chunk("one"), Chunk("two", id="2")])
    origin = origin_of(folder)
    assert origin == AbsentEmbedder(made.id, repr(made), 64)
    async with FaissVectorStore(folder, embedder=origin, namespace="n", create=False) as store:
        assert await store.count() == 2
        assert await store.delete(["2"]) == 1
        with pytest.raises(EmbeddingError, match="without its embedder"):
            await store.search("never seen")
        with pytest.raises(EmbeddingError):
            await store.add([Chunk("three")])
        assert await store.count() == 1
    async with FaissVectorStore(folder, embedder=made, namespace="n") as store:
        assert [hit.chunk.content for hit in await store.search("one")] == ["one"]


async def test_another_origin_is_refused_like_any_embedder(tmp_path):
    async with FaissVectorStore(tmp_path / "store", embedder=HashingEmbedder(64), namespace="n"):
        pass
    stranger = AbsentEmbedder("other", "Other()", 64)
    with pytest.raises(EmbedderMismatchError, match=r"Other\(\)"):
        async with FaissVectorStore(tmp_path / "store", embedder=stranger, namespace="n"):
            pass


def test_where_there_is_no_store_there_is_no_origin(tmp_path):
    assert origin_of(tmp_path / "missing") is None
    assert origin_of(tmp_path) is None
    assert origin_of("memory://") is None
    assert not (tmp_path / "missing").exists()
    with pytest.raises(StoreUnavailableError):
        origin_of("ftp://example.org")


def test_a_file_that_is_no_database_is_damage(tmp_path):
    (tmp_path / "store.sqlite3").write_bytes(b"nothing " * 500)
    with pytest.raises(StoreCorruptError):
        origin_of(tmp_path)
