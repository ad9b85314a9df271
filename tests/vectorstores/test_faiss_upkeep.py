"""What a store on disk keeps in memory beside its vectors, and what becomes of it while others write."""

import threading
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest

from vectorstores import Chunk, FaissVectorStore, HashingEmbedder
from vectorstores.sqlite_faiss import codes, index, namespace, snapshot, upkeep
from vectorstores.sqlite_faiss.namespace import Namespace

pytestmark = pytest.mark.anyio
DIM = 32


def open_at(path: Path) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def vectors(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def chunks(count: int, **metadata: object) -> list[Chunk]:
    return [Chunk(f"text {n}", f"c{n}", metadata, vector=v) for n, v in enumerate(vectors(count))]


def space_of(store: FaissVectorStore) -> Namespace:
    return store._engine._state.index.get("test")


async def test_values_that_nothing_has_any_more_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(namespace, "_MANY", 50)
    async with open_at(tmp_path) as store:
        await store.add(chunks(20, state="open"))
        for step in range(60):
            kept = chunks(3)
            await store.add(
                [replace(kept[n], metadata={"state": "open", "seen": 3 * step + n}) for n in range(3)]
            )
            (hit,) = await store.search(vectors(1)[0], filter={"seen": 3 * step + 2})
            assert hit.chunk.id == "c2"
            assert len(await store.search(vectors(1)[0], k=20, filter={"state": "open"})) == 20
            assert len(space_of(store).columns["seen"]._values) < 60


async def test_columns_of_keys_that_were_asked_for_long_ago_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(namespace, "_UNDECLARED", 8)
    async with open_at(tmp_path) as store:
        await store.add(chunks(20, state="open", **{f"key{n}": n for n in range(30)}))
        for n in range(30):
            for filter in ({f"key{n}": n}, {"state": "open"}, {"key0": 0}):
                assert len(await store.search(vectors(1)[0], k=20, filter=filter)) == 20
            assert not await store.search(vectors(1)[0], filter={f"key{n}": n + 1})
        assert len(space_of(store).columns) <= namespace._UNDECLARED + len(space_of(store).indexed)
        assert {"state", "key0", "key29"} <= space_of(store).columns.keys()
        everything = {"$and": [{f"key{n}": n} for n in range(30)]}
        assert len(await store.search(vectors(1)[0], k=30, filter=everything)) == 20
        assert await store.count(filter=everything) == 20


async def test_a_row_that_another_replaces_in_the_middle_of_a_search_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 500)
    plain = Namespace.search
    async with open_at(tmp_path) as store:
        await store.add(chunks(600))
        await store.search(vectors(1)[0])
    async with open_at(tmp_path) as store, open_at(tmp_path) as other:
        assert (await store.search(vectors(1)[0], k=1))[0].chunk.id == "c0"
        assert space_of(store).snapshot is not None

        def interrupted(self, *args):
            monkeypatch.setattr(Namespace, "search", plain)
            near = Chunk("another text", "c3", vector=vectors(4)[3])
            anyio.from_thread.run(other.add, [near])
            return plain(self, *args)

        monkeypatch.setattr(Namespace, "search", interrupted)
        # The state of before, whole, or that of after.
        (hit,) = await store.search(vectors(4)[3], k=1)
        assert Namespace.search is plain
        assert (hit.chunk.id, hit.chunk.content) in {("c3", "text 3"), ("c3", "another text")}
        (hit,) = await store.search(vectors(4)[3], k=1)
        assert (hit.chunk.id, hit.chunk.content) == ("c3", "another text")


async def test_a_failure_is_not_tried_again_at_every_search(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 500)
    made = []

    def failing(*arguments):
        made.append(arguments)
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(codes, "encoded", failing)
        async with open_at(tmp_path) as store:
            await store.add(chunks(1000))
            for _ in range(50):
                assert (await store.search(vectors(1)[0], k=1))[0].chunk.id == "c0"
                await anyio.sleep(0.001)
            await store.add([Chunk("again", "c0", vector=vectors(1)[0])])
            assert (await store.search(vectors(1)[0], k=1))[0].chunk.content == "again"
    assert 1 <= len(made) <= 2
    # Later it is.
    monkeypatch.setattr(upkeep, "_AGAIN", 0.0)
    async with open_at(tmp_path) as store:
        with anyio.fail_after(30):
            while (await store.search(vectors(1)[0])) and space_of(store).codes is None:  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def test_the_file_that_another_process_wrote_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 500)
    encoded, made = codes.encoded, []
    monkeypatch.setattr(codes, "encoded", lambda *given: made.append(given) or encoded(*given))
    async with open_at(tmp_path) as store, open_at(tmp_path) as other:
        await store.add(chunks(1000))
        for each in (store, other):
            with anyio.fail_after(30):
                while (await each.search(vectors(1)[0])) and space_of(each).codes is None:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
    assert len(made) == 1


async def test_a_vector_that_is_replaced_while_the_file_is_written_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 50)
    monkeypatch.setattr(upkeep, "_NEW_ROWS", 100)
    rows, more = vectors(4_000), vectors(1_000, seed=1)
    other = -rows[5]
    async with open_at(tmp_path) as store:
        await store.add([Chunk("text", f"c{n}", vector=v) for n, v in enumerate(rows)])
        await store.search(rows[0])
    begun, replaced, written = threading.Event(), threading.Event(), threading.Event()
    draft, install = snapshot.draft, index.Index.install

    def slow(*given):
        begun.set()
        assert replaced.wait(30)
        return draft(*given)

    def told(*given, **named):
        found = install(*given, **named)
        if replaced.is_set():
            written.set()
        return found

    async with open_at(tmp_path) as store:
        await store.search(rows[0])
        monkeypatch.setattr(snapshot, "draft", slow)
        monkeypatch.setattr(index.Index, "install", told)
        await store.add([Chunk("text", f"m{n}", vector=v) for n, v in enumerate(more)])
        await store.search(rows[0])
        assert await anyio.to_thread.run_sync(begun.wait, 30)
        await store.add([Chunk("text", "c5", vector=other)])
        await store.search(other)
        replaced.set()
        assert await anyio.to_thread.run_sync(written.wait, 30)
        assert [hit.chunk.id for hit in await store.search(other, k=1)] == ["c5"]
    async with open_at(tmp_path) as store:
        assert [hit.chunk.id for hit in await store.search(other, k=1)] == ["c5"]
