"""Searches are waited for until they are quick, and held against what they should be."""

import time

import anyio
import pytest

from benchmarks.timing import Here
from benchmarks.vectorstores.search import bare_product, exact_search, searching, settle
from benchmarks.vectorstores.vectors import clustered, open_at
from vectorstores import SearchHit

pytestmark = pytest.mark.anyio


class _Building:
    """Slow for so many searches."""

    def __init__(self, slow: int) -> None:
        self.left = slow

    async def search(self, vector: object, *, k: int) -> list[SearchHit]:
        self.left -= 1
        await anyio.sleep(0.05 if self.left >= 0 else 0.001)
        return []


async def test_searches_go_on_until_they_were_quick_for_a_while(anyio_backend: str) -> None:
    store = _Building(3)  # far sooner over than the while, on a busy machine too
    await settle(store, clustered(50, 3, dim=4), quiet=0.6)
    assert store.left < 0


async def test_patience_ends(anyio_backend: str) -> None:
    started = time.perf_counter()
    await settle(_Building(0), clustered(50, 3, dim=4), quiet=60.0, patience=0.2)
    assert time.perf_counter() - started < 60


async def test_what_was_found_is_kept_by_query(anyio_backend: str) -> None:
    corpus = clustered(40, 3, dim=8)
    async with open_at("memory://", 8) as store:
        await store.add([corpus.chunk(place) for place in range(40)])
        call, found = searching(store, corpus)
        for number in (0, 1, 2, 4):
            await call(number)
    assert sorted(found) == [0, 1, 2]
    assert all(len(ids) == 5 for ids in found.values())


async def test_bare_searches_can_be_timed(anyio_backend: str) -> None:
    pytest.importorskip("faiss")
    for bare in (bare_product, exact_search):
        assert all(taken > 0 for taken in await Here(bare(clustered(1_500, 3, dim=8))).burst([0, 5]))
