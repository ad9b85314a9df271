"""The stores that the contract is held against, and what they are fed with."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from vectorstores import FaissVectorStore, HashingEmbedder, InMemoryVectorStore, Store, _index

MakeStore = Callable[..., Store]
DIM = 64


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: the contract is about results; durability has tests of its own."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(params=["memory", "disk", "disk-faiss"])
def make_store(
    request: pytest.FixtureRequest, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeStore]:
    """Make a store of each kind; ``disk-faiss`` takes FAISS for any size, where ``disk`` takes numpy for a few."""
    if request.param == "disk-faiss":
        monkeypatch.setattr(_index, "FAISS_FROM", 1)
        monkeypatch.setattr(_index, "_STALE_ROWS", 1)
    opened: list[Store] = []

    def make(namespace: str = "test", embedder: object = None) -> Store:
        embedder = embedder or HashingEmbedder(dim=DIM)
        store: Store
        if request.param == "memory":
            store = InMemoryVectorStore(embedder, namespace=namespace)
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
def store(make_store: MakeStore) -> Store:
    return make_store()
