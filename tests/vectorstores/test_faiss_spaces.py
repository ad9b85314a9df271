"""Which namespaces of a store on disk stay in memory, and that letting go of one changes no answer."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import pytest

from vectorstores import Chunk, FaissVectorStore, HashingEmbedder
from vectorstores.sqlite_faiss import index, snapshot
from vectorstores.sqlite_faiss.index import Index

pytestmark = pytest.mark.anyio
DIM = 32
KILO = 1024


def open_at(path: Path, memory: int = 512 * KILO * KILO) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test", memory=memory)


def vectors(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def chunks(namespace: int, count: int) -> list[Chunk]:
    return [
        Chunk(f"{n} of {namespace}", f"c{n}", {"half": n % 2}, vector=v)
        for n, v in enumerate(vectors(count, namespace))
    ]


async def fill(store: FaissVectorStore, namespaces: int, count: int) -> None:
    for number in range(namespaces):
        await store.scoped(f"n{number}").add(chunks(number, count))


async def best(store: FaissVectorStore, namespace: int, n: int, count: int) -> str:
    query = vectors(count, namespace)[n]
    return (await store.scoped(f"n{namespace}").search(query, k=1))[0].chunk.content


def spaces_of(store: FaissVectorStore) -> Index:
    return store._engine._state.index


def open_files(folder: Path) -> int:
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            count += str(folder) in str(each.readlink())
        except FileNotFoundError:
            continue
    return count


async def test_namespaces_that_were_searched_take_no_more_than_their_bound(tmp_path):
    limit = 200 * KILO
    async with open_at(tmp_path, limit) as store:
        await fill(store, 60, 50)
        for _ in range(2):
            for number in range(60):
                assert await best(store, number, 7, 50) == f"7 of {number}"
                assert spaces_of(store).held <= limit
        assert 10 <= len(spaces_of(store).names()) < 30
        assert spaces_of(store).names()[-1] == "n59"
        # The sums are those of what is there.
        spaces = spaces_of(store)
        assert spaces.held == sum(spaces.get(name).nbytes for name in spaces.names())


async def test_what_filters_need_counts_too(tmp_path):
    limit = 100 * KILO
    async with open_at(tmp_path, limit) as store:
        await fill(store, 10, 50)
        for number in range(10):
            await best(store, number, 0, 50)
        before = len(spaces_of(store).names())
        view = store.scoped("n9")
        for key in range(40):
            assert not await view.search(vectors(1)[0], filter={f"undeclared{key}": 1})
        assert await view.count(filter={"half": 1}) == 25
        assert len(spaces_of(store).names()) < before
        assert spaces_of(store).held <= limit


async def test_a_namespace_in_use_stays_whatever_it_takes(tmp_path):
    async with open_at(tmp_path, 0) as store:
        await fill(store, 2, 50)
        await best(store, 0, 3, 50)
        kept = spaces_of(store).get("n0")
        for n in range(20):
            assert await best(store, 0, n, 50) == f"{n} of 0"
        assert spaces_of(store).get("n0") is kept
        assert await best(store, 1, 3, 50) == "3 of 1"
        assert spaces_of(store).names() == ["n1"]


async def test_the_namespace_searched_now_and_then_stays_longer_than_those_searched_once(tmp_path):
    async with open_at(tmp_path, 100 * KILO) as store:
        await fill(store, 40, 50)
        await best(store, 0, 3, 50)
        kept = spaces_of(store).get("n0")
        for number in range(1, 40):
            await best(store, number, 3, 50)
            assert await best(store, 0, number, 50) == f"{number} of 0"
        assert spaces_of(store).get("n0") is kept
        assert len(spaces_of(store).names()) < 20


async def test_what_others_wrote_after_a_namespace_was_let_go_is_found(tmp_path):
    async with open_at(tmp_path, 0) as store, open_at(tmp_path) as other:
        await fill(store, 3, 50)
        await best(store, 0, 3, 50)
        await best(store, 1, 3, 50)
        assert "n0" not in spaces_of(store).names()
        view = other.scoped("n0")
        replaced, new = vectors(2, seed=77)
        await view.add([Chunk("replaced", "c3", vector=replaced), Chunk("new", "new", vector=new)])
        await view.delete(["c4"])
        (kept,) = await view.get_by_ids(["c5"], vectors=True)
        await view.add([replace(kept, metadata={"half": 9})])
        mine = store.scoped("n0")
        for vector, content in ((replaced, "replaced"), (new, "new")):
            assert (await mine.search(vector, k=1))[0].chunk.content == content
        found = await mine.search(vectors(50)[4], k=100)
        assert {hit.chunk.id for hit in found} == ({f"c{n}" for n in range(50)} | {"new"}) - {"c4"}
        assert [hit.chunk.id for hit in await mine.search(new, filter={"half": 9})] == ["c5"]


async def test_searches_and_writes_at_once_while_namespaces_come_and_go(tmp_path):
    """Each namespace has chunks whose text says what their vector is; whatever is let go of, they stay together."""
    async with open_at(tmp_path, 60 * KILO) as store, open_at(tmp_path, 0) as other:
        await fill(store, 12, 40)
        chance = random.Random(3)
        said = {(number, n): f"{n} of {number}" for number in range(12) for n in range(40)}

        async def search(of: FaissVectorStore) -> None:
            for _ in range(150):
                number, n = chance.randrange(12), chance.randrange(20, 40)
                assert await best(of, number, n, 40) == said[number, n]
                hits = await of.scoped(f"n{number}").search(vectors(1)[0], k=60, filter={"half": 1})
                assert {hit.chunk.metadata["half"] for hit in hits} == {1}
                assert len({hit.chunk.id for hit in hits}) == len(hits) >= 10

        async def write() -> None:
            for step in range(150):
                number, n = chance.randrange(12), chance.randrange(20)
                view = (store, other)[step % 2].scoped(f"n{number}")
                if step % 3:
                    vector = vectors(1, seed=1000 + step)[0]
                    await view.add([Chunk(f"step {step}", f"c{n}", {"half": n % 2}, vector=vector)])
                    found = await (other, store)[step % 2].scoped(f"n{number}").search(vector, k=1)
                    assert found[0].chunk.content == f"step {step}"
                else:
                    await view.delete([f"c{n}"])

        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for each in (store, store, other):
                    group.start_soon(search, each)
                group.start_soon(write)


async def test_files_of_a_large_namespace_are_written_before_it_is_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 2000)
    async with open_at(tmp_path, 400 * KILO) as store:
        await fill(store, 4, 2500)  # 320 kB of vectors each
        for number in range(4):
            assert await best(store, number, 5, 2500) == f"5 of {number}"
            with anyio.fail_after(30):
                while len(list((tmp_path / "index").glob("*.snapshot"))) <= number:  # noqa: ASYNC110 - a thread's work
                    await anyio.sleep(0.01)
        loads = []
        opened = snapshot.opened
        monkeypatch.setattr(
            snapshot, "opened", lambda place, **o: loads.append(place.namespace) or opened(place, **o)
        )
        for number in range(4):
            assert await best(store, number, 6, 2500) == f"6 of {number}"
            assert spaces_of(store).get(f"n{number}").codes is not None
        assert set(loads) <= {"n0", "n1", "n2", "n3"}
        assert len(loads) >= 2


async def test_a_namespace_that_was_searched_while_another_was_written_has_its_file_too(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(index, "INDEX_FROM", 2000)
    written, searched = threading.Event(), threading.Event()
    draft = snapshot.draft

    @contextmanager
    def slowly(*arguments: object):
        with draft(*arguments) as found:
            written.set()
            assert searched.wait(30)
            yield found

    monkeypatch.setattr(snapshot, "draft", slowly)
    async with open_at(tmp_path, 400 * KILO) as store:  # one of them has room, with 320 kB of vectors
        await fill(store, 2, 2500)
        await best(store, 0, 5, 2500)
        assert await anyio.to_thread.run_sync(written.wait, 30)
        await best(store, 1, 5, 2500)
        searched.set()
        with anyio.fail_after(60):
            while len(list((tmp_path / "index").glob("*.snapshot"))) < 2:  # noqa: ASYNC110 - a thread's work
                await anyio.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
async def test_mapped_files_of_many_namespaces_are_not_all_open(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 60)
    async with open_at(tmp_path) as store:
        await fill(store, 12, 80)
        for number in range(12):
            await best(store, number, 1, 80)
    async with open_at(tmp_path, 20 * KILO * KILO) as store:
        for number in range(12):
            assert await best(store, number, 2, 80) == f"2 of {number}"
        assert 1 <= open_files(tmp_path / "index") <= 10


def test_a_bound_below_zero_is_refused(tmp_path):
    with pytest.raises(ValueError, match="memory must be at least 0, got -1"):
        open_at(tmp_path, -1)


@pytest.mark.parametrize("odd", [True, 0.5, "512 MiB", None])
def test_a_bound_that_is_no_number_of_bytes_is_refused(tmp_path, odd):
    with pytest.raises(TypeError, match="memory must be a whole number"):
        open_at(tmp_path, odd)


@pytest.mark.parametrize(
    ("odd", "words"), [("kind", "not one string"), (["kind", 3], r"indexed\[1\]: .* got 3")]
)
def test_declared_keys_that_are_none_are_refused(tmp_path, odd, words):
    with pytest.raises(TypeError, match=words):
        FaissVectorStore(tmp_path, embedder=HashingEmbedder(dim=DIM), namespace="test", indexed=odd)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
async def test_files_are_closed_whatever_fails_when_a_store_is(tmp_path, monkeypatch):
    store = open_at(tmp_path)
    await store.add(chunks(0, 10))
    assert open_files(tmp_path) > 0

    def fail() -> None:
        raise ValueError("something that nobody thought of")

    monkeypatch.setattr(store._engine._state.upkeep, "close", fail)
    with pytest.raises(ValueError, match="nobody thought of"):
        await store.close()
    assert open_files(tmp_path) == 0
