"""What a fresh process sees: the time to open a store and to answer a first search, and the memory that it takes.

``python -m benchmarks.vectorstores.child open|memory FOLDER QUERIES.npy`` prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import numpy as np

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
    """Return by how much this process grew, in bytes, by kind of page, once a store is open and was searched well."""
    dim = queries.shape[1]
    with tempfile.TemporaryDirectory() as empty:
        # So that all that is loaded once is loaded.
        async with open_at(f"{empty}/store", dim) as store:
            await store.add([Chunk("a row", vector=queries[0])])
            await store.search(queries[0], k=5)
    gc.collect()
    before = pages()
    async with open_at(folder, dim) as store:
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


async def _main(what: str, folder: str, queries: str) -> None:
    asked = np.load(queries)
    if what == "memory":
        print(json.dumps(await memory(folder, asked)))
    else:
        print(json.dumps({"seconds": await first_search(folder, asked[0])}))


if __name__ == "__main__":
    anyio.run(partial(_main, *sys.argv[1:]))
