"""What a fresh process sees: the time to open a store and to answer a first search, and the memory that it takes.

``python -m benchmarks.vectorstores.child open|memory FOLDER QUERIES.npy DIM`` prints one JSON object.
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


def _open(folder: Path, dim: int) -> vectorstores.Store:
    origin = vectorstores.Origin("benchmark-vectors", "the vectors of the benchmark", dim)
    return vectorstores.open_store(
        folder, embedder=vectorstores.AbsentEmbedder(origin), namespace="benchmark"
    )


async def first_search(folder: Path, query: FloatArray, dim: int) -> dict[str, float]:
    """Return the seconds from opening a store to the answer of its first search."""
    started = time.perf_counter()
    async with _open(folder, dim) as store:
        await store.search(query, k=5)
        return {"seconds": time.perf_counter() - started}


async def memory(folder: Path, queries: FloatArray, dim: int) -> dict[str, int]:
    """Return by how much this process grew, in bytes, by kind of page, once a store is open and was searched well."""
    with tempfile.TemporaryDirectory() as empty:
        # So that all that is loaded once is loaded.
        async with _open(Path(empty) / "store", dim) as store:
            await store.add([vectorstores.Chunk("a row", vector=queries[0])])
            await store.search(queries[0], k=5)
    gc.collect()
    before = pages()
    async with _open(folder, dim) as store:
        for number in range(_WARM_SEARCHES):
            await store.search(queries[number % len(queries)], k=5)
        gc.collect()
        after = pages()
    return {kind: after[kind] - before[kind] for kind in after}


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
    else:
        print(json.dumps(await first_search(Path(folder), asked[0], int(dim))))


if __name__ == "__main__":
    anyio.run(partial(_main, *sys.argv[1:]))
