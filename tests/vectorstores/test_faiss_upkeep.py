"""What a store on disk keeps in memory beside its vectors, and what becomes of it while others write."""

from pathlib import Path

import anyio
import numpy as np
import pytest

from vectorstores import Chunk, FaissVectorStore, HashingEmbedder, _codes, _index, _space
from vectorstores._columns import Column
from vectorstores._index import needs
from vectorstores._space import Space
from vectorstores._table import VectorTable

pytestmark = pytest.mark.anyio
DIM = 32


def open_at(path: Path) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def vectors(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def chunks(count: int, **metadata: object) -> list[Chunk]:
    return [Chunk(f"text {n}", f"c{n}", metadata, vector=v) for n, v in enumerate(vectors(count))]


def space_of(store: FaissVectorStore) -> Space:
    return store._engine._state.indexes._spaces["test"]


async def test_values_that_nothing_has_any_more_are_forgotten():
    column, size = Column(), 100
    for step in range(500):
        places = np.arange(step % 7, size, 7)
        column.put(places, [f"{step}/{place}" for place in places.tolist()], size)
    assert len(column._values) < 5 * size + 2_000
    found = [column._values[number] for number in column._codes[:size].tolist()]
    last = {
        place: next(step for step in range(499, -1, -1) if step % 7 == place % 7) for place in range(size)
    }
    assert found == [f"{last[place]}/{place}" for place in range(size)]
    assert len(column._numbers) == len(column._values)


async def test_columns_of_keys_that_were_asked_for_long_ago_are_forgotten(tmp_path):
    async with open_at(tmp_path) as store:
        await store.add(chunks(20, state="open", **{f"key{n}": n for n in range(100)}))
        for n in range(100):
            for filter in ({f"key{n}": n}, {"state": "open"}, {"key0": 0}):
                assert len(await store.search_by_vector(vectors(1)[0], k=20, filter=filter)) == 20
            assert await store.count(filter={f"key{n}": n + 1}) == 0
        assert len(space_of(store).columns) <= _space._UNDECLARED + len(space_of(store).indexed)
        assert {"state", "key0", "key99"} <= space_of(store).columns.keys()
        everything = {"$and": [{f"key{n}": n} for n in range(100)]}
        assert await store.count(filter=everything) == 20


async def test_a_row_that_another_replaces_in_the_middle_of_a_search_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(_index, "FAISS_FROM", 500)
    monkeypatch.setattr(_space, "_SMALL", 0)
    monkeypatch.setattr(_space, "_SMALL_CODED", 0)
    plain = VectorTable.search
    async with open_at(tmp_path) as store:
        await store.add(chunks(600))
        await store.search_by_vector(vectors(1)[0])
    async with open_at(tmp_path) as store, open_at(tmp_path) as other:
        assert (await store.search_by_vector(vectors(1)[0], k=1))[0].chunk.id == "c0"
        assert space_of(store).layout is not None

        def interrupted(self, *args):
            monkeypatch.setattr(VectorTable, "search", plain)
            near = Chunk("another text", "c3", vector=vectors(4)[3])
            anyio.from_thread.run(other.add, [near])
            return plain(self, *args)

        monkeypatch.setattr(VectorTable, "search", interrupted)
        (hit,) = await store.search_by_vector(vectors(4)[3], k=1)
        assert VectorTable.search is plain
        assert (hit.chunk.id, hit.chunk.content) == ("c3", "another text")


async def test_places_are_given_up_where_codes_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(_index, "FAISS_FROM", 500)
    made = []

    def failing(*arguments, **options):
        made.append(arguments)
        raise RuntimeError("no")

    monkeypatch.setattr(_codes, "encoded", failing)
    async with open_at(tmp_path) as store:
        await store.add(chunks(3000))
        await store.search_by_vector(vectors(1)[0])
        await store.delete([f"c{n}" for n in range(1, 2000)])
        with anyio.fail_after(20):
            while any(needs(space_of(store))[1:]):
                assert (await store.search_by_vector(vectors(1)[0], k=1))[0].chunk.id == "c0"
                await anyio.sleep(0.01)
        assert len(space_of(store).table.rows) == 1001
        await store.add([Chunk("again", "c0", vector=vectors(1)[0])])
        assert (await store.search_by_vector(vectors(1)[0], k=1))[0].chunk.content == "again"
        assert space_of(store).moved is None
    assert len(made) < 5


async def test_a_namespace_that_is_exchanged_before_a_search_at_once_is_asked_in_a_thread(
    tmp_path, monkeypatch
):
    async with open_at(tmp_path) as store:
        await store.add(chunks(20, odd=1))
        filter = {"odd": 1}
        assert len(await store.search_by_vector(vectors(1)[0], k=20, filter=filter)) == 20
        indexes, database = store._engine._state.indexes, store._engine._state.database
        plain = database.read_at_once

        def exchanged(work, role):
            # As one whose places of removed rows were given up, with the columns of a moment before.
            space_of(store).columns = {}
            monkeypatch.undo()
            assert plain(work, role) is None

        monkeypatch.setattr(database, "read_at_once", exchanged)
        query = [hit.chunk.id for hit in await store.search_by_vector(vectors(1)[0], k=20, filter=filter)]
        assert len(query) == 20
        assert indexes._spaces["test"].columns.keys() >= {"odd"}
