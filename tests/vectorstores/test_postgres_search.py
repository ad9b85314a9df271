"""The two ways of a search in PostgreSQL find the same, and the planner has no way of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from vectorstores import Chunk, HashingEmbedder, PostgresOptions, PostgresVectorStore
from vectorstores.filters import parse

psycopg = pytest.importorskip("psycopg")
from vectorstores.postgres import schema, search  # noqa: E402
from vectorstores.postgres.values import Vector  # noqa: E402

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


def store_at(url: str, *, exact_below: int, dim: int = DIM, ef_search: int = 100) -> PostgresVectorStore:
    options = PostgresOptions(exact_below=exact_below, ef_search=ef_search)
    return PostgresVectorStore(url, embedder=HashingEmbedder(dim), namespace="n", options=options)


FILTERS = {
    "all": (None, lambda n: n >= 0),
    "tenth": ({"tool": "t3"}, lambda n: n % 10 == 3),
    "hundredth": ({"kind": "k3"}, lambda n: n % 100 == 3),
    "undeclared": ({"ten": 3}, lambda n: n % 10 == 3),
    "one": ({"n": 17}, lambda n: n == 17),
    "none": ({"n": -1}, lambda n: n < 0),
}


@asynccontextmanager
async def as_with_pgvector_07(store: PostgresVectorStore, monkeypatch) -> AsyncIterator[PostgresVectorStore]:
    """Open a store whose walks end where pgvector 0.7 ends them; from 0.8 on they go on until enough are found."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "ITERATIVE", (99,))
        await store.count()
    async with store:
        assert not store._postgres._known.about.iterative
        yield store


async def test_index_and_comparison_find_what_is_nearest(postgres_database, monkeypatch):
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
        as_with_pgvector_07(store_at(postgres_database, exact_below=1), monkeypatch) as short_walks,
    ):
        await index.add(chunks)
        await index.scoped("other").add([Chunk("near", id=f"o{n}", vector=queries[n]) for n in range(20)])
        for name, (filter, admits) in FILTERS.items():
            allowed, found, wanted = admits(numbers), {index: 0, short_walks: 0}, 0
            for query in queries:
                scores = np.where(allowed, vectors @ (query / np.linalg.norm(query)), -9)
                best = [f"c{n}" for n in np.argsort(-scores, kind="stable")[:5] if allowed[n]]
                by_comparison = [hit.chunk.id for hit in await exact.search_by_vector(query, filter=filter)]
                assert by_comparison == best, name
                for store in found:
                    by_index = [hit.chunk.id for hit in await store.search_by_vector(query, filter=filter)]
                    assert len(by_index) == len(best), name
                    found[store] += len(set(by_index) & set(best))
                wanted += len(best)
            assert min(found.values()) >= 0.98 * wanted, f"{name}: {list(found.values())} of {wanted}"
        for store in (index, short_walks):
            assert len(await store.search_by_vector(queries[0], k=COUNT + 1)) == COUNT


async def test_the_index_is_walked_further_where_many_are_wanted_or_few_admitted(
    postgres_database, monkeypatch
):
    vectors = clustered(1000)
    compared: list[int] = []
    exactly = search._exactly

    async def noted(connection, ask, most):
        compared.append(most)
        return await exactly(connection, ask, most)

    monkeypatch.setattr(search, "_exactly", noted)
    async with (
        store_at(postgres_database, exact_below=1, ef_search=40) as walks_on,
        as_with_pgvector_07(
            store_at(postgres_database, exact_below=1, ef_search=40), monkeypatch
        ) as walks_once,
    ):
        await walks_on.add(
            [Chunk("x", id=f"c{n}", metadata={"tool": f"t{n % 10}"}, vector=v) for n, v in enumerate(vectors)]
        )
        for store in (walks_on, walks_once):
            for k, filter, step in ((45, None, 1), (5, {"tool": "t0"}, 10)):
                found = 0
                for query in vectors[::50] + 0.02:
                    best = step * np.argsort(-(vectors[::step] @ query), kind="stable")[:k]
                    hits = await store.search_by_vector(query, k=k, filter=filter)
                    found += len({hit.chunk.id for hit in hits} & {f"c{n}" for n in best})
                assert found >= 0.98 * 20 * k
    # Once for each store and filter, to find out that many are admitted; never all of them.
    assert compared == [2] * 4


