"""What a move to another embedder leaves in the database, beside test_reembed.py, which is about every backend."""

import uuid
from urllib.parse import urlsplit

import anyio
import pytest

from vectorstores import (
    Chunk,
    EmbedderMismatchError,
    EmbeddingError,
    HashingEmbedder,
    PostgresVectorStore,
    StoreUnavailableError,
    open_store,
    origin_of,
    reembed,
)

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.anyio
OLD, NEW = HashingEmbedder(64), HashingEmbedder(128)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def run_sql(url: str, statement: str, *parameters):
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


def names(url: str) -> set[str]:
    """Return the columns, indexes, triggers and functions that have to do with vectors."""
    return {
        name
        for (name,) in run_sql(
            url,
            "SELECT attname FROM pg_attribute WHERE attrelid = 'vectorstores.chunks'::regclass"
            " AND NOT attisdropped AND attname LIKE 'vector%'"
            " UNION SELECT c.relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid"
            " WHERE i.indrelid = 'vectorstores.chunks'::regclass AND i.indisvalid AND relname ~ 'vector|pending'"
            " UNION SELECT tgname FROM pg_trigger WHERE tgrelid = 'vectorstores.chunks'::regclass"
            " UNION SELECT proname FROM pg_proc WHERE pronamespace = 'vectorstores'::regnamespace"
            " AND proname ~ 'vector'",
        )
    }


async def fill(url: str, count: int = 20) -> None:
    async with open_store(url, embedder=OLD, namespace="a") as store:
        await store.add([Chunk(f"text {n}", id=f"c{n}") for n in range(count)])
        await store.search("text 3")


class Watched(HashingEmbedder):
    """Calls back before each batch."""

    def __init__(self, dim, between):
        super().__init__(dim)
        self.between = between

    async def embed(self, texts):
        await self.between(texts)
        return await super().embed(texts)


async def test_nothing_of_the_old_embedder_or_of_the_move_stays(postgres_database):
    await fill(postgres_database)
    await reembed(postgres_database, embedder=NEW)
    assert names(postgres_database) == {"vector_2", "chunks_by_vector_2"}
    assert run_sql(postgres_database, "SELECT key FROM vectorstores.meta WHERE key LIKE 'next%'") == []
    (sizes,) = run_sql(
        postgres_database, "SELECT min(vector_dims(vector_2)), count(*) FROM vectorstores.chunks"
    )
    assert sizes == (128, 20)
    await reembed(postgres_database, embedder=OLD)
    assert names(postgres_database) == {"vector_3", "chunks_by_vector_3"}
    assert origin_of(postgres_database).embedder_id == OLD.id


async def test_a_move_that_is_given_up_is_cleared_away_and_its_helper_told(postgres_database):
    await fill(postgres_database)

    async def return_to_the_old(_):
        # The embedder that the store has: nothing to do but to clear up.
        await reembed(postgres_database, embedder=OLD)
        assert names(postgres_database) == {"vector_1", "chunks_by_vector_1"}

    with pytest.raises(StoreUnavailableError, match="another process began a move"):
        await reembed(postgres_database, embedder=Watched(128, return_to_the_old))
    async with open_store(postgres_database, embedder=OLD, namespace="a") as store:
        (hit,) = await store.search("text 7", k=1)
        assert hit.chunk.id == "c7"


async def test_a_move_that_an_earlier_version_began_gets_its_indexes(postgres_database):
    await fill(postgres_database)

    async def stop(_):
        raise EmbeddingError("stopped")

    with pytest.raises(EmbeddingError):
        await reembed(postgres_database, embedder=Watched(128, stop))
    # It made them when all vectors were there.
    run_sql(
        postgres_database,
        "SET search_path = vectorstores; DROP INDEX chunks_by_vector_2",
    )
    await reembed(postgres_database, embedder=NEW)
    assert names(postgres_database) == {"vector_2", "chunks_by_vector_2"}


async def test_many_write_while_the_vectors_move(postgres_database):
    await fill(postgres_database)
    expected: set[str] = {f"c{n}" for n in range(20)}
    ended = False
    refused = 0

    async def write(number: int) -> None:
        nonlocal refused
        async with open_store(postgres_database, embedder=OLD, namespace="a") as store:
            for step in range(1000):
                if ended:
                    return
                try:
                    await store.add([Chunk(f"text {number} {step}", id=f"w{number}")])
                    expected.add(f"w{number}")
                    await store.add([Chunk(f"again {step}", id=f"c{number}")])
                except EmbedderMismatchError:
                    refused += 1
                    return

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(write, number)
        with anyio.fail_after(60):
            await reembed(postgres_database, embedder=NEW, batch=16)
        ended = True
    assert refused, "nobody wrote to its end"
    async with PostgresVectorStore(postgres_database, embedder=NEW, namespace="a") as store:
        page = await store.scan(limit=1000)
        assert {chunk.id for chunk in page.chunks} == expected
        for chunk in page.chunks:
            hits = await store.search(chunk.content, k=1)
            assert hits[0].score == pytest.approx(1.0, abs=1e-6), chunk


async def test_long_vectors_of_both_embedders_stand_beside_each_other(postgres_database):
    # Two of 4 kB and a text are more than a page.
    async with open_store(postgres_database, embedder=HashingEmbedder(1024), namespace="a") as store:
        await store.add([Chunk("x" * 2000 + str(n), id=f"c{n}") for n in range(3)])
    new = HashingEmbedder(1000)
    await reembed(postgres_database, embedder=new)
    async with open_store(postgres_database, embedder=new, namespace="a") as store:
        (hit,) = await store.search("x" * 2000 + "1", k=1)
        assert (hit.chunk.id, round(hit.score, 5)) == ("c1", 1.0)


async def test_only_the_owner_of_the_tables_may_move_them(postgres_database):
    await fill(postgres_database, 1)
    role = f"role_{uuid.uuid4().hex[:12]}"
    # PostgreSQL 14 lets everybody make things there, and a role that may is refused.
    run_sql(postgres_database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    run_sql(postgres_database, f"CREATE ROLE {role} LOGIN PASSWORD 'sesame'")
    try:
        async with PostgresVectorStore(postgres_database, embedder=OLD, namespace="a") as owner:
            await owner.secure(role, ["a"])
        address = urlsplit(postgres_database)._replace(netloc=f"{role}:sesame@").geturl()
        with pytest.raises(StoreUnavailableError, match="must be owner") as caught:
            await reembed(address, embedder=NEW)
        assert "sesame" not in str(caught.value)
        assert names(postgres_database) == {"vector_1", "chunks_by_vector_1"}
    finally:
        run_sql(postgres_database, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_other_event_loops_are_refused_with_the_reason(postgres_database):
    async def use() -> None:
        with pytest.raises(StoreUnavailableError, match="asyncio only"):
            await reembed(postgres_database, embedder=NEW)

    anyio.run(use, backend="trio")
