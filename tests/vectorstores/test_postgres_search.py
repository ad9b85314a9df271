"""The two ways of a search in PostgreSQL find the same, and the planner has no way of its own."""

import numpy as np
import pytest

from vectorstores import Chunk, HashingEmbedder, PostgresOptions, PostgresVectorStore

psycopg = pytest.importorskip("psycopg")
from vectorstores._pg import search  # noqa: E402
from vectorstores._pg.wire import Vector  # noqa: E402

pytestmark = pytest.mark.anyio
DIM = 48
COUNT = 3000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def few_are_what_the_option_says(monkeypatch):
    """Have ``exact_below`` decide alone, on tables as small as these."""
    monkeypatch.setattr(search, "_ALWAYS", 1)
    monkeypatch.setattr(search, "_SHARE", 10**9)


def clustered(count: int, dim: int = DIM, seed: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count // 50, dim))
    vectors = centres[rng.integers(0, len(centres), count)] + 0.5 * rng.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def store_at(url: str, *, exact_below: int, dim: int = DIM) -> PostgresVectorStore:
    options = PostgresOptions(exact_below=exact_below, ef_search=100)
    return PostgresVectorStore(url, embedder=HashingEmbedder(dim), namespace="n", options=options)


FILTERS = {
    "all": (None, lambda n: n >= 0),
    "tenth": ({"tool": "t3"}, lambda n: n % 10 == 3),
    "hundredth": ({"kind": "k3"}, lambda n: n % 100 == 3),
    "undeclared": ({"ten": 3}, lambda n: n % 10 == 3),
    "one": ({"n": 17}, lambda n: n == 17),
    "none": ({"n": -1}, lambda n: n < 0),
}


async def test_index_and_comparison_find_what_is_nearest(postgres_database):
    vectors = clustered(COUNT)
    chunks = [
        Chunk(
            f"text {n}",
            id=f"c{n}",
            metadata={"kind": f"k{n % 100}", "tool": f"t{n % 10}", "ten": n % 10, "n": n},
            vector=vectors[n],
        )
        for n in range(COUNT)
    ]
    numbers, queries = np.arange(COUNT), clustered(COUNT)[::150] + 0.02
    async with (
        store_at(postgres_database, exact_below=1) as index,
        store_at(postgres_database, exact_below=10**6) as exact,
    ):
        await index.add(chunks)
        await index.scoped("other").add([Chunk("near", id=f"o{n}", vector=queries[n]) for n in range(20)])
        for name, (filter, admits) in FILTERS.items():
            allowed, found, wanted = admits(numbers), 0, 0
            for query in queries:
                scores = np.where(allowed, vectors @ (query / np.linalg.norm(query)), -9)
                best = [f"c{n}" for n in np.argsort(-scores, kind="stable")[:5] if allowed[n]]
                by_comparison = [hit.chunk.id for hit in await exact.search_by_vector(query, filter=filter)]
                assert by_comparison == best, name
                by_index = [hit.chunk.id for hit in await index.search_by_vector(query, filter=filter)]
                assert len(by_index) == len(best), name
                found += len(set(by_index) & set(best))
                wanted += len(best)
            assert found >= 0.98 * wanted, f"{name}: {found} of {wanted}"
        assert len(await index.search_by_vector(queries[0], k=COUNT + 1)) == COUNT


async def test_the_planner_walks_the_index_or_compares_as_it_is_told(postgres_database):
    async with store_at(postgres_database, exact_below=1) as store:
        await store.add([Chunk("x", metadata={"kind": "a"}, vector=v) for v in clustered(200)])
        await store.search_by_vector(np.ones(DIM), filter={"kind": "a"})
        state = next(iter(store._postgres._loops.values()))
        filters, searches = store._postgres._known.filters, store._postgres._known.searches
        where = filters.compile(None)

        async def plan(statement: bytes, parameters: tuple) -> str:
            async with state.pool.connection() as connection:
                cursor = await connection.execute(b"EXPLAIN " + statement, parameters)
                return "\n".join(line for (line,) in await cursor.fetchall())

        vector = Vector(np.ones(DIM, dtype=np.float32))
        near = searches._plain.near[0] + where.sql + searches._plain.near[1]
        found = await plan(near, (vector, "n", 5))
        assert "chunks_by_vector_1" in found
        assert "Sort" not in found
        exact = searches._plain.exact[0] + where.sql + searches._plain.exact[1]
        found = await plan(exact, (vector, "n", 1000, 5, "n"))
        assert "chunks_by_vector_1" not in found
        assert "Seq Scan" not in found


async def test_equal_vectors_come_in_the_order_of_insertion_by_the_index_too(postgres_database):
    async with store_at(postgres_database, exact_below=1) as store:
        vector = clustered(100)[0]
        await store.add([Chunk("x", id=f"s{n:02}", vector=vector) for n in range(12)])
        hits = await store.search_by_vector(clustered(100)[1], k=12)
        assert [hit.chunk.id for hit in hits] == [f"s{n:02}" for n in range(12)]


async def test_a_walk_goes_as_far_as_the_size_of_the_table_asks(postgres_database, monkeypatch):
    async with PostgresVectorStore(
        postgres_database, embedder=HashingEmbedder(DIM), namespace="n", options=PostgresOptions(pool_size=1)
    ) as store:
        monkeypatch.setattr(search, "_SHARE", 0.01)
        await store.add([Chunk("x", vector=v) for v in clustered(200)])
        state = next(iter(store._postgres._loops.values()))

        async def effort() -> str:
            await store.search_by_vector(np.ones(DIM))
            async with state.pool.connection() as connection:
                return (await (await connection.execute("SHOW hnsw.ef_search")).fetchone())[0]

        assert await effort() == "40"
        monkeypatch.setattr(search, "_EFFORTS", ((50, 77), (0, 40)))
        store._postgres._known.searches._sized_until = 0.0
        assert await effort() == "77"


@pytest.mark.parametrize("dim", [2100, 4100])
async def test_long_vectors_are_found_by_half_precision_or_without_an_index(postgres_database, dim):
    vectors = clustered(150, dim)
    async with store_at(postgres_database, exact_below=1, dim=dim) as store:
        await store.add([Chunk("x", id=f"c{n}", vector=v) for n, v in enumerate(vectors)])
        for n in range(0, 150, 30):
            hits = await store.search_by_vector(vectors[n], k=3)
            expected = np.argsort(-(vectors @ vectors[n]), kind="stable")[:3]
            assert [hit.chunk.id for hit in hits] == [f"c{m}" for m in expected]
            assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    with psycopg.connect(postgres_database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_indexes WHERE schemaname = 'vectorstores' AND indexdef LIKE '%halfvec%'"
        )
        assert found.fetchone() == (1 if dim == 2100 else 0,)
