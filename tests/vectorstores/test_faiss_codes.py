"""Searches by codes: as good as exact ones, whatever changes meanwhile."""

import threading
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorstores import Chunk, FaissVectorStore, HashingEmbedder, _codes, _index, _table
from vectorstores._engine import Query
from vectorstores._table import VectorTable

DIM = 96


def clustered(count: int, centres: int, noise: float = 0.7, seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(seed)
    middle = unit(np.random.default_rng(centres).standard_normal((centres, DIM)))
    return unit(
        middle[chance.integers(centres, size=count)] + chance.standard_normal((count, DIM)) * noise / DIM**0.5
    )


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def table_of(rows: np.ndarray) -> VectorTable:
    table = VectorTable(rows.shape[1], product=_codes.faiss_product)
    table.put(np.arange(1, len(rows) + 1) * 3, rows)
    return table


def encode(table: VectorTable, **options) -> None:
    table.codes = _codes.encoded(table.vectors.parts(), lambda: True, **options)


def found(table: VectorTable, vector: np.ndarray, mask: np.ndarray | None = None, k: int = 5) -> list[int]:
    rows = [row for row, _ in table.search(Query(vector, k, None, 0.0, -1.0), mask)]
    assert len(rows) == len({*rows})
    return rows


def exactly(table: VectorTable, vector: np.ndarray, mask: np.ndarray | None = None, k: int = 5) -> list[int]:
    codes, table.codes = table.codes, None
    try:
        return found(table, vector, mask, k)
    finally:
        table.codes = codes


def recall(table: VectorTable, queries: np.ndarray, mask: np.ndarray | None = None) -> float:
    shares = [len({*found(table, q, mask)} & {*exactly(table, q, mask)}) / 5 for q in queries]
    return float(np.mean(shares))


@pytest.mark.parametrize("count", [5_000, 20_000, 60_000])
@pytest.mark.parametrize("per_centre", [50, None])
@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_recall_on_clustered_vectors(count, per_centre, noise):
    centres = count // per_centre if per_centre else int(count**0.5)
    table = table_of(clustered(count, centres, noise))
    encode(table)
    assert recall(table, clustered(60, centres, noise, seed=1)) >= 0.99


def test_recall_with_cells(monkeypatch):
    monkeypatch.setattr(_codes, "LEVELS", ((20_000, 64, 44),))
    table = table_of(clustered(40_000, 800))
    encode(table)
    assert type(table.codes.index).__name__ == "IndexIVFPQFastScan"
    assert recall(table, clustered(60, 800, seed=1)) >= 0.99
    again = _codes.restored(table.codes.to_bytes(), table.codes.trained)
    places, _ = again.nearest(table.vectors.gather(np.array([7]))[0], 10)
    assert 7 in places


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.3, 0.6, 0.95])
def test_filters_lose_nothing(share, cells, monkeypatch):
    monkeypatch.setattr(_codes, "LEVELS", ((20_000, 64, 44),) if cells else ())
    table = table_of(clustered(40_000, 800))
    encode(table)
    chance = np.random.default_rng(3)
    queries = clustered(25, 800, seed=1)
    assert recall(table, queries, chance.random(40_000) < share) >= 0.99
    # What it admits lies far from the queries: hardly one of the candidates is among it.
    far = table.vectors.products(queries[0])
    mask = far <= np.quantile(far, share)
    assert found(table, queries[0], mask) == exactly(table, queries[0], mask)


@pytest.mark.parametrize("k", [3_000, 20_000])
def test_who_asks_for_many_gets_them_from_all_cells(k, monkeypatch):
    monkeypatch.setattr(_codes, "LEVELS", ((2_000, 64, 4),))
    table = table_of(clustered(20_000, 400))
    encode(table)
    query = clustered(1, 400, seed=1)[0]
    hits = found(table, query, k=k)
    assert len(hits) == k
    assert len({*hits} & {*exactly(table, query, k=k)}) >= 0.99 * k


