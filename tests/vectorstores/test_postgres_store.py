"""The PostgreSQL store beside the contract: how it opens, what it refuses, and what becomes of connections."""

import math
import re
import subprocess
import sys
import threading
import uuid

import anyio
import numpy as np
import pytest

from vectorstores import (
    AbsentEmbedder,
    Chunk,
    EmbedderMismatchError,
    FormatVersionError,
    HashingEmbedder,
    InvalidChunkError,
    PostgresOptions,
    PostgresVectorStore,
    RecordWrite,
    StoreCorruptError,
    StoreUnavailableError,
    open_store,
    origin_of,
)

psycopg = pytest.importorskip("psycopg")
from vectorstores.postgres import chunks, schema  # noqa: E402
from vectorstores.postgres import connection as reaching  # noqa: E402

pytestmark = pytest.mark.anyio
DIM = 16


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def store_at(url: str, **arguments) -> PostgresVectorStore:
    return PostgresVectorStore(url, **{"embedder": HashingEmbedder(DIM), "namespace": "test"} | arguments)


def run_sql(url: str, statement: str, *parameters):
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def role(postgres_database):
    """A role that may log in and nothing else, and the address with its name and password."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    run_sql(postgres_database, f"CREATE ROLE {name} LOGIN PASSWORD 'sesame'")
    parts = psycopg.conninfo.conninfo_to_dict(postgres_database)
    yield name, psycopg.conninfo.make_conninfo(**parts | {"user": name, "password": "sesame"})
    run_sql(postgres_database, f"DROP OWNED BY {name}")
    run_sql(postgres_database, f"DROP ROLE {name}")


def test_other_event_loops_are_refused_with_the_reason(postgres_database):
    async def use() -> None:
        with pytest.raises(StoreUnavailableError, match="asyncio only"):
            await store_at(postgres_database).count()

    anyio.run(use, backend="trio")


async def test_an_address_opens_the_store_in_its_schema(postgres_database):
    assert origin_of(postgres_database) is None
    separator = "&" if "?" in postgres_database else "?"
    url = f"{postgres_database}{separator}schema=my%20lessons"
    async with open_store(url, embedder=HashingEmbedder(DIM), namespace="n") as store:
        await store.add([Chunk("one")])
    assert run_sql(postgres_database, 'SELECT count(*) FROM "my lessons".chunks') == [(1,)]
    assert origin_of(url) == AbsentEmbedder(HashingEmbedder(DIM).id, repr(HashingEmbedder(DIM)), DIM)
    assert origin_of(postgres_database) is None


async def test_indexed_keys_are_named_where_a_store_is_opened_by_its_address(postgres_database):
    keys = {"embedder": HashingEmbedder(DIM), "namespace": "n", "indexed": ["colour"]}
    async with open_store(postgres_database, **keys) as store:
        await store.add([Chunk("one", metadata={"colour": "red", "kind": "a"}), Chunk("two")])
        assert await store.count(filter={"colour": "red"}) == 1
    # They stay as they are; other keys are found without a column.
    async with open_store(postgres_database, **keys | {"indexed": ["kind"]}) as store:
        assert await store.count(filter={"kind": "a"}) == 1
        assert await store.count(filter={"colour": "red"}) == 1
    assert run_sql(postgres_database, "SELECT k1 FROM vectorstores.chunks ORDER BY number") == [
        ("red",),
        (None,),
    ]
    with pytest.raises(TypeError, match="indexed"):
        store_at(postgres_database, indexed="kind")


async def test_without_create_nothing_is_made(postgres_database):
    store = store_at(postgres_database, create=False)
    with pytest.raises(StoreUnavailableError, match="no store here"):
        await store.count()
    assert run_sql(postgres_database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'vectorstores'") == [
        (0,)
    ]
    assert run_sql(postgres_database, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == [(0,)]
    await store.close()


async def test_another_embedder_or_format_is_refused(postgres_database):
    async with store_at(postgres_database) as store:
        await store.add([Chunk("kept")])
    with pytest.raises(EmbedderMismatchError, match="dim 32"):
        await store_at(postgres_database, embedder=HashingEmbedder(32)).count()
    run_sql(postgres_database, "UPDATE vectorstores.meta SET value = '99' WHERE key = 'format'")
    with pytest.raises(FormatVersionError, match=r"format 99.*update this package"):
        await store_at(postgres_database).count()


async def test_a_missing_right_names_the_statement_for_an_administrator(postgres_database, role):
    name, url = role
    with pytest.raises(
        StoreUnavailableError, match=rf"{name} may not .*: CREATE EXTENSION vector;"
    ) as caught:
        await store_at(url).count()
    run_sql(postgres_database, "CREATE EXTENSION vector")
    with pytest.raises(StoreUnavailableError, match="an administrator runs") as second:
        await store_at(url).count()
    statement = str(second.value).partition("runs in database ")[2].partition(": ")[2]
    assert "sesame" not in f"{caught.value} {second.value}"
    run_sql(postgres_database, statement)
    async with store_at(url) as store:
        await store.add([Chunk("works now")])


async def test_a_right_on_tables_that_are_there_names_the_statement(postgres_database, role):
    name, url = role
    async with store_at(postgres_database) as owner:
        await owner.add([Chunk("there already", id="c")])
    with pytest.raises(StoreUnavailableError, match=r"permission denied.*an administrator runs in") as caught:
        await store_at(url).count()
    assert "sesame" not in str(caught.value)
    run_sql(postgres_database, str(caught.value).partition("runs in database ")[2].partition(": ")[2])
    async with store_at(url) as store:
        await store.add(
            [Chunk("another", id="d"), Chunk("replaced", id="c")], records=[RecordWrite("a", "b", 1)]
        )
        assert [hit.chunk.id for hit in await store.search("another", k=1)] == ["d"]
        assert await store.delete(["c"]) == 1
        with pytest.raises(StoreUnavailableError, match=r"must be owner.*role that owns the tables"):
            await store.secure(name, ["n"])
    # What lets a role in must not let it choose its namespaces.
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql(url, f"INSERT INTO vectorstores.scopes VALUES ('{name}', 'n')")


async def test_a_schema_that_pgvector_is_not_to_be_had_from_names_the_statement(postgres_database, role):
    name, url = role
    run_sql(postgres_database, "DROP SCHEMA public CASCADE")
    with pytest.raises(StoreUnavailableError, match=r"public.*an administrator runs") as caught:
        await store_at(postgres_database).count()
    run_sql(postgres_database, "CREATE SCHEMA tools; CREATE EXTENSION vector SCHEMA tools")
    async with store_at(postgres_database) as owner:
        await owner.add([Chunk("there already")])
        await owner.secure(name, ["test"])
    with pytest.raises(StoreUnavailableError, match="'tools', which pgvector is in") as caught:
        await store_at(url).count()
    run_sql(postgres_database, str(caught.value).partition("runs in database ")[2].partition(": ")[2])
    async with store_at(url) as store:
        assert await store.count() == 1


async def test_a_role_that_may_not_connect_is_told_the_statement_at_once(postgres_database, role):
    name, url = role
    database = psycopg.conninfo.conninfo_to_dict(postgres_database)["dbname"]
    for taken in (f'REVOKE CONNECT ON DATABASE "{database}" FROM PUBLIC', f"ALTER ROLE {name} NOLOGIN"):
        run_sql(postgres_database, taken)
        with (
            anyio.fail_after(60),
            pytest.raises(StoreUnavailableError, match="an administrator runs: ") as caught,
        ):
            await store_at(url).count()
        assert "sesame" not in str(caught.value)
        run_sql(
            postgres_database, str(caught.value).partition("an administrator runs: ")[2].partition(";")[0]
        )
    # In: what is missing now is a right of another kind.
    with pytest.raises(StoreUnavailableError, match="may not install pgvector"):
        await store_at(url).count()


async def test_a_server_that_takes_no_writes_answers_a_new_question_at_once(postgres_database):
    async with store_at(postgres_database) as store:
        await store.add([Chunk("there already", id="c")])
    read_only = psycopg.conninfo.make_conninfo(
        postgres_database, options="-c default_transaction_read_only=on"
    )
    async with store_at(read_only, options=PostgresOptions(retry_for=600)) as reader:
        with anyio.fail_after(60):
            assert [hit.chunk.id for hit in await reader.search("never asked before")] == ["c"]
    async with store_at(read_only, options=PostgresOptions(retry_for=0)) as reader:
        with pytest.raises(StoreUnavailableError, match=r"takes no writes.*the primary"):
            await reader.add([Chunk("x")])


async def test_a_missing_or_old_pgvector_names_the_statement_for_an_administrator(
    postgres_database, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "OLDEST_VECTOR", (99, 1))
        with pytest.raises(
            StoreUnavailableError, match=r"too old; install version 99\.1 .*: ALTER EXTENSION vector UPDATE;"
        ):
            await store_at(postgres_database).count()
    assert run_sql(postgres_database, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == [(0,)]
    async with store_at(postgres_database) as store:
        await store.add([Chunk("kept")])
    try:
        run_sql(postgres_database, "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("only a superuser of the server can pretend that an older pgvector was installed")
    with pytest.raises(StoreUnavailableError, match=r"0\.7\.4 is too old; install version 0\.8 or newer"):
        await store_at(postgres_database).count()


async def test_writes_find_their_rows_by_id_on_every_version(postgres_database):
    async with store_at(postgres_database) as store:
        await store.add([Chunk("x", id=f"c{n}") for n in range(100)])

        async def plan(connection) -> str:
            cursor = await connection.execute(b"EXPLAIN " + chunks.DELETE, (["c1", "c2"], "test", "test"))
            return "\n".join(line for (line,) in await cursor.fetchall())

        said = await store._postgres.pool.read(plan)
        # Given as an array to compare with, versions before 17 read all there is, in its order.
        assert re.search(r"Index Cond: .*namespace = .* AND \(id = wanted.id", said), said


async def test_no_password_is_shown(monkeypatch):
    monkeypatch.setattr(reaching, "_COLD", 0.2)
    secret = "hunter22"
    for url in (
        f"postgresql://me:{secret}@127.0.0.1:1/db?connect_timeout=1",
        f"host=127.0.0.1 port=1 password={secret}",
        f"postgresql://me:{secret}@host:port/db",
        f"password={secret} nonsense",
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            await store_at(url, options=PostgresOptions(connect_timeout=1, retry_for=0)).count()
        assert secret not in f"{caught.value!r} {store_at(url)!r}"
        if url.startswith("postgresql"):
            with pytest.raises(StoreUnavailableError) as caught:
                origin_of(url)
            assert secret not in repr(caught.value)


async def test_stores_of_several_schemas_are_made_at_once_in_a_new_database(postgres_database):
    made: list[str] = []

    async def make(schema: str) -> None:
        async with store_at(postgres_database, schema=schema) as store:
            made.extend(await store.add([Chunk("x", id=schema)]))

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(make, f"s{number}")
    assert sorted(made) == [f"s{number}" for number in range(6)]


async def test_a_schema_of_other_tables_is_left_alone(postgres_database):
    run_sql(postgres_database, "CREATE SCHEMA vectorstores; CREATE TABLE vectorstores.chunks (a int)")
    with pytest.raises(StoreUnavailableError, match="schema="):
        await store_at(postgres_database).count()
    assert run_sql(postgres_database, "SELECT to_regclass('vectorstores.records')") == [(None,)]


async def test_a_reembedded_store_has_to_be_opened_again(postgres_database):
    async with store_at(postgres_database) as store:
        await store.add([Chunk("one", id="c", vector=np.ones(DIM))])
        run_sql(postgres_database, "ALTER TABLE vectorstores.chunks RENAME COLUMN vector_1 TO vector_2")
        for call in (store.search("one"), store.add([Chunk("two")])):
            with pytest.raises(EmbedderMismatchError, match="open it again"):
                await call
        assert await store.count() == 1


async def test_a_cancelled_call_leaves_nothing_and_no_broken_connection(postgres_database):
    async with store_at(postgres_database, options=PostgresOptions(pool_size=2)) as store:
        await store.add([Chunk("before", id="before")])
        async with await psycopg.AsyncConnection.connect(postgres_database) as holder:
            await holder.execute("LOCK TABLE vectorstores.chunks IN ACCESS EXCLUSIVE MODE")
            for _ in range(4):
                with anyio.move_on_after(0.1) as scope:
                    await store.add([Chunk(f"n{n}") for n in range(40)])
                assert scope.cancelled_caught
                with anyio.move_on_after(0.05):
                    await store.count()
            await holder.rollback()
        assert await store.count() == 1
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(store.add, [Chunk(f"after {n}")])
        assert await store.count() == 21
    left = run_sql(
        postgres_database,
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'vectorstores' AND state <> 'idle'"
        " AND datname = current_database()",
    )
    assert left == [(0,)]


def test_each_event_loop_has_connections_of_its_own(postgres_database):
    store = store_at(postgres_database)
    failed: list[BaseException] = []

    def work(name: str) -> None:
        async def add() -> None:
            for n in range(5):
                await store.add([Chunk(f"{name} {n}")])

        try:
            anyio.run(add)
        except BaseException as error:  # noqa: BLE001 - reported below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert anyio.run(store.count) == 15
    anyio.run(store.close)


FORGETFUL = """
import anyio, sys
from vectorstores import Chunk, HashingEmbedder, PostgresVectorStore

