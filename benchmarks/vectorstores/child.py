"""What a fresh process sees: the time to open a store and to answer a first search, and the memory that it takes.

``python -m benchmarks.vectorstores.child open|warm|memory FOLDER QUERIES.npy DIM`` prints one JSON object. ``warm`` has
loaded the libraries before its clock starts; ``open`` has not.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

import vectorstores

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

_WARM_SEARCHES = 200


async def first_search(folder: Path, query: FloatArray, dim: int) -> float:
    """Return the seconds from opening a store to the answer of its first search."""
    started = time.perf_counter()
    async with vectorstores.open_store(
        folder, embedder=_no_embedder(dim), namespace="benchmark", create=False
    ) as store:
        await store.search(query, k=5)
        return time.perf_counter() - started


async def memory(folder: Path, queries: FloatArray, dim: int) -> dict[str, int]:
    """Return by how much this process grew, in bytes, by kind of page, once a store is open and was searched well."""
    with tempfile.TemporaryDirectory() as empty:
        await _load_libraries(Path(empty) / "store", queries[0], dim)
    gc.collect()
    before = pages()
    async with vectorstores.open_store(
        folder, embedder=_no_embedder(dim), namespace="benchmark", create=False
    ) as store:
        for number in range(_WARM_SEARCHES):
            await store.search(queries[number % len(queries)], k=5)
        gc.collect()
        after = pages()
    return {kind: after[kind] - before[kind] for kind in after}


async def _load_libraries(folder: Path, query: FloatArray, dim: int) -> None:
    """Open an empty store and search it, so that all that is loaded once is loaded."""
    async with vectorstores.open_store(folder, embedder=_no_embedder(dim), namespace="benchmark") as store:
        await store.add([vectorstores.Chunk("a row", vector=query)])
        await store.search(query, k=5)


def _no_embedder(dim: int) -> vectorstores.AbsentEmbedder:
    return vectorstores.AbsentEmbedder(
        vectorstores.Origin("benchmark-vectors", "the vectors of the benchmark", dim)
    )


def pages() -> dict[str, int]:
    """Return this process's resident memory in bytes: ``private`` to it, and ``file``, which the kernel shares and
    takes back as it likes.
    """
    counted = {"RssAnon": "private", "RssFile": "file", "RssShmem": "file"}
    found = dict.fromkeys(counted.values(), 0)
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in counted:
            found[counted[name]] += int(rest.split()[0]) * 1024
    return found


async def _main(what: str, folder: str, queries: str, dim: str) -> None:
    import numpy as np  # noqa: PLC0415 - what it takes to load is not hidden from the clock of "open" by more than this

    asked = np.load(queries)
    if what == "memory":
        print(json.dumps(await memory(Path(folder), asked, int(dim))))
        return
    if what == "warm":
        with tempfile.TemporaryDirectory() as empty:
            await _load_libraries(Path(empty) / "store", asked[0], int(dim))
    print(json.dumps({"seconds": await first_search(Path(folder), asked[0], int(dim))}))


if __name__ == "__main__":
    anyio.run(partial(_main, *sys.argv[1:]))
