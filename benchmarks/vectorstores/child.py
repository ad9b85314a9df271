"""Measures a fresh process: the time to open a store and answer a first search, and the memory that this takes.

``python -m benchmarks.vectorstores.child open|memory FOLDER QUERIES.npy`` prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import numpy as np

from benchmarks.timing import resident_memory
from benchmarks.vectorstores.vectors import open_at
from vectorstores import Chunk

if TYPE_CHECKING:
    from vectorstores.base import FloatArray

_WARM_SEARCHES: Final = 200


async def first_search(folder: str, query: FloatArray) -> float:
    """Return the seconds from opening a store to the answer of its first search."""
    started = time.perf_counter()
    async with open_at(folder, len(query)) as store:
        await store.search(query, k=5)
        return time.perf_counter() - started


async def memory(folder: str, queries: FloatArray) -> dict[str, int]:
    """Return by how many bytes this process grows, by kind of page, when a store is opened and searched many times."""
    dim = queries.shape[1]
    with tempfile.TemporaryDirectory() as empty:
        # Load everything that is loaded once per process.
        async with open_at(f"{empty}/store", dim) as store:
            await store.add([Chunk("a row", vector=queries[0])])
            await store.search(queries[0], k=5)
    gc.collect()
    before = resident_memory()
    async with open_at(folder, dim) as store:
        for number in range(_WARM_SEARCHES):
            await store.search(queries[number % len(queries)], k=5)
        gc.collect()
        after = resident_memory()
    return {kind: after[kind] - before[kind] for kind in after}


async def _main(what: str, folder: str, queries: str) -> None:
    asked = np.load(queries)
    if what == "memory":
        print(json.dumps(await memory(folder, asked)))
    else:
        print(json.dumps({"seconds": await first_search(folder, asked[0])}))


if __name__ == "__main__":
    anyio.run(partial(_main, *sys.argv[1:]))
