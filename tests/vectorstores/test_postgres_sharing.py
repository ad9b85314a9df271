"""Changes that others follow, and roles that see their own alone."""

import uuid

import anyio
import numpy as np
import pytest

from vectorstores import Chunk, HashingEmbedder, PostgresVectorStore, StoreUnavailableError

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
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'sesame'")
        yield name, psycopg.conninfo.make_conninfo(**parts | {"user": name, "password": "sesame"})
        connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_changes_are_told_when_they_are_committed(postgres_database):
    seen: list[tuple[str, str | None]] = []
    async with store_at(postgres_database) as store, store_at(postgres_database) as listener:
        await store.count()
        ended = anyio.Event()

        async def follow() -> None:
            async for change in listener.changes():
                seen.append((change.kind, change.namespace))  # noqa: PERF401 - seen while it grows
            ended.set()

        async def until(expected: tuple[str, str | None]) -> None:
            with anyio.fail_after(20):
                while expected not in seen:  # noqa: ASYNC110 - another task's list
                    await anyio.sleep(0.01)
            seen.clear()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            with anyio.fail_after(20):
                while not seen:
                    await store.update((await store.add([Chunk("x")]))[0], {"a": 1})
            await anyio.sleep(0.3)
            seen.clear()
            assert not await store.update("nobody", {})
            await store.append_once("r", "k", 1)
            await until(("records", "own"))
            assert not await store.append_once("r", "k", 1)
            await store.delete(["nobody"])
            await store.scoped("other").add([Chunk("y", id="y")])
            await until(("chunks", None))
            await store.delete([chunk.id for chunk in (await store.scan()).chunks])
            await until(("chunks", "own"))
            async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as other:
                await other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                    " AND datname = current_database()"
                )
            await until(("missed", None))
            await listener.close()
            with anyio.fail_after(5):
                await ended.wait()


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
            assert await stolen.search_by_vector(np.ones(DIM)) == []
            assert await stolen.get("r", "k") is None
            assert await stolen.delete(["c"]) == 0
            assert not await stolen.update("c", {"a": 1})
            for call in (stolen.add([Chunk("x", id="x")]), stolen.append_once("r", "new", 1)):
                with pytest.raises(StoreUnavailableError, match="row-level security"):
                    await call
        with psycopg.connect(url, autocommit=True) as thief:
            thief.execute("SET search_path = vectorstores")
            assert thief.execute("SELECT DISTINCT namespace FROM chunks").fetchall() == [("own",)]
            assert thief.execute("SELECT DISTINCT namespace FROM records").fetchall() == [("own",)]
            for table in ("embeddings", "commits"):
                assert thief.execute(f"SELECT DISTINCT owner FROM {table}").fetchall() == [(name,)]
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
        async with store_at(url) as store:
            assert await store.count() == 0
