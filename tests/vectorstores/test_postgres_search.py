"""The two ways of a search in PostgreSQL find the same, and the planner has no way of its own."""

import anyio
import numpy as np
import pytest

from vectorstores import Chunk, HashingEmbedder, PostgresVectorStore

psycopg = pytest.importorskip("psycopg")
from vectorstores.postgres import search  # noqa: E402

pytestmark = pytest.mark.anyio
DIM = 48
COUNT = 3000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def clustered(count: int, dim: int = DIM, seed: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count // 50, dim))
    vectors = centres[rng.integers(0, len(centres), count)] + 0.5 * rng.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def store_at(url: str, *, exact_below: int, dim: int = DIM, effort: int = 100) -> PostgresVectorStore:
    """Return a store that compares up to so many, and walks the index for more, keeping so many candidates."""

    class Searches(search.Searches):
        async def _measure(self, connection, about) -> None:
            self._bound, self._effort = exact_below, effort

    store = PostgresVectorStore(url, embedder=HashingEmbedder(dim), namespace="n")
    store._postgres.searches = Searches()
    return store


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
                by_comparison = [hit.chunk.id for hit in await exact.search(query, filter=filter)]
                assert by_comparison == best, name
                by_index = [hit.chunk.id for hit in await index.search(query, filter=filter)]
                assert len(by_index) == len(best), name
                found += len(set(by_index) & set(best))
                wanted += len(best)
            assert found >= 0.98 * wanted, f"{name}: {found} of {wanted}"
        assert len(await index.search(queries[0], k=COUNT + 1)) == COUNT


async def test_a_filter_that_goes_by_what_the_vectors_say_finds_what_is_nearest(postgres_database):
    """All that is admitted lies in one corner, and the queries elsewhere."""
    vectors = clustered(1000)
    far = np.argsort(vectors @ vectors[0])
    corner = far[-200:].tolist()
    async with store_at(postgres_database, exact_below=1, effort=1) as store:
        await store.add(
            [
                Chunk("x", id=f"c{n}", metadata={"tool": "in" if n in corner else "out"}, vector=v)
                for n, v in enumerate(vectors)
            ]
        )
        found = 0
        for query in vectors[far[:500:5]]:
            best = sorted(corner, key=lambda n, query=query: -float(vectors[n] @ query))[:5]
            hits = await store.search(query, filter={"tool": "in"})
            found += len({hit.chunk.id for hit in hits} & {f"c{n}" for n in best})
        assert found >= 0.99 * 500


def scans(url: str) -> tuple[int, int]:
    """Return how often the index of vectors was walked, and how often the whole table was read."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(
            "SELECT (SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname = 'chunks_by_vector_1'),"
            " (SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname = 'chunks')"
        ).fetchone()


async def test_settings_of_a_role_leave_the_plan_as_it_is(postgres_database):
    async with store_at(postgres_database, exact_below=1) as store:
        await store.add([Chunk("x", metadata={"kind": "a"}, vector=v) for v in clustered(200)])
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            (database,) = connection.execute("SELECT quote_ident(current_database())").fetchone()
            for setting in ("indexscan", "bitmapscan", "indexonlyscan", "nestloop"):
                connection.execute(f"ALTER DATABASE {database} SET enable_{setting} = off")
    _, read_before = scans(postgres_database)
    async with store_at(postgres_database, exact_below=1) as store:
        for filter in (None, {"kind": "a"}):
            assert len(await store.search(np.ones(DIM), filter=filter)) == 5
    async with store_at(postgres_database, exact_below=10**6) as store:
        assert len(await store.search(np.ones(DIM))) == 5
    # Told when a connection of the server has ended.
    with anyio.fail_after(60):
        while scans(postgres_database)[0] < 2:  # noqa: ASYNC110 - another process counts
            await anyio.sleep(0.05)
    assert scans(postgres_database) == (2, read_before)


async def test_equal_vectors_come_in_the_order_of_insertion_by_the_index_too(postgres_database):
    async with store_at(postgres_database, exact_below=1) as store:
        vector = clustered(100)[0]
        await store.add([Chunk("x", id=f"s{n:02}", vector=vector) for n in range(12)])
        hits = await store.search(clustered(100)[1], k=12)
        assert [hit.chunk.id for hit in hits] == [f"s{n:02}" for n in range(12)]


async def test_where_many_were_admitted_and_few_are_left_they_are_compared(postgres_database, monkeypatch):
    # As some seconds later.
    monkeypatch.setattr(search, "_BELIEVED_FOR", -1.0)
    count = 1000
    vectors = clustered(count)
    async with store_at(postgres_database, exact_below=200, effort=40) as store:
        await store.add(
            [Chunk("x", id=f"c{n}", metadata={"n": n}, vector=vector) for n, vector in enumerate(vectors)]
        )
        (query,) = clustered(50, seed=8)[:1]
        few = {"n": {"$lt": count}}
        for filter in (None, few):
            await store.search(query, filter=filter)
        farthest = np.argsort(vectors @ query)[:100]
        left = {f"c{n}" for n in farthest}
        for n in farthest[:20]:
            await store.add([Chunk("x", id=f"c{n}", metadata={"n": count}, vector=vectors[n])])
        await store.delete([f"c{n}" for n in range(count) if f"c{n}" not in left])
        for filter, best in ((None, farthest), (few, farthest[20:])):
            hits = await store.search(query, k=5, filter=filter)
            order = sorted(best, key=lambda n: -float(vectors[n] @ query))[:5]
            assert [hit.chunk.id for hit in hits] == [f"c{n}" for n in order]


def test_a_walk_keeps_more_candidates_of_more_rows_up_to_what_pgvector_takes():
    efforts = [search.effort_for(rows) for rows in (0, 10_000, 100_000, 1_000_000, 10_000_000, 10**9)]
    assert efforts == [40, 40, 40, 260, 1000, 1000]
    grown = [search.effort_for(rows) for rows in range(0, 2_000_000, 5_000)]
    assert grown == sorted(grown)


@pytest.mark.parametrize("dim", [2100, 4100])
async def test_long_vectors_are_found_by_half_precision_or_without_an_index(postgres_database, dim):
    vectors = clustered(150, dim)
    async with store_at(postgres_database, exact_below=1, dim=dim) as store:
        await store.add([Chunk("x", id=f"c{n}", vector=v) for n, v in enumerate(vectors)])
        for n in range(0, 150, 30):
            hits = await store.search(vectors[n], k=3)
            expected = np.argsort(-(vectors @ vectors[n]), kind="stable")[:3]
            assert [hit.chunk.id for hit in hits] == [f"c{m}" for m in expected]
            assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    with psycopg.connect(postgres_database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_indexes WHERE schemaname = 'vectorstores' AND indexdef LIKE '%halfvec%'"
        )
        assert found.fetchone() == (1 if dim == 2100 else 0,)
