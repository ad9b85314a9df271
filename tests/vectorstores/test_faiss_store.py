"""The store on disk: what the contract, common to all stores, does not say."""

import os
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest
from offline import printed_by

from vectorstores import (
    Chunk,
    FaissVectorStore,
    HashingEmbedder,
    InMemoryVectorStore,
    StoreClosedError,
    StoreCorruptError,
    StoreUnavailableError,
    open_store,
)
from vectorstores.sqlite_faiss import database, index, records, rows
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.namespace import Namespace

pytestmark = pytest.mark.anyio
DIM = 32


def open_at(path: Path, **options) -> FaissVectorStore:
    options = {"embedder": HashingEmbedder(dim=DIM), "namespace": "test"} | options
    return FaissVectorStore(path, **options)


def vectors(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)


class SlowEmbedder(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__(dim=DIM)
        self.asked: list[str] = []

    async def embed(self, texts):
        self.asked += texts
        await anyio.sleep(0.05)
        return await super().embed(texts)


async def test_a_store_is_found_again_with_all_that_was_in_it(tmp_path):
    chunk = Chunk("Look in the cabinet.", metadata={"kind": "lesson"}, embed_text="find the mug")
    async with open_at(tmp_path / "a" / "b") as store:
        await store.add([chunk])
        await store.append_once("notes", "k", [1])
    async with open_at(tmp_path / "a" / "b", create=False) as store:
        assert (await store.search("mug"))[0].chunk == chunk
        assert (await store.get("notes", "k")).value == [1]


async def test_above_the_threshold_faiss_finds_what_the_reference_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 500)
    count = 2000
    chunks = [
        Chunk(f"text {n}", id=f"c{n}", metadata={"n": n, "group": n % 50}, vector=v)
        for n, v in enumerate(vectors(count))
    ]
    gone = [f"c{n}" for n in range(0, count, 9)]
    filters = [None, {"group": 3}, {"group": {"$ne": 3}}, {"n": {"$lt": 0}}, {"$not": {"n": {"$lt": 1500}}}]
    async with (
        open_at(tmp_path) as store,
        InMemoryVectorStore(HashingEmbedder(dim=DIM), namespace="x") as reference,
    ):
        for each in (store, reference):
            await each.add(chunks[:400])
            await each.search(vectors(1)[0])
            await each.add(chunks[400:])
        for deleted in ([], gone[:20], gone):
            await store.delete(deleted)
            await reference.delete(deleted)
            for query in vectors(5, seed=1):
                for filter in filters:
                    found, expected = [
                        await each.search(query, k=6, filter=filter) for each in (store, reference)
                    ]
                    assert [hit.chunk for hit in found] == [hit.chunk for hit in expected]
                    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])
    assert "faiss" in sys.modules


async def test_who_is_far_behind_the_log_of_changes_reads_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "LOG_SIZE", 100)
    async with open_at(tmp_path) as behind, open_at(tmp_path) as ahead:
        await behind.add([Chunk("first", id="first", vector=vectors(1)[0])])
        assert len(await behind.search(vectors(1)[0])) == 1
        await ahead.delete(["first"])
        for seed in range(5):
            await ahead.add([Chunk("x", id=f"c{n}", vector=v) for n, v in enumerate(vectors(1000, seed))])
        hits = await behind.search(vectors(1000, 4)[7], k=1)
        assert (hits[0].chunk.id, hits[0].score) == ("c7", pytest.approx(1.0))
        assert len(await behind.search(vectors(1)[0], k=5000)) == 1000


async def test_a_thousand_tasks_add_and_search_at_once(tmp_path):
    async with open_at(tmp_path) as store:
        rows = vectors(500)

        async def add(n: int) -> None:
            await store.add([Chunk(f"text {n}", id=f"c{n}", vector=rows[n])])
            assert (await store.search(rows[n], k=1))[0].chunk.id == f"c{n}"

        async with anyio.create_task_group() as tasks:
            for n in range(500):
                tasks.start_soon(add, n)
        assert await store.count() == 500


async def test_writes_of_many_tasks_share_commits(tmp_path, monkeypatch):
    commits: list[object] = []
    write = Database.write

    def counting(self, work):
        commits.append(work)
        return write(self, work)

    monkeypatch.setattr(Database, "write", counting)
    async with open_at(tmp_path) as store:
        async with anyio.create_task_group() as tasks:
            for n in range(200):
                tasks.start_soon(store.append_once, "c", f"k{n}", n)
        assert len((await store.scan_records("c", limit=300)).records) == 200
        assert 1 <= len(commits) < 100