async def test_a_filter_that_goes_by_what_the_vectors_say_finds_what_is_nearest(postgres_database):
    """All that is admitted lies in one corner, and the queries elsewhere."""
    vectors = clustered(1000)
    far = np.argsort(vectors @ vectors[0])
    corner = far[-200:].tolist()
    async with store_at(postgres_database, exact_below=1, ef_search=1) as store:
        await store.add(
            [
                Chunk("x", id=f"c{n}", metadata={"tool": "in" if n in corner else "out"}, vector=v)
                for n, v in enumerate(vectors)
            ]
        )
        found = 0
        for query in vectors[far[:500:5]]:
            best = sorted(corner, key=lambda n, query=query: -float(vectors[n] @ query))[:5]
            hits = await store.search_by_vector(query, filter={"tool": "in"})
            found += len({hit.chunk.id for hit in hits} & {f"c{n}" for n in best})
        assert found >= 0.99 * 500
        # Of the best alone that were asked for, and no more of many than is worth it.
        searches, where = store._postgres._known.searches, store._postgres._known.filters.compile
        somewhere = where(parse({"tool": "in"}))
        walks = [searches._walked_for(k, somewhere) for k in (1, 5, 100, 10_000)]
        assert walks == [4, 20, 160, 10_060]
        assert [searches._walked_for(k, where(None)) for k in (1, 100)] == [1, 100]


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


async def test_settings_of_a_role_leave_the_plan_as_it_is(postgres_database):
    async with store_at(postgres_database, exact_below=1) as store:
        await store.add([Chunk("x", vector=v) for v in clustered(100)])
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            (database,) = connection.execute("SELECT quote_ident(current_database())").fetchone()
            for setting in ("indexscan", "bitmapscan", "indexonlyscan", "nestloop"):
                connection.execute(f"ALTER DATABASE {database} SET enable_{setting} = off")
    async with store_at(postgres_database, exact_below=1) as store:
        await store.search_by_vector(np.ones(DIM))
        state = next(iter(store._postgres._loops.values()))
        searches = store._postgres._known.searches
        near = b"EXPLAIN " + searches._plain.near[0] + b"true" + searches._plain.near[1]
        async with state.pool.connection() as connection:
            cursor = await connection.execute(near, (Vector(np.ones(DIM, dtype=np.float32)), "n", 5))
            found = "\n".join(line for (line,) in await cursor.fetchall())
        assert "chunks_by_vector_1" in found
        assert "Sort" not in found


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
        monkeypatch.setattr(search, "effort_for", lambda rows: 77 if rows > 50 else 40)
        store._postgres._known.searches._sized_until = 0.0
        assert await effort() == "77"


async def test_where_many_were_admitted_and_few_are_left_they_are_compared(postgres_database):
    count = 1000
    vectors = clustered(count)
    async with store_at(postgres_database, exact_below=200, ef_search=40) as store:
        await store.add(
            [Chunk("x", id=f"c{n}", metadata={"n": n}, vector=vector) for n, vector in enumerate(vectors)]
        )
        searches = store._postgres._known.searches
        (query,) = clustered(50, seed=8)[:1]
        few = {"n": {"$lt": count}}
        for filter in (None, few):
            await store.search_by_vector(query, filter=filter)
        assert [wide for wide, _ in searches._wide.values()] == [True, True]
        # One more or less is no reason to look again.
        await store.delete(["c0"])
        await store.update("c1", {"n": count})
        assert len(searches._wide) == 2
        farthest = np.argsort(vectors @ query)[:100]
        left = {f"c{n}" for n in farthest}
        for n in farthest[:20]:
            await store.update(f"c{n}", {"n": count})
        assert not searches._wide
        await store.delete([f"c{n}" for n in range(count) if f"c{n}" not in left])
        for filter, best in ((None, farthest), (few, farthest[20:])):
            hits = await store.search_by_vector(query, k=5, filter=filter)
            order = sorted(best, key=lambda n: -float(vectors[n] @ query))[:5]
            assert [hit.chunk.id for hit in hits] == [f"c{n}" for n in order]
        assert not any(wide for wide, _ in searches._wide.values())


async def test_the_rows_of_a_table_are_estimated_by_what_the_server_counted(postgres_database, monkeypatch):
    monkeypatch.setattr(search, "_SHARE", 0.5)
    count = 600
    async with store_at(postgres_database, exact_below=10**6) as store:

        async def bound() -> int:
            known = store._postgres._known.searches
            known._sized_until = 0.0
            await store.search_by_vector(np.ones(DIM))
            return known._bound

        await store.add([Chunk("x", vector=v) for v in clustered(count)])
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute("ANALYZE vectorstores.chunks")
            assert 0.9 * count / 2 < await bound() < 1.1 * count / 2
            await store.delete([chunk.id for chunk in (await store.scan(limit=count // 2)).chunks])
            connection.execute("VACUUM ANALYZE vectorstores.chunks")
        assert 0.9 * count / 4 < await bound() < 1.1 * count / 4


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
            hits = await store.search_by_vector(vectors[n], k=3)
            expected = np.argsort(-(vectors @ vectors[n]), kind="stable")[:3]
            assert [hit.chunk.id for hit in hits] == [f"c{m}" for m in expected]
            assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    with psycopg.connect(postgres_database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_indexes WHERE schemaname = 'vectorstores' AND indexdef LIKE '%halfvec%'"
        )
        assert found.fetchone() == (1 if dim == 2100 else 0,)
