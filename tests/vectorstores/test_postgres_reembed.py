"""What a move to another embedder leaves in the database, beside test_reembed.py, which is about every backend."""

import uuid
from contextlib import contextmanager
from functools import partial
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
    assert origin_of(postgres_database).id == OLD.id


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


async def stop_in_the_fill(url: str) -> None:
    async def stop(_):
        raise EmbeddingError("stopped")

    with pytest.raises(EmbeddingError):
        await reembed(url, embedder=Watched(128, stop))


async def test_a_move_that_an_earlier_version_began_keeps_its_index(postgres_database):
    await fill(postgres_database)
    await stop_in_the_fill(postgres_database)
    # That version made the index first.
    run_sql(postgres_database, f"SET search_path = vectorstores, public; {INDEX}")
    await reembed(postgres_database, embedder=NEW)
    assert names(postgres_database) == {"vector_2", "chunks_by_vector_2"}


INDEX = "CREATE INDEX chunks_by_vector_2 ON chunks USING hnsw (vector_2 vector_ip_ops)"
BUILDING = (
    "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE relname = 'chunks_by_vector_2'"
)
WAITING = "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE NOT granted AND relname = %s"


async def until(url: str, statement: str, *parameters: str) -> None:
    with anyio.fail_after(60):
        while not await anyio.to_thread.run_sync(run_sql, url, statement, *parameters):  # noqa: ASYNC110
            await anyio.sleep(0.05)


@contextmanager
def builds_held_up(url: str):
    """Let every concurrent build of an index wait at its end, for a transaction that saw the table before."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        yield


async def test_others_read_and_write_while_the_index_is_built_and_an_interrupted_build_is_repeated(
    postgres_database,
):
    await fill(postgres_database)
    with builds_held_up(postgres_database):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: reembed(postgres_database, embedder=NEW))
            await until(postgres_database, f"{BUILDING} AND indisready AND NOT indisvalid")
            async with open_store(postgres_database, embedder=OLD, namespace="a") as store:
                with anyio.fail_after(20):
                    (hit,) = await store.search("text 7", k=1)
                    await store.add([Chunk("late", id="late"), Chunk("changed", id="c3")])
                    await store.delete(["c4"])
            assert hit.chunk.id == "c7"
            tasks.cancel_scope.cancel()
        # The statement is cancelled behind the caller.
        await until(
            postgres_database, "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_progress_create_index)"
        )
    assert run_sql(postgres_database, f"{BUILDING} AND NOT indisvalid")
    await reembed(postgres_database, embedder=NEW)
    assert names(postgres_database) == {"vector_2", "chunks_by_vector_2"}
    async with open_store(postgres_database, embedder=NEW, namespace="a") as store:
        for text, id in (("late", "late"), ("changed", "c3"), ("text 5", "c5")):
            (hit,) = await store.search(text, k=1)
            assert (hit.chunk.id, round(hit.score, 5)) == (id, 1.0)
        assert await store.count() == 20


@pytest.mark.parametrize("other", ["a second move", "the server, for a move that was killed"])
async def test_an_index_is_built_by_one_at_a_time(postgres_database, other):
    """Two builds of one table at once would end in a deadlock."""
    await fill(postgres_database)
    await stop_in_the_fill(postgres_database)
    move = partial(reembed, postgres_database, embedder=NEW)
    build = f"SET search_path = vectorstores, public; {INDEX.replace('INDEX', 'INDEX CONCURRENTLY')}".split(
        "; "
    )

    def build_by_itself():
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            for statement in build:
                connection.execute(statement)

    async with anyio.create_task_group() as tasks:
        with builds_held_up(postgres_database):
            second = other == "a second move"
            tasks.start_soon(move if second else partial(anyio.to_thread.run_sync, build_by_itself))
            await until(postgres_database, f"{BUILDING} AND indisready AND NOT indisvalid")
            tasks.start_soon(move)
            await until(postgres_database, WAITING, "scopes" if second else "chunks")
            # Longer than the server waits before it looks for a deadlock.
            await anyio.sleep(1.5)
    assert names(postgres_database) == {"vector_2", "chunks_by_vector_2"}


async def test_the_exchange_embeds_little_of_what_others_wrote_meanwhile(postgres_database):
    """It embeds under a lock, so writers would wait for all of it."""
    await fill(postgres_database)
    sizes: list[int] = []
    # The fill goes through namespaces in their order, so it has passed these.
    late = {5: ("Z", 10), 8: ("Y", 7)}

    async def write(texts):
        sizes.append(len(texts))
        namespace, count = late.get(len(sizes), ("", 0))
        if count:
            async with open_store(postgres_database, embedder=OLD, namespace=namespace) as store:
                await store.add([Chunk(f"late {n}", id=f"c{n}") for n in range(count)])

    await reembed(postgres_database, embedder=Watched(128, write), batch=4)
    assert (sum(sizes), max(sizes)) == (37, 4)


async def test_a_move_to_a_third_embedder_says_that_an_index_is_being_built(postgres_database, monkeypatch):
    await fill(postgres_database)
    monkeypatch.setattr("vectorstores.postgres.move._RETRY_FOR", 1.0)
    with builds_held_up(postgres_database):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(reembed, postgres_database, embedder=NEW))
            await until(postgres_database, f"{BUILDING} AND indisready AND NOT indisvalid")
            with pytest.raises(StoreUnavailableError, match="build of an index"):
                await reembed(postgres_database, embedder=HashingEmbedder(32))
            tasks.cancel_scope.cancel()


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