async def test_many_writers_wait_for_another_process_no_longer_than_one(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.3)
    store = open_at(tmp_path)
    await store.add([Chunk("first", id="first")])
    refused: list[str] = []

    async def add(number: int) -> None:
        try:
            await store.add([Chunk("x", id=f"c{number}", vector=vectors(1)[0])])
        except StoreUnavailableError as error:
            refused.append(str(error))

    with closing(sqlite3.connect(tmp_path / "store.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(5.5):  # one after the other they would take six seconds
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(add, number)
        other.execute("ROLLBACK")
    assert len(refused) == 20
    assert all("another process has been writing for 0.3 s" in each for each in refused)
    await add(1)
    assert await store.count() == 2
    await store.close()


async def test_a_search_that_the_store_is_closed_in_is_answered(tmp_path, monkeypatch):
    begun, closing = threading.Event(), threading.Event()

    def slow(space: Namespace, *given):
        begun.set()
        closing.wait(0.5)  # the store may wait for the search
        return plain(space, *given)

    def clear(given: index.Index) -> None:
        cleared(given)
        closing.set()

    cleared, plain, found = index.Index.clear, Namespace.search, []
    store = open_at(tmp_path)
    await store.add([Chunk("text", f"c{n}", vector=v) for n, v in enumerate(vectors(9))])
    await store.search(vectors(1)[0])
    monkeypatch.setattr(Namespace, "search", slow)
    monkeypatch.setattr(index.Index, "clear", clear)

    async def search() -> None:
        found.extend(await store.search(vectors(1)[0], k=3))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search)
        assert await anyio.to_thread.run_sync(begun.wait, 30)
        await store.close()
    assert len(found) == 3


async def test_an_add_that_comes_while_the_store_is_being_closed_is_answered(tmp_path, monkeypatch):
    store, begun, go = open_at(tmp_path), threading.Event(), threading.Event()
    write = rows.write_chunks
    answers: list[str] = []

    def slow(*given):
        begun.set()
        assert go.wait(30)
        return write(*given)

    async def add(name: str) -> None:
        try:
            await store.add([Chunk(name, vector=vectors(1)[0])])
            answers.append(f"{name} was stored")
        except StoreClosedError:
            answers.append(f"{name} was refused")

    await store.count()
    monkeypatch.setattr(rows, "write_chunks", slow)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add, "one")
            assert await anyio.to_thread.run_sync(begun.wait, 30)
            engine = store._engine
            monkeypatch.setattr(
                engine, "_ready", lambda state=engine._state: state
            )  # as if it had just been asked
            closing = threading.Thread(target=engine._close)
            closing.start()
            while not engine._state.writer._closed:  # noqa: ASYNC110 - another thread sets it
                await anyio.sleep(0.001)
            tasks.start_soon(add, "two")
            while not answers:  # noqa: ASYNC110 - a list sets no event
                await anyio.sleep(0.001)
            go.set()
    await anyio.to_thread.run_sync(closing.join)
    assert answers == ["two was refused", "one was stored"]
    async with open_at(tmp_path) as again:
        assert await again.count() == 1


async def test_a_cancelled_add_is_whole_or_absent(tmp_path):
    async with open_at(tmp_path) as store:
        await store.count()
        pair = vectors(2)
        for n in range(40):
            with anyio.move_on_after(n * 0.0001):
                await store.add([Chunk("x", id=f"{n}-{part}", vector=pair[part]) for part in range(2)])
        for n in range(40):
            assert len(await store.get_by_ids([f"{n}-0", f"{n}-1"])) in {0, 2}


async def test_a_cancel_while_embedding_stores_nothing(tmp_path):
    async with open_at(tmp_path, embedder=SlowEmbedder()) as store:
        with anyio.move_on_after(0.01):
            await store.add([Chunk("x")])
        assert await store.count() == 0
        await store.add([Chunk("x")])
        assert await store.count() == 1


async def test_the_event_loop_is_not_held_up(tmp_path):
    held = 0.0

    async def watch() -> None:
        nonlocal held
        while True:
            start = time.thread_time()
            await anyio.sleep(0.001)
            held = max(held, time.thread_time() - start)

    async with open_at(tmp_path) as store, anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await store.add(
            [Chunk(f"text {n}", metadata={"n": n}, vector=v) for n, v in enumerate(vectors(4000))]
        )
        await store.search(vectors(1)[0], filter={"n": {"$gt": 5}})
        await store.count(filter={"n": {"$gt": 5}})
        tasks.cancel_scope.cancel()
    # What else the machine does counts for nothing here. On the loop, the add alone would take several times as long.
    assert held < 0.15


