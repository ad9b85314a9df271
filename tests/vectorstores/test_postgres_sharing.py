"""Changes that others follow, and roles that see their own alone."""

import uuid
from contextlib import aclosing

import anyio
import numpy as np
import pytest

from vectorstores import Chunk, HashingEmbedder, PostgresVectorStore, RecordWrite, StoreUnavailableError

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.anyio
DIM = 16


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def store_at(url: str, namespace: str = "own") -> PostgresVectorStore:
    return PostgresVectorStore(url, embedder=HashingEmbedder(DIM), namespace=namespace)


@pytest.fixture
def role(postgres_database):
    name = f"role_{uuid.uuid4().hex[:12]}"
    parts = psycopg.conninfo.conninfo_to_dict(postgres_database)
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        # PostgreSQL 14 lets everybody make things there, and a role that may is refused.
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'sesame'")
        yield name, psycopg.conninfo.make_conninfo(**parts | {"user": name, "password": "sesame"})
        connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_a_role_sees_and_writes_its_own_namespaces_alone(postgres_database, role):
    name, url = role
    async with store_at(postgres_database) as owner, store_at(postgres_database, "secret") as secret:
        await owner.add([Chunk("mine", id="c")])
        await secret.add([Chunk("theirs", id="c")])
        await secret.append_once("r", "k", 1)
        await owner.secure(name, ["own"])
        async with store_at(url) as store:
            stolen = store.scoped("secret")
            await store.add([Chunk(f"new {n}", id=f"n{n}") for n in range(40)])
            await store.append_once("r", "k", 2)
            assert await store.count() == 41
            assert len(await store.search("new 3", k=50)) == 41
            assert await store.delete(["n1"]) == 1
            assert await stolen.count() == 0
            assert await stolen.search(np.ones(DIM)) == []
            assert await stolen.get("r", "k") is None
            assert await stolen.delete(["c"]) == 0
            for call in (stolen.add([Chunk("x", id="x")]), stolen.append_once("r", "new", 1)):
                with pytest.raises(StoreUnavailableError, match="row-level security"):
                    await call
        with psycopg.connect(url, autocommit=True) as thief:
            thief.execute("SET search_path = vectorstores")
            assert thief.execute("SELECT DISTINCT namespace FROM chunks").fetchall() == [("own",)]
            assert thief.execute("SELECT DISTINCT namespace FROM records").fetchall() == [("own",)]
            assert thief.execute("UPDATE chunks SET content = 'x' WHERE namespace = 'secret'").rowcount == 0
            for statement in (
                "UPDATE chunks SET namespace = 'secret'",
                f"INSERT INTO scopes VALUES ('{name}', 'secret')",
                "UPDATE meta SET value = 'x'",
                "ALTER TABLE chunks DISABLE ROW LEVEL SECURITY",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    thief.execute(statement)
        assert [chunk.content for chunk in (await secret.scan()).chunks] == ["theirs"]
        await owner.secure(name, [])
        with pytest.raises(
            StoreUnavailableError, match=r"permission denied.*lets a role into a namespace by"
        ):
            await store_at(url).count()


async def test_a_role_that_row_level_security_does_not_hold_is_refused(postgres_database, role):
    name, url = role
    owner_of_tables = f"owner_{name}"
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        try:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(f"CREATE ROLE {owner_of_tables} LOGIN PASSWORD 'sesame'")
            connection.execute(f"CREATE SCHEMA vectorstores AUTHORIZATION {owner_of_tables}")
            parts = psycopg.conninfo.conninfo_to_dict(url) | {"user": owner_of_tables}
            async with store_at(psycopg.conninfo.make_conninfo(**parts)) as owner:
                await owner.add([Chunk("mine")])
                with pytest.raises(StoreUnavailableError, match=r"owns the tables.*does not hold it"):
                    await owner.secure(owner_of_tables, ["own"])
                with pytest.raises(StoreUnavailableError, match=r"no role 'nobody\"there'.*CREATE ROLE"):
                    await owner.secure('nobody"there', ["own"])
                for grant, taken, said in (
                    (
                        f"GRANT {owner_of_tables} TO {name}",
                        f"REVOKE {owner_of_tables} FROM {name}",
                        "is a member of",
                    ),
                    (f"ALTER ROLE {name} BYPASSRLS", f"ALTER ROLE {name} NOBYPASSRLS", "has BYPASSRLS"),
                    (f"ALTER ROLE {name} SUPERUSER", f"ALTER ROLE {name} NOSUPERUSER", "is a superuser"),
                ):
                    connection.execute(grant)
                    with pytest.raises(StoreUnavailableError, match=said):
                        await owner.secure(name, ["own"])
                    connection.execute(taken)
                assert connection.execute("SELECT count(*) FROM vectorstores.scopes").fetchone() == (0,)
                await owner.secure(name, ["own"])
            async with store_at(url) as store:
                assert await store.count() == 1
        finally:
            connection.execute(f"DROP OWNED BY {owner_of_tables} CASCADE; DROP ROLE {owner_of_tables}")


async def test_rights_that_a_role_is_given_besides_open_no_other_namespace(postgres_database, role):
    name, url = role
    give = f"GRANT ALL ON ALL TABLES IN SCHEMA vectorstores TO {name}"
    enter = f"INSERT INTO vectorstores.scopes VALUES ('{name}', 'secret')"
    async with store_at(postgres_database) as owner, store_at(postgres_database, "secret") as secret:
        await owner.add([Chunk("mine")])
        await secret.add([Chunk("theirs")])
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(give)
            await owner.secure(name, ["own"])
            with psycopg.connect(url, autocommit=True) as thief:
                for table in ("chunks", "records", "scopes", "meta"):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        thief.execute(f"TRUNCATE vectorstores.{table}")
                connection.execute(give)
                for statement in (enter, f"{enter} ON CONFLICT DO NOTHING"):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        thief.execute(statement)
                for statement in (
                    "UPDATE vectorstores.scopes SET namespace = 'secret'",
                    "DELETE FROM vectorstores.scopes",
                ):
                    assert thief.execute(statement).rowcount == 0
                assert thief.execute("SELECT content FROM vectorstores.chunks").fetchall() == [("mine",)]


async def test_a_schema_of_any_name_is_secured(postgres_database, role):
    name, url = role
    for schema in ('we%ird "one"', "a%sb"):
        store = PostgresVectorStore(
            postgres_database, embedder=HashingEmbedder(DIM), namespace="own", schema=schema
        )
        async with store:
            await store.add([Chunk("x")])
            await store.secure(name, ["own"])
        async with PostgresVectorStore(
            url, embedder=HashingEmbedder(DIM), namespace="own", schema=schema
        ) as own:
            assert await own.count() == 1
            assert await own.scoped("other").count() == 0
            await own.add([], records=[RecordWrite("r", key, 1) for key in "ba"])
            assert [record.key for record in (await own.scan_records("r")).records] == ["b", "a"]


async def test_securing_waits_for_those_at_work_and_holds_nobody_up(postgres_database, role):
    name, _ = role
    async with store_at(postgres_database) as owner:
        await owner.add([Chunk("x")])
        secured = anyio.Event()

        async def secure() -> None:
            await owner.secure(name, ["own"])
            secured.set()

        async with anyio.create_task_group() as tasks:
            async with await psycopg.AsyncConnection.connect(postgres_database) as reader:
                await reader.execute("SELECT count(*) FROM vectorstores.chunks")
                tasks.start_soon(secure)
                await anyio.sleep(0.3)
                with anyio.fail_after(60):
                    assert await owner.count() == 1
                assert not secured.is_set()
                await reader.rollback()
            with anyio.fail_after(60):
                await secured.wait()


async def test_a_listener_whose_connection_is_lost_looks_again_and_listens_on(postgres_database):
    async with store_at(postgres_database) as store, aclosing(store.changes()) as changes:
        with anyio.fail_after(60):
            await anext(changes)
            with psycopg.connect(postgres_database, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE application_name = 'vectorstores'"
                )
            await anext(changes)  # something may have been written meanwhile
            await store.append_once("c", "k", 1)
            await anext(changes)
