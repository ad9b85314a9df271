"""Searches by codes: as good as exact ones, whatever changes meanwhile."""

import threading
from pathlib import Path

import anyio
import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorstores import Chunk, FaissVectorStore, HashingEmbedder
from vectorstores._engine import Query
from vectorstores.sqlite_faiss import codes, index, namespace, upkeep
from vectorstores.sqlite_faiss.namespace import Namespace

DIM = 96


def clustered(count: int, centres: int, noise: float = 0.7, seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(seed)
    middle = unit(np.random.default_rng(centres).standard_normal((centres, DIM)))
    return unit(
        middle[chance.integers(centres, size=count)] + chance.standard_normal((count, DIM)) * noise / DIM**0.5
    )


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def space_of(rows: np.ndarray) -> Namespace:
    space = Namespace("test", rows.shape[1])
    space.matrix.put(np.arange(1, len(rows) + 1) * 3, rows)
    return space


def encode(space: Namespace) -> None:
    size = len(space.matrix.rows)
    space.codes = codes.encoded(space.matrix.gather, np.arange(size), lambda: True)
    space.loose = space.loose[:0]


def extend(space: Namespace) -> None:
    space.codes.extend(space.matrix.gather(np.arange(space.codes.count, len(space.matrix.rows))))


def put(space: Namespace, rows: np.ndarray, vectors: np.ndarray) -> None:
    """As when it follows the log."""
    replaced = space.matrix.put(rows, vectors)
    space.loose = np.union1d(space.loose, replaced[replaced < space.codes.count])


def found(space: Namespace, vector: np.ndarray, mask: np.ndarray | None = None, k: int = 5) -> list[int]:
    rows = [row for row, _ in space.search(Query(vector, k, None, -1.0), mask)]
    assert len(rows) == len({*rows})
    return rows


def exactly(space: Namespace, vector: np.ndarray, mask: np.ndarray | None = None, k: int = 5) -> list[int]:
    return [row for row, _ in space.matrix.search(Query(vector, k, None, -1.0), mask)]


def recall(space: Namespace, queries: np.ndarray, mask: np.ndarray | None = None) -> float:
    shares = [len({*found(space, q, mask)} & {*exactly(space, q, mask)}) / 5 for q in queries]
    return float(np.mean(shares))


@pytest.mark.parametrize("count", [5_000, 20_000])
@pytest.mark.parametrize("per_centre", [50, None])
@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_recall_on_clustered_vectors(count, per_centre, noise):
    centres = count // per_centre if per_centre else int(count**0.5)
    space = space_of(clustered(count, centres, noise))
    encode(space)
    assert recall(space, clustered(60, centres, noise, seed=1)) >= 0.99


def test_codes_survive_being_written_and_others_are_refused():
    space = space_of(clustered(2_000, 40))
    encode(space)
    again = codes.restored(space.codes.to_bytes())
    assert again.count == 2_000
    places, _ = again.nearest(space.matrix.gather(np.array([7]))[0], 10)
    assert 7 in places
    other = faiss.index_factory(
        DIM, "IVF4,PQ4x4fs", faiss.METRIC_INNER_PRODUCT
    )  # as earlier versions wrote for many
    assert codes.restored(memoryview(faiss.serialize_index(other))) is None
    assert codes.restored(memoryview(b"no index")) is None


@pytest.mark.parametrize("share", [0.001, 0.1, 0.3, 0.6, 0.95])
def test_filters_lose_nothing(share, monkeypatch):
    monkeypatch.setattr(namespace, "_FEW", 1_000)
    space = space_of(clustered(20_000, 400))
    encode(space)
    chance = np.random.default_rng(3)
    queries = clustered(25, 400, seed=1)
    assert recall(space, queries, chance.random(20_000) < share) >= 0.99
    # What it admits lies far from the queries: hardly one of the candidates is among it.
    far = space.matrix.products(queries[0])
    mask = far <= np.quantile(far, share)
    assert found(space, queries[0], mask) == exactly(space, queries[0], mask)


def test_a_few_candidates_that_a_filter_admits_say_nothing_of_the_others(monkeypatch):
    monkeypatch.setattr(namespace, "_FEW", 1_000)
    rows, chance = clustered(20_000, 74, noise=1.0), np.random.default_rng(3)
    space = space_of(rows)
    encode(space)
    nearest = (rows @ unit(np.random.default_rng(74).standard_normal((74, DIM))).T).argmax(axis=1)
    lost = 0
    for query in clustered(100, 74, noise=1.0, seed=1):
        own = nearest[int((rows @ query).argmax())]
        mask = np.isin(nearest, [each for each in chance.permutation(74)[:30] if each != own])
        lost += len({*exactly(space, query, mask, k=1)} - {*found(space, query, mask, k=1)})
    assert lost <= 1


@pytest.mark.parametrize("k", [1_000, 3_000, 20_000])
def test_who_asks_for_many_gets_them(k):
    space = space_of(clustered(20_000, 400))
    encode(space)
    query = clustered(1, 400, seed=1)[0]
    hits = found(space, query, k=k)
    assert len(hits) == k
    assert len({*hits} & {*exactly(space, query, k=k)}) >= 0.99 * k


@pytest.mark.parametrize("dim", [1, 3, 8, 33, 130])
def test_any_dimension(dim):
    rows = unit(np.random.default_rng(0).standard_normal((3000, dim)))
    space = space_of(rows)
    encode(space)
    assert space.codes.nearest(rows[5], 3000)[0].tolist().count(5) == 1
    assert found(space, rows[5], k=1) == exactly(space, rows[5], k=1)


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "replace", "remove", "encode", "extend"]), st.integers(0, 2**16)),
        max_size=12,
    )
)
def test_changes_after_encoding_are_found(steps):
    space = space_of(clustered(3000, 60))
    matrix = space.matrix
    encode(space)
    next_row = 3 * 3000 + 1
    for number, (kind, chosen) in enumerate(steps):
        seed = 1000 * chosen + number  # no two steps put the same vectors
        chance = np.random.default_rng(seed)
        count = int(chance.integers(1, 60))
        some = np.unique(chance.choice(matrix.rows, count))
        if kind == "put":
            put(space, np.arange(next_row, next_row + count), clustered(count, 60, seed=seed))
            next_row += count
        elif kind == "replace":
            some = matrix.rows[matrix.find(some)]
            put(space, some, clustered(len(some), 60, seed=seed))
        elif kind == "remove":
            matrix.remove(some)
        elif kind == "extend":
            extend(space)
        else:
            encode(space)
        # The vectors that changed last are found as their own nearest; those that are gone are not.
        for row in some[:3]:
            places = matrix.find(np.array([row]))
            if len(places):
                assert row in found(space, matrix.gather(places)[0], k=1)
    queries = clustered(20, 60, seed=77)
    assert recall(space, queries) >= 0.97
    assert recall(space, queries, np.arange(len(matrix.rows)) % 3 == 0) >= 0.97
    assert not {*found(space, queries[0], k=len(matrix.rows))} - {*matrix.rows[matrix.alive].tolist()}