async def test_a_text_seen_before_is_not_embedded_again(tmp_path):
    embedder = SlowEmbedder()
    async with open_at(tmp_path, embedder=embedder) as store:
        await store.add([Chunk("mug"), Chunk("mug"), Chunk("desk")])
        await store.search("lamp")
    again = SlowEmbedder()
    async with open_at(tmp_path, embedder=again) as store:
        await store.add([Chunk("lamp"), Chunk("cup")])
        assert (await store.search("mug", k=2))[1].score == pytest.approx(1.0, abs=1e-5)
    assert embedder.asked == ["mug", "desk", "lamp"]
    assert again.asked == ["cup"]


async def test_the_oldest_embeddings_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "CAPACITY", 100)
    embedder = SlowEmbedder()
    async with open_at(tmp_path, embedder=embedder) as store:
        for first in range(0, 300, 65):
            await store.add([Chunk(f"text {n}") for n in range(first, first + 65)])
        with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as connection:
            (kept,) = connection.execute("SELECT count(*) FROM embeddings").fetchone()
        assert 65 <= kept <= 100
        asked = len(embedder.asked)
        await store.search("text 324")  # is among the newest
        assert len(embedder.asked) == asked
        await store.search("text 1")
        assert len(embedder.asked) == asked + 1


async def test_a_search_leaves_no_text_behind(tmp_path):
    async with open_at(tmp_path) as store:
        await store.add([Chunk("x")])
        await store.search("a question nobody should find")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert all(b"nobody should find" not in file.read_bytes() for file in files)


async def test_a_full_disk_does_not_stop_a_search_by_text(tmp_path, monkeypatch):
    async with open_at(tmp_path) as store:
        await store.add([Chunk("mug", id="mug")])

        async def full(embeddings) -> None:
            raise StoreUnavailableError("the disk is full")

        monkeypatch.setattr(store._engine, "remember", full)
        assert (await store.search("mugs"))[0].chunk.id == "mug"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
async def test_a_store_is_not_used_across_a_fork(tmp_path, monkeypatch):
    async with open_at(tmp_path) as store:
        await store.count()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(StoreClosedError, match="fork"):
                await store.count()
        assert await store.count() == 0


async def test_addresses(tmp_path):
    embedder = HashingEmbedder(dim=DIM)
    assert isinstance(open_store("memory://", embedder=embedder, namespace="a"), InMemoryVectorStore)
    for address in (tmp_path / "one", str(tmp_path / "two")):
        async with open_store(address, embedder=embedder, namespace="a") as store:
            await store.add([Chunk("x")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    with pytest.raises(StoreUnavailableError, match="redis"):
        open_store("redis://localhost", namespace="a")
    with pytest.raises(TypeError, match="namespace"):
        open_store("memory://")


def run_python(script: str, *arguments: object) -> str:
    return printed_by(script, *arguments, options=("-W", "error"))


def test_importing_the_package_loads_no_backend():
    heavy = run_python(
        """
        import sys, vectorstores
        names = set(dir(vectorstores))
        assert names == set(vectorstores.__all__)
        print({"numpy", "faiss", "torch", "sqlite3", "sentence_transformers", "anyio"} & set(sys.modules))
        """
    )
    assert heavy.strip() == "set()"


def test_every_public_name_exists():
    import vectorstores

    assert all(getattr(vectorstores, name) is not None for name in vectorstores.__all__)
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = vectorstores.Nonsense


async def test_records_that_exist_make_no_other_write_of_their_batch_again(tmp_path, monkeypatch):
    transactions: list[object] = []
    write = Database.write

    def counted(self, work):
        transactions.append(work)
        return write(self, work)

    found: list[bool] = []

    async def append(number: int) -> None:
        found.append(await store.append_once("c", f"k{number % 50}", number))

    monkeypatch.setattr(Database, "write", counted)
    async with open_at(tmp_path) as store, anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(append, number)
    assert sum(found) == 50
    assert len(transactions) < 20


async def test_a_damaged_record_exists_and_is_not_overwritten(tmp_path):
    async with open_at(tmp_path) as store:
        await store.append_once("notes", "1", "text")
        with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as connection, connection:
            connection.execute("UPDATE records SET value = '{'")
        assert not await store.append_once("notes", "1", "new")
        for version in (None, 1):
            with pytest.raises(StoreCorruptError, match="the record notes/1 is damaged"):
                await store.compare_and_swap("notes", "1", "new", version=version)