@pytest.mark.parametrize("dim", [1, 3, 8, 33, 130])
def test_any_dimension(dim):
    rows = unit(np.random.default_rng(0).standard_normal((3000, dim)))
    table = table_of(rows)
    encode(table)
    assert table.codes.nearest(rows[5], 3000)[0].tolist().count(5) == 1
    assert found(table, rows[5], k=1) == exactly(table, rows[5], k=1)


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "replace", "remove", "encode", "extend"]), st.integers(0, 2**16)),
        max_size=12,
    )
)
def test_changes_after_encoding_are_found(steps):
    table = table_of(clustered(3000, 60))
    encode(table)
    next_row = 3 * 3000 + 1
    for number, (kind, chosen) in enumerate(steps):
        seed = 1000 * chosen + number  # no two steps put the same vectors
        chance = np.random.default_rng(seed)
        count = int(chance.integers(1, 60))
        some = np.unique(chance.choice(table.rows, count))
        if kind == "put":
            table.put(np.arange(next_row, next_row + count), clustered(count, 60, seed=seed))
            next_row += count
        elif kind == "replace":
            some = table.rows[table.find(some)]
            table.put(some, clustered(len(some), 60, seed=seed))
        elif kind == "remove":
            table.remove(some)
        elif kind == "extend":
            encode(table, like=table.codes)
        else:
            encode(table)
            table.outdated = table.outdated[:0]
        # The vectors that changed last are found as their own nearest; those that are gone are not.
        for row in some[:3]:
            places = table.find(np.array([row]))
            if len(places):
                assert row in found(table, table.vectors.gather(places)[0], k=1)
    queries = clustered(20, 60, seed=77)
    assert recall(table, queries) >= 0.97
    assert recall(table, queries, np.arange(len(table.rows)) % 3 == 0) >= 0.97
    assert not {*found(table, queries[0], k=len(table.rows))} - {*table.rows[table.alive].tolist()}


def open_at(path: Path) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def chunks(rows: np.ndarray, first: int = 0) -> list[Chunk]:
    return [Chunk(f"text {n}", f"c{n}", vector=row) for n, row in enumerate(rows, first)]


@pytest.mark.anyio
async def test_no_search_waits_for_codes(tmp_path, monkeypatch):
    monkeypatch.setattr(_index, "FAISS_FROM", 1000)
    monkeypatch.setattr(_index, "_LOOSE_ROWS", 100)
    go, encoded = threading.Event(), _codes.encoded

    def slow(*arguments, **options):
        codes = encoded(*arguments, **options)
        assert go.wait(30)
        return codes

    monkeypatch.setattr(_codes, "encoded", slow)
    rows = clustered(3000, 60)
    async with open_at(tmp_path) as store:
        await store.add(chunks(rows))
        for n in range(0, 3000, 211):
            assert (await store.search_by_vector(rows[n], k=1))[0].chunk.id == f"c{n}"
        # Changed while the codes are made of what was there before.
        moved = clustered(2, 60, seed=5)
        await store.add([Chunk("moved", "c7", vector=moved[0]), Chunk("new", "new", vector=moved[1])])
        await store.delete(["c9"])
        await store.search_by_vector(rows[0])
        space = store._engine._state.indexes._spaces["test"]
        assert space.table.codes is None
        go.set()
        with anyio.fail_after(30):
            while space.table.codes is None:
                await store.search_by_vector(rows[0])
        assert [(await store.search_by_vector(v, k=1))[0].chunk.content for v in moved] == ["moved", "new"]
        assert "c9" not in [hit.chunk.id for hit in await store.search_by_vector(rows[9], k=50)]
        await store.add(chunks(clustered(400, 60, seed=8), first=5000))
        with anyio.fail_after(30):
            while space.table.codes.count < 3401:
                await store.search_by_vector(rows[0])
                await anyio.sleep(0.01)
        assert [(await store.search_by_vector(v, k=1))[0].chunk.content for v in moved] == ["moved", "new"]