def open_at(path: Path) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def chunks(rows: np.ndarray, first: int = 0) -> list[Chunk]:
    return [Chunk(f"text {n}", f"c{n}", vector=row) for n, row in enumerate(rows, first)]


async def until_coded(store: FaissVectorStore, query: np.ndarray, count: int) -> Namespace:
    """Search until a namespace has codes of so many rows."""
    with anyio.fail_after(30):
        while True:
            await store.search(query)
            space = store._engine._state.index.get("test")
            if space.codes is not None and space.codes.count >= count:
                return space
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_no_search_waits_for_codes(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 1000)
    monkeypatch.setattr(namespace, "_CODED", 100)
    go, encoded = threading.Event(), codes.encoded

    def slow(*arguments):
        made = encoded(*arguments)
        assert go.wait(30)
        return made

    monkeypatch.setattr(codes, "encoded", slow)
    rows = clustered(3000, 60)
    async with open_at(tmp_path) as store:
        await store.add(chunks(rows))
        for n in range(0, 3000, 211):
            assert (await store.search(rows[n], k=1))[0].chunk.id == f"c{n}"
        # Changed while the codes are made of what was there before.
        moved = clustered(2, 60, seed=5)
        await store.add([Chunk("moved", "c7", vector=moved[0]), Chunk("new", "new", vector=moved[1])])
        await store.delete(["c9"])
        await store.search(rows[0])
        assert store._engine._state.index.get("test").codes is None
        go.set()
        await until_coded(store, rows[0], 3000)
        assert [(await store.search(v, k=1))[0].chunk.content for v in moved] == ["moved", "new"]
        assert "c9" not in [hit.chunk.id for hit in await store.search(rows[9], k=50)]
        await store.add(chunks(clustered(400, 60, seed=8), first=5000))
        await until_coded(store, rows[0], 3400)
        assert [(await store.search(v, k=1))[0].chunk.content for v in moved] == ["moved", "new"]


