"""What is the store's in memory alone: who waits for whom within one process."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from vectorstores import Chunk, HashingEmbedder, InMemoryVectorStore
from vectorstores._engine import EmbeddingCache

pytestmark = pytest.mark.anyio


async def test_the_event_loop_goes_on_while_a_worker_thread_has_the_store():
    async with InMemoryVectorStore(HashingEmbedder(dim=8), namespace="tests") as store:
        await store.append_once("collection", "key", {"n": 1})
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await store.get("collection", "key"))

        async with anyio.create_task_group() as group:
            with store._engine._lock:
                group.start_soon(ask)
                # As many turns of the loop as it takes to see that it has them.
                for _ in range(100):
                    await anyio.lowlevel.checkpoint()
                assert not answers
        assert answers[0].value == {"n": 1}


async def test_pages_of_what_was_deleted_and_added_again_have_each_once():
    async with InMemoryVectorStore(HashingEmbedder(dim=8), namespace="tests") as store:
        for n in range(10):
            await store.append_once("notes", f"k{n}", n)
            await store.add([Chunk(f"text {n}", id=f"c{n}")])
        await store.delete_records("notes", ["k2", "k7"])
        await store.delete(["c2", "c7"])
        first, page = await store.scan_records("notes", limit=3), await store.scan(limit=3)
        await store.append_once("notes", "k2", 2)
        await store.add([Chunk("text 2", id="c2")])
        keys, ids = [each.key for each in first.records], [each.id for each in page.chunks]
        while first.next is not None:
            first = await store.scan_records("notes", after=first.next, limit=3)
            keys += [each.key for each in first.records]
        while page.next is not None:
            page = await store.scan(after=page.next, limit=3)
            ids += [each.id for each in page.chunks]
        assert keys == ["k0", "k1", "k3", "k4", "k5", "k6", "k8", "k9", "k2"]
        assert ids == [f"c{key[1:]}" for key in keys]


async def test_the_last_embeddings_alone_are_cached():
    cache = EmbeddingCache(2)
    await cache.remember({b"a": np.zeros(1), b"b": np.zeros(1)})
    await cache.remember({b"c": np.ones(1)})
    assert set(await cache.cached([b"a", b"b", b"c"])) == {b"b", b"c"}
