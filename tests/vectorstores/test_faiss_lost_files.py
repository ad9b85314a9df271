"""A store whose files are deleted, moved, replaced or damaged: nothing is acknowledged into nowhere, and it is said."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest

from vectorstores import (
    Chunk,
    FaissVectorStore,
    HashingEmbedder,
    StoreCorruptError,
    StoreUnavailableError,
    VectorStoreError,
)

ROOT = Path(__file__).parents[2]


def open_at(path: Path, **options) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=16), namespace="test", **options)


def replaced(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    shutil.rmtree(path)
    copy.rename(path)


def database_replaced(path: Path) -> None:
    shutil.copy(path / "store.sqlite3", path / "other")
    (path / "other").replace(path / "store.sqlite3")


LOSSES = {
    "deleted": shutil.rmtree,
    "moved": lambda path: path.rename(path.with_name("elsewhere")),
    "replaced": replaced,
    "database deleted": lambda path: (path / "store.sqlite3").unlink(),
    "database replaced": database_replaced,
    "log deleted": lambda path: (path / "store.sqlite3-wal").unlink(),
    "shared memory deleted": lambda path: (path / "store.sqlite3-shm").unlink(),
}


@pytest.mark.anyio
@pytest.mark.parametrize("loss", LOSSES)
async def test_nothing_is_acknowledged_into_files_that_are_gone(tmp_path, loss):
    store = open_at(tmp_path / "store")
    await store.add([Chunk("before", id="before")])
    await store.append_once("notes", "before", 1)
    LOSSES[loss](tmp_path / "store")
    calls = {
        "add": lambda: store.add([Chunk("after", id="after")]),
        "add many": lambda: store.add([Chunk(f"after {n}") for n in range(100)]),
        "delete": lambda: store.delete(["before"]),
        "append_once": lambda: store.append_once("notes", "after", 1),
        "compare_and_swap": lambda: store.compare_and_swap("notes", "before", 2, version=1),
        "get_by_ids": lambda: store.get_by_ids(["before"]),
        "search": lambda: store.search("before"),
        "count": store.count,
    }
    for name, call in calls.items():
        with pytest.raises(StoreUnavailableError, match="deleted, moved or replaced"):
            print(name, await call())
    await store.close()


@pytest.mark.anyio
async def test_what_is_put_back_goes_on(tmp_path):
    async with open_at(tmp_path / "store") as store:
        await store.add([Chunk("before", id="before")])
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        with pytest.raises(StoreUnavailableError):
            await store.add([Chunk("lost")])
        (tmp_path / "elsewhere").rename(tmp_path / "store")
        await store.add([Chunk("after", id="after")])
    async with open_at(tmp_path / "store") as store:
        assert [chunk.id for chunk in (await store.scan()).chunks] == ["before", "after"]


@pytest.mark.parametrize(
    "left", ["index", "store.sqlite3-wal", "store.sqlite3-shm", "store.sqlite3.index.lock"]
)
def test_a_missing_database_beside_other_files_of_the_store_is_damage(tmp_path, left):
    if left == "index":
        (tmp_path / left).mkdir()
    else:
        (tmp_path / left).write_bytes(b"")
    with pytest.raises(StoreCorruptError, match=r"store.sqlite3 is missing, beside .*restore"):
        anyio.run(open_at(tmp_path).count)
    assert [file.name for file in tmp_path.iterdir()] == [left]


WRITER = """
    import sys, anyio
    from pathlib import Path
    from vectorstores import Chunk, FaissVectorStore, HashingEmbedder

    async def main(path):
        store = FaissVectorStore(Path(path), embedder=HashingEmbedder(dim=16), namespace="test")
        for n in range(20):
            await store.add([Chunk(f"text {n}", id=f"c{n}")])
        print("written", flush=True)
        await anyio.sleep(600)

    anyio.run(main, sys.argv[1])
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Path:
    """A store whose writer was killed: its log alone holds what was written."""
    path = tmp_path_factory.mktemp("killed") / "store"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "written\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    return path


async def held(path: Path) -> int:
    async with open_at(path) as store:
        return await store.count()


def test_a_whole_log_is_taken(killed, tmp_path):
    shutil.copytree(killed, tmp_path / "store")
    assert anyio.run(held, tmp_path / "store") == 20


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.2, 0.35, 0.5])
@pytest.mark.parametrize("size", [1, 4096])
def test_a_log_that_is_damaged_before_its_end_is_told_and_left_as_it_is(killed, tmp_path, share, size):
    path = tmp_path / "store"
    shutil.copytree(killed, path)
    log = path / "store.sqlite3-wal"
    whole = log.read_bytes()
    at = int(len(whole) * share)
    damaged = whole[:at] + bytes(each ^ 0x55 for each in whole[at : at + size]) + whole[at + size :]
    log.write_bytes(damaged)
    with pytest.raises(StoreCorruptError, match=r"store\.sqlite3-wal is damaged"):
        anyio.run(held, path)
    assert log.read_bytes() == damaged
    log.write_bytes(whole)
    assert anyio.run(held, path) == 20


def test_a_log_that_was_cut_off_is_taken_as_far_as_it_goes(killed, tmp_path):
    whole = (killed / "store.sqlite3-wal").read_bytes()
    counts = []
    for number, length in enumerate(range(0, len(whole), len(whole) // 8)):
        path = tmp_path / str(number)
        shutil.copytree(killed, path)
        (path / "store.sqlite3-wal").write_bytes(whole[:length])
        try:
            counts.append(anyio.run(held, path))
        except VectorStoreError as error:
            assert str(path) in str(error)  # noqa: PT017 - the store had not come to be yet
    assert counts == sorted(counts)


@pytest.mark.anyio
async def test_a_log_that_is_written_over_again_is_no_damage(tmp_path):
    """SQLite begins its log anew without cutting it: what lies behind is of an earlier round."""
    path = tmp_path / "store"
    async with open_at(path) as store:
        for n in range(300):
            await store.add([Chunk(f"text {n} " + "x" * 20_000, id=f"c{n}", vector=[1.0] * 16)])
            if n % 50 == 0:
                async with open_at(path) as other:
                    assert await other.count() == n + 1