@pytest.mark.anyio
async def test_places_of_removed_rows_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 1000)
    monkeypatch.setattr(upkeep, "_REST", 0.0)
    rows = clustered(4000, 80)
    async with open_at(tmp_path) as store:
        await store.add(chunks(rows))
        await store.search(rows[0])
        await store.delete([f"c{n}" for n in range(0, 4000, 2)])
        with anyio.fail_after(30):
            while True:
                hits = await store.search(rows[1], k=1)
                assert hits[0].chunk.id == "c1"
                if len(store._engine._state.index.get("test").matrix.rows) == 2000:
                    break
                await anyio.sleep(0.01)
        for n in range(1, 4000, 190):
            assert (await store.search(rows[n], k=1))[0].chunk.id == f"c{n}"
    async with open_at(tmp_path) as store:
        assert (await store.search(rows[2001], k=1))[0].chunk.id == "c2001"
        assert len(await store.search(rows[0], k=4000)) == 2000
        # So few are left that they need neither a file nor codes.
        await store.delete([f"c{n}" for n in range(3501)])
        assert len(await store.search(rows[0], k=4000)) == 250
        assert len(store._engine._state.index.get("test").matrix.rows) == 250


@pytest.mark.anyio
async def test_codes_that_cannot_be_made_stop_nobody(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(index, "INDEX_FROM", 100)
    made = []

    def failing(*arguments):
        made.append(arguments)
        raise RuntimeError("no")

    monkeypatch.setattr(codes, "encoded", failing)
    rows = clustered(500, 10)
    async with open_at(tmp_path) as store:
        await store.add(chunks(rows))
        for n in range(50):
            assert (await store.search(rows[n], k=1))[0].chunk.id == f"c{n}"
    assert "no file of" in caplog.text
    assert len(made) < 5


def test_without_clusters_a_doubt_that_stays_is_settled_exactly():
    chance = np.random.default_rng(0)
    space = space_of(unit(chance.standard_normal((20_000, DIM))))
    encode(space)
    queries = unit(chance.standard_normal((20, DIM)))
    assert recall(space, queries) >= 0.99
    # Nor where some have been removed.
    space.matrix.remove(space.matrix.rows[::50])
    assert recall(space, queries) >= 0.99


def test_a_doubt_asks_for_more_candidates(monkeypatch):
    # All in one cluster, so that the codes can't tell the rows apart well.
    space = space_of(clustered(20_000, 1, noise=1.0))
    encode(space)
    queries = clustered(30, 1, noise=1.0, seed=1)
    careful = recall(space, queries)
    monkeypatch.setattr(namespace, "_ERRORS", -np.inf)
    assert careful >= 0.95 > recall(space, queries)