async def main():
    store = PostgresVectorStore(sys.argv[1], embedder=HashingEmbedder(16), namespace="n")
    await store.add([Chunk("one")])
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(store.count)
        await anyio.sleep(0.002)
        tasks.cancel_scope.cancel()
    print("end")

anyio.run(main)
"""


def test_a_program_that_does_not_close_its_store_ends(postgres_database):
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, postgres_database],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "end\n"
    assert "Traceback" not in done.stderr


async def test_a_damaged_record_is_reported_and_not_overwritten(postgres_database):
    async with store_at(postgres_database) as store:
        await store.append_once("notes", "1", "text")
        run_sql(postgres_database, "UPDATE vectorstores.records SET value = repeat('9', 5000)::json")
        for version in (None, 1):
            with pytest.raises(StoreCorruptError, match="the record notes/1 is damaged"):
                await store.compare_and_swap("notes", "1", "new", version=version)
        assert not await store.append_once("notes", "1", "new")


async def test_what_an_index_cannot_hold_is_refused_by_name(postgres_database):
    async with store_at(postgres_database) as store:
        with pytest.raises(InvalidChunkError, match=r"chunks\[1\].*id: 2000 bytes"):
            await store.add([Chunk("fine"), Chunk("x", id="i" * 2000)])
        with pytest.raises(InvalidChunkError, match="key: 1501 bytes"):
            await store.append_once("c", "k" * 1501, 1)
        with pytest.raises(ValueError, match="500 bytes"):
            store.scoped("n" * 501)
        await store.add([Chunk("x", id="i" * 1500, metadata={"kind": "k" * 100_000})])
        assert await store.count(filter={"kind": "k" * 100_000}) == 1
        assert await store.count() == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"pool_size": 0}, ValueError),
        ({"pool_size": 2.5}, TypeError),
        ({"pool_size": True}, TypeError),
        ({"connect_timeout": math.nan}, ValueError),
        ({"statement_timeout": math.inf}, ValueError),
        ({"retry_for": -1}, ValueError),
        ({"retry_for": math.nan}, ValueError),
    ],
)
def test_options_out_of_range_are_named(wrong, said):
    with pytest.raises(said, match=next(iter(wrong))):
        PostgresOptions(**wrong)


async def test_keys_and_namespaces_that_are_none_are_refused(postgres_database):
    for indexed in ("kind", ["kind", 5], [None]):
        with pytest.raises(TypeError, match="indexed"):
            store_at(postgres_database, indexed=indexed)
    async with store_at(postgres_database) as store:
        for namespaces, said in (
            ("abc", TypeError),
            ([5], TypeError),
            ([""], ValueError),
            (["a\0"], ValueError),
        ):
            with pytest.raises(said, match="namespace"):
                await store.secure("somebody", namespaces)