@pytest.mark.anyio
async def test_places_of_removed_rows_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(_index, "FAISS_FROM", 1000)
    rows = clustered(4000, 80)
    async with open_at(tmp_path) as store:
        await store.add(chunks(rows))
        await store.search_by_vector(rows[0])
        await store.delete([f"c{n}" for n in range(0, 4000, 2)])
        spaces = store._engine._state.indexes._spaces
        with anyio.fail_after(30):
            while True:
                hits = await store.search_by_vector(rows[1], k=1)
                assert hits[0].chunk.id == "c1"
                if len(spaces["test"].table.rows) == 2000:
                    break
                await anyio.sleep(0.01)
        for n in range(1, 4000, 190):
            assert (await store.search_by_vector(rows[n], k=1))[0].chunk.id == f"c{n}"
    async with open_at(tmp_path) as store:
        assert (await store.search_by_vector(rows[2001], k=1))[0].chunk.id == "c2001"
        assert len(await store.search_by_vector(rows[0], k=4000)) == 2000


@pytest.mark.anyio
async def test_codes_that_cannot_be_made_stop_nobody(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_index, "FAISS_FROM", 100)

    def failing(*arguments, **options):
        raise RuntimeError("no")

    monkeypatch.setattr(_codes, "encoded", failing)
    rows = clustered(500, 10)
    async with open_at(tmp_path) as store:
        await store.add(chunks(rows))
        for n in range(50):
            assert (await store.search_by_vector(rows[n], k=1))[0].chunk.id == f"c{n}"
    assert "no codes" in caplog.text


@pytest.mark.parametrize("cells", [False, True])
def test_estimates_are_right_on_average(cells, monkeypatch):
    monkeypatch.setattr(_codes, "LEVELS", ((2_000, 16, 16),) if cells else ())
    rows = clustered(6_000, 120)
    whole = table_of(rows)
    encode(whole)
    table = table_of(rows[:4_000])
    encode(table)
    table.put(np.arange(4_001, 6_001) * 3, rows[4_000:])
    encode(table, like=table.codes)
    for codes in (whole.codes, table.codes, _codes.restored(table.codes.to_bytes(), 4_000)):
        wrong = []
        for query in clustered(30, 120, seed=1):
            places, estimates = codes.nearest(query, 20)
            # Scores of some 0.7: rounding alone would take an eighth of that away.
            wrong.append((estimates - rows[places] @ query).mean())
        assert abs(np.mean(wrong)) < 0.03


def test_without_clusters_a_doubt_that_stays_is_settled_exactly(monkeypatch):
    monkeypatch.setattr(_codes, "LEVELS", ((2_000, 64, 44),))
    monkeypatch.setattr(_table, "_AGAIN", (1,))
    chance = np.random.default_rng(0)
    table = table_of(unit(chance.standard_normal((20_000, DIM))))
    encode(table)
    queries = unit(chance.standard_normal((20, DIM)))
    assert recall(table, queries) >= 0.99
    # Nor where some have been removed.
    table.remove(table.rows[::50])
    assert recall(table, queries) >= 0.99
    # More rows than that takes, and what the codes say counts, whether some have been removed or not.
    monkeypatch.setattr(_table, "_BEARABLE", 10_000 * DIM)
    assert 0.3 < recall(table, queries) < 0.97


def test_a_doubt_asks_for_more_candidates(monkeypatch):
    # All in one cluster, so that the codes can't tell the rows apart well.
    table = table_of(clustered(20_000, 1, noise=1.0))
    encode(table)
    queries = clustered(30, 1, noise=1.0, seed=1)
    careful = recall(table, queries)
    monkeypatch.setattr(_table, "_ERRORS", -np.inf)
    assert careful >= 0.95 > recall(table, queries)
