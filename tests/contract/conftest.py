"""The stores that the contract is held against, and what they are fed with."""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from vectorstores import (
    FaissVectorStore,
    HashingEmbedder,
    InMemoryVectorStore,
    PostgresVectorStore,
    Store,
)
from vectorstores.sqlite_faiss import index, upkeep

MakeStore = Callable[..., Store]
DIM = 64


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two stores on trio out: psycopg runs on asyncio only (test_postgres_store.py has the error for it),
    and FAISS runs in the threads of ``disk``, where no event loop is."""
    items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("anyio_backend") == "trio" and params.get("make_store") in ("postgres", "disk-faiss")


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: the contract is about results; durability has tests of its own."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def contract_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """One database for all stores of the contract; each has a schema of its own."""
    import psycopg
    from psycopg import conninfo, sql

    dsn = request.getfixturevalue("postgres_dsn")
    name = f"contract_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        yield conninfo.make_conninfo(dsn, dbname=name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(params=["memory", "disk", "disk-faiss", "postgres"])
def make_store(
    request: pytest.FixtureRequest, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeStore]:
    """Make a store of each kind; ``disk-faiss`` takes FAISS for any size, where ``disk`` takes numpy for a few."""
    if request.param == "disk-faiss":
        monkeypatch.setattr(index, "INDEX_FROM", 1)
        monkeypatch.setattr(upkeep, "_NEW_ROWS", 1)
    if request.param == "postgres":
        database = request.getfixturevalue("contract_database")
    opened: list[Store] = []

    def make(namespace: str = "test", embedder: object = None) -> Store:
        embedder = embedder or HashingEmbedder(dim=DIM)
        store: Store
        if request.param == "memory":
            store = InMemoryVectorStore(embedder, namespace=namespace)
        elif request.param == "postgres":
            schema = f"s{uuid.uuid4().hex}"
            store = PostgresVectorStore(database, embedder=embedder, namespace=namespace, schema=schema)
        else:
            store = FaissVectorStore(
                quick_folder / f"store{len(opened)}", embedder=embedder, namespace=namespace
            )
        opened.append(store)
        return store

    yield make
    for store in opened:
        anyio.run(store.close)


@pytest.fixture
def holds_nul(make_store: MakeStore, request: pytest.FixtureRequest) -> bool:
    """Whether the store can hold the character NUL; one that can't refuses it."""
    return request.node.callspec.params["make_store"] != "postgres"


@pytest.fixture
def exact_scores(make_store: MakeStore, request: pytest.FixtureRequest) -> bool:
    """Whether scores equal the reference's to the last digit; pgvector computes in single precision."""
    return request.node.callspec.params["make_store"] != "postgres"


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()
