"""The store on disk when processes die, disks are full, files are damaged: nothing acknowledged is lost."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import anyio
import numpy as np
import pytest

from vectorstores import (
    Chunk,
    EmbedderMismatchError,
    FaissVectorStore,
    FormatVersionError,
    HashingEmbedder,
    RecordWrite,
    StoreCorruptError,
    StoreUnavailableError,
    file_systems,
)
from vectorstores.sqlite_faiss import database, index, upkeep
from vectorstores.sqlite_faiss.namespace import Namespace

ROOT = Path(__file__).parents[2]
DIM = 32


def open_at(path: Path, **options) -> FaissVectorStore:
    options = {"embedder": HashingEmbedder(dim=DIM), "namespace": "test"} | options
    return FaissVectorStore(path, **options)


def vectors(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)


async def fill(path: Path, count: int = 20) -> None:
    async with open_at(path) as store:
        await store.add([Chunk(f"text {n}", id=f"c{n}", vector=v) for n, v in enumerate(vectors(count))])


def python(script: str, *arguments: object, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


WRITER = """
    import sys, anyio
    from vectorstores import Chunk, FaissVectorStore, HashingEmbedder, RecordWrite

    async def main(path, name):
        store = FaissVectorStore(path, embedder=HashingEmbedder(dim=32), namespace="test")
        n = 0
        while True:
            pair = [Chunk(f"{name} {n} {part}", id=f"{name}-{n}-{part}") for part in "ab"]
            await store.add(pair, records=[RecordWrite("written", f"{name}-{n}", n)])
            print(n, flush=True)
            if n % 7 == 3:
                await store.delete([f"{name}-{n - 1}-a", f"{name}-{n - 1}-b"])
                await store.search(f"{name} {n}")
            n += 1

    anyio.run(main, *sys.argv[1:])
"""


def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path):
    chance = random.Random(7)
    path = tmp_path / "store"
    for attempt in range(3):
        writers = {f"{attempt}{letter}": python(WRITER, path, f"{attempt}{letter}") for letter in "xyz"}
        # Each has got through to its first write, then dies at a moment of its own.
        first = {name: process.stdout.readline() for name, process in writers.items()}
        assert all(first.values())
        for process in writers.values():
            time.sleep(chance.random() / 4)
            os.kill(process.pid, signal.SIGKILL)
        acknowledged = {}
        for name, process in writers.items():
            lines = (first[name] + process.stdout.read()).splitlines(keepends=True)
            process.stdout.close()
            process.wait()
            acknowledged[name] = sum(line.endswith("\n") for line in lines)
        anyio.run(check_writers, path, acknowledged)


async def check_writers(path: Path, acknowledged: dict[str, int]) -> None:
    async with open_at(path, create=False) as store:
        for name, count in acknowledged.items():
            # A write in flight may have been kept too, then whole: both chunks and the record.
            for n in range(count + 1):
                pair = await store.get_by_ids([f"{name}-{n}-a", f"{name}-{n}-b"])
                record = await store.get("written", f"{name}-{n}")
                gone = (n + 1) % 7 == 3
                assert len(pair) in ({2, 0} if gone or n == count else {2})
                assert (record is not None) or n == count
                assert record is None or gone or len(pair) == 2
            assert len(await store.search(f"{name} 0 a", k=5)) == 5


def test_two_processes_see_each_others_writes(tmp_path):
    other = python(
        """
        import sys, anyio
        from vectorstores import Chunk, FaissVectorStore, HashingEmbedder

        async def main(path):
            async with FaissVectorStore(path, embedder=HashingEmbedder(dim=32), namespace="test") as store:
                for line in sys.stdin:
                    command, word = line.split()
                    if command == "add":
                        await store.add([Chunk(word, id=word, metadata={"by": "other"})])
                    elif command == "delete":
                        await store.delete([word])
                    elif command == "update":
                        await store.add([Chunk(word, id=word, metadata={"by": "changed"})])
                    print([hit.chunk.id for hit in await store.search(word, k=1)], flush=True)

        anyio.run(main, sys.argv[1])
        """,
        tmp_path / "store",
        stdin=subprocess.PIPE,
    )

    def tell(command: str, word: str) -> str:
        other.stdin.write(f"{command} {word}\n")
        other.stdin.flush()
        return other.stdout.readline().strip()

    async def main() -> None:
        async with open_at(tmp_path / "store") as store:
            await store.add([Chunk("cupboard", id="cupboard")])
            assert tell("search", "cupboard") == "['cupboard']"
            assert tell("add", "microwave") == "['microwave']"
            assert (await store.search("microwave", k=1, filter={"by": "other"}))[0].chunk.id == "microwave"
            assert tell("update", "microwave") == "['microwave']"
            assert await store.search("microwave", filter={"by": "other"}) == []
            assert tell("delete", "microwave") == "['cupboard']"
            assert [hit.chunk.id for hit in await store.search("microwave")] == ["cupboard"]
            await store.delete(["cupboard"])
            assert tell("search", "cupboard") == "[]"

    try:
        anyio.run(main)
    finally:
        other.communicate(timeout=60)
    assert other.returncode == 0


def test_processes_that_create_the_same_store_at_once_get_one(tmp_path):
    script = """
        import sys, anyio
        from vectorstores import Chunk, FaissVectorStore, HashingEmbedder

        async def main(path, name):
            sys.stdin.readline()
            async with FaissVectorStore(path, embedder=HashingEmbedder(dim=32), namespace="test") as store:
                await store.add([Chunk(name, id=name)])

        anyio.run(main, *sys.argv[1:])
    """
    processes = [python(script, tmp_path / "store", f"p{n}", stdin=subprocess.PIPE) for n in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0

    async def main() -> None:
        async with open_at(tmp_path / "store") as store:
            assert sorted(hit.chunk.id for hit in await store.search("p", k=9)) == ["p0", "p1", "p2", "p3"]

    anyio.run(main)


@pytest.fixture
def small_thresholds(monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 10)
    monkeypatch.setattr(upkeep, "_NEW_ROWS", 10)


async def make_snapshot(path: Path, count: int = 50) -> Path:
    await fill(path, count)
    async with open_at(path) as store:
        await store.search(vectors(1)[0])
    (snapshot,) = (path / "index").glob("*.snapshot")
    return snapshot


async def found(path: Path, count: int = 50) -> list[str]:
    """Search for each of the vectors; the nearest is the chunk with that very vector."""
    async with open_at(path) as store:
        return [(await store.search(v, k=1))[0].chunk.id for v in vectors(count)]


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def zero(data: bytes) -> bytes:
    return bytes(len(data))


def flip(data: bytes) -> bytes:
    place = len(data) // 3
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def flip_trailer(data: bytes) -> bytes:
    return data[:-30] + bytes([data[-30] ^ 0x01]) + data[-29:]


@pytest.mark.parametrize(
    "damage", [truncate, zero, flip, flip_trailer, lambda data: b"", lambda data: data + b"x"]
)
@pytest.mark.usefixtures("small_thresholds")
def test_a_damaged_snapshot_is_made_again_from_the_rows(tmp_path, damage):
    path = tmp_path / "store"
    snapshot = anyio.run(make_snapshot, path)
    whole = snapshot.read_bytes()
    snapshot.write_bytes(damage(whole))
    assert anyio.run(found, path) == [f"c{n}" for n in range(50)]
    # It was replaced: the damage does not cost every later opening.
    assert abs(len(snapshot.read_bytes()) - len(whole)) < 100
    assert snapshot.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("small_thresholds")
def test_an_old_snapshot_is_brought_up_to_date(tmp_path):
    path = tmp_path / "store"
    snapshot = anyio.run(make_snapshot, path)
    old = snapshot.read_bytes()

    async def change() -> None:
        async with open_at(path) as store:
            await store.delete(["c7"])
            await store.add([Chunk("moved", id="c3", vector=vectors(1, seed=9)[0])])
            await store.add([Chunk("new", id="new", vector=vectors(1, seed=8)[0])])

    anyio.run(change)
    snapshot.write_bytes(old)

    async def check() -> None:
        async with open_at(path) as store:
            assert (await store.search(vectors(1, seed=9)[0], k=1))[0].chunk.content == "moved"
            assert (await store.search(vectors(1, seed=8)[0], k=1))[0].chunk.id == "new"
            hits = await store.search(vectors(50)[7], k=99)
            assert len(hits) == 50
            assert hits[0].score < 0.99

    anyio.run(check)


@pytest.mark.usefixtures("small_thresholds")
def test_a_snapshot_is_used_and_its_loss_is_harmless(tmp_path, monkeypatch):
    path = tmp_path / "store"
    anyio.run(make_snapshot, path)
    monkeypatch.setattr(Namespace, "load", None)  # all rows would be read with this
    assert anyio.run(found, path) == [f"c{n}" for n in range(50)]
    monkeypatch.undo()
    shutil.rmtree(path / "index")
    assert anyio.run(found, path) == [f"c{n}" for n in range(50)]


@pytest.mark.usefixtures("small_thresholds")
def test_a_snapshot_that_cannot_be_written_stops_nobody(tmp_path, caplog):
    path = tmp_path / "store"
    anyio.run(fill, path)
    (path / "index").write_text("in the way")
    assert anyio.run(found, path, 20) == [f"c{n}" for n in range(20)]
    assert "no file of" in caplog.text


def test_what_was_deleted_is_on_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 10)
    path = tmp_path / "store"
    secret, successor = "the attic door code is nine four two", "replaced"
    direction = vectors(1, seed=4)[0]
    needles = [secret.encode(), (direction / np.linalg.norm(direction)).tobytes()[:32]]

    def places() -> list[str]:
        data = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        return [file.name for file, content in data.items() if any(needle in content for needle in needles)]

    async def main() -> None:
        await fill(path)
        async with open_at(path) as store:
            await store.add(
                [Chunk(secret, id="secret", vector=direction), Chunk(secret + "!", id="embedded")]
            )
            await store.search(direction)
        assert places()
        async with open_at(path) as store:
            await store.delete(["embedded"])
            await store.add([Chunk(successor, id="secret", vector=-direction)])
            # The database and its log are cleared a moment later.
            with anyio.fail_after(60):
                while places():  # noqa: ASYNC110 - no one says when
                    await anyio.sleep(0.01)
            assert places() == []
            await store.search(direction)
        assert places() == []

    anyio.run(main)


def test_a_deleted_text_is_embedded_anew(tmp_path):
    class Counting(HashingEmbedder):
        texts = 0

        async def embed(self, texts):
            self.texts += len(texts)
            return await super().embed(texts)

    async def main() -> None:
        embedder = Counting(dim=DIM)
        async with open_at(tmp_path / "store", embedder=embedder) as store:
            await store.add([Chunk("a"), Chunk("b", id="b"), Chunk("lesson", embed_text="a")])
            await store.search("a")
            assert embedder.texts == 2
        async with open_at(tmp_path / "store", embedder=embedder) as store:
            await store.add([Chunk("a"), Chunk("b")])
            assert embedder.texts == 2
            await store.delete(["b"])
            await store.search("b")
            assert embedder.texts == 3

    anyio.run(main)


def test_another_embedder_is_refused_by_name(tmp_path):
    anyio.run(fill, tmp_path)
    for other in (HashingEmbedder(dim=64),):
        with pytest.raises(EmbedderMismatchError, match=r"dim=32.*dim=64") as caught:
            anyio.run(open_at(tmp_path, embedder=other).count)
        assert "reembed()" in str(caught.value)
    assert anyio.run(found, tmp_path, 20) == [f"c{n}" for n in range(20)]


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_format_is_refused(tmp_path, version):
    anyio.run(fill, tmp_path)
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    with pytest.raises(FormatVersionError, match=f"format {version}"):
        anyio.run(open_at(tmp_path).count)


def rewrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"this is no database" * 1000,
        lambda data: b"",
        lambda data: data[:5000],
        lambda data: data[:100] + os.urandom(len(data) - 100),
    ],
)
def test_a_damaged_database_is_reported(tmp_path, damage):
    anyio.run(fill, tmp_path)
    database = tmp_path / "store.sqlite3"
    rewrite(database, damage(database.read_bytes()))

    async def use() -> None:
        async with open_at(tmp_path) as store:
            await store.search(vectors(1)[0])
            await store.scan()
            await store.add([Chunk("x")])

    with pytest.raises(StoreCorruptError, match=str(database)):
        anyio.run(use)


def test_a_database_of_something_else_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StoreCorruptError, match="not one of a vector store"):
        anyio.run(open_at(tmp_path).count)


def test_a_damaged_row_is_named(tmp_path):
    anyio.run(fill, tmp_path)
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute("UPDATE vectors SET vector = x'00' WHERE row = 3")
        connection.execute("UPDATE chunks SET metadata = '{' WHERE row = 4")
    connection.close()

    async def use() -> None:
        async with open_at(tmp_path) as store:
            with pytest.raises(StoreCorruptError, match="vector of row 3"):
                await store.search(vectors(1)[0])
            with pytest.raises(StoreCorruptError, match=f"{tmp_path}.*row 4"):
                await store.scan()
            assert await store.count() == 20

    anyio.run(use)


@pytest.mark.parametrize("metadata", ["[1]", "3", "null", '"a"', "1" * 5000, "[" * 2000 + "]" * 2000])
def test_metadata_that_no_store_writes_is_told_by_the_id_of_its_chunk(tmp_path, metadata):
    anyio.run(fill, tmp_path)
    with sqlite3.connect(tmp_path / "store.sqlite3") as connection:
        connection.execute("UPDATE chunks SET metadata = ?, sum = NULL WHERE row = 4", (metadata,))
        (id,) = connection.execute("SELECT id FROM chunks WHERE row = 4").fetchone()
    connection.close()

    async def use() -> None:
        async with open_at(tmp_path) as store:
            for call in (
                store.scan,
                lambda: store.get_by_ids([id]),
                lambda: store.search(vectors(1)[0], k=20),
            ):
                with pytest.raises(StoreCorruptError, match=id):
                    await call()

    anyio.run(use)


def test_places_that_cannot_hold_a_store(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "ring").symlink_to("ring")
    cases = {
        tmp_path: "notes.txt",
        tmp_path / "notes.txt": "is a file",
        tmp_path / "notes.txt" / "below": "can't be used|is a file",
        tmp_path / "ring": "can't be used",
        tmp_path / "ring" / "below": "can't be used",
    }
    for place, said in cases.items():
        with pytest.raises(StoreUnavailableError, match=said):
            anyio.run(open_at(place).count)
    with pytest.raises(StoreUnavailableError, match="create=True"):
        anyio.run(open_at(tmp_path / "missing", create=False).count)
    assert not (tmp_path / "missing").exists()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(file_systems, "_MOUNTS", mounts)
    with pytest.raises(StoreUnavailableError, match="nfs4"):
        anyio.run(open_at(tmp_path / "remote" / "store").count)


def test_the_deepest_and_latest_mount_counts():
    mounts = "a / ext4\nb /mnt/my\\040disk cifs\nc /mnt/my\\040disk/local ext4\nd /mnt/twice nfs\ne /mnt/twice xfs\n"
    kinds = {
        "/home": "ext4",
        "/mnt/my disk/x": "cifs",
        "/mnt/my disk/local/x": "ext4",
        "/mnt/my disk2": "ext4",
        "/mnt/twice": "xfs",
    }
    assert {path: file_systems.file_system(Path(path), mounts) for path in kinds} == kinds


def test_files_are_for_this_user_alone(tmp_path):
    anyio.run(fill, tmp_path / "new" / "store")
    assert (tmp_path / "new" / "store").stat().st_mode & 0o777 == 0o700

    async def check() -> None:
        async with open_at(tmp_path / "new" / "store") as store:
            await store.add([Chunk("x")])
            modes = {
                file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new" / "store").iterdir()
            }
            assert "store.sqlite3-wal" in modes
            assert set(modes.values()) == {0o600}

    anyio.run(check)


def test_a_creation_that_was_killed_is_begun_anew(tmp_path):
    (tmp_path / "store.sqlite3.new").write_bytes(b"half a database")
    (tmp_path / "store.sqlite3.new-journal").write_bytes(b"half a journal")
    anyio.run(fill, tmp_path)
    assert anyio.run(found, tmp_path, 20) == [f"c{n}" for n in range(20)]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = shutil.which("mount")
    if (
        command is None
        or subprocess.run(
            [command, "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", place], check=True)


async def fill_the_disk(path: Path) -> None:
    async with open_at(path) as store:
        await store.add([Chunk("before", id="before", vector=vectors(1)[0])])
        big = [Chunk("x" * 100_000, id=f"big{n}", vector=v) for n, v in enumerate(vectors(20))]
        with pytest.raises(StoreUnavailableError, match="disk"):
            await store.add(big, records=[RecordWrite("c", "k", 1)])
        assert [chunk.id for chunk in (await store.scan()).chunks] == ["before"]
        assert await store.get("c", "k") is None
        assert [hit.chunk.id for hit in await store.search(vectors(1)[0])] == ["before"]
        # There is room for a small one again.
        await store.add([Chunk("after", id="after", vector=vectors(2)[1])])
    async with open_at(path) as store:
        assert [chunk.id for chunk in (await store.scan()).chunks] == ["before", "after"]


def test_a_full_disk_refuses_the_call_and_keeps_the_rest(small_disk):
    anyio.run(fill_the_disk, small_disk / "store")


def test_a_full_database_refuses_the_call_and_keeps_the_rest(tmp_path, monkeypatch):
    connect = database.connect

    def limited(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA max_page_count=100")
        return connection

    monkeypatch.setattr(database, "connect", limited)
    anyio.run(fill_the_disk, tmp_path / "store")


def test_a_read_only_disk_is_reported(small_disk):
    anyio.run(fill, small_disk / "store")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for place in ("store", "new"):
        with pytest.raises(StoreUnavailableError, match=r"read-only|Read-only"):
            anyio.run(open_at(small_disk / place).count)


def test_a_writer_that_holds_on_is_given_up_on(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.2)
    anyio.run(fill, tmp_path)
    blocker = sqlite3.connect(tmp_path / "store.sqlite3", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")

    async def use() -> None:
        async with open_at(tmp_path) as store:
            with pytest.raises(StoreUnavailableError, match=r"another process has been writing for 0\.2 s"):
                await store.add([Chunk("x", vector=vectors(1)[0])])
            assert len(await store.search(vectors(1)[0], k=99)) == 20
            blocker.execute("ROLLBACK")
            await store.add([Chunk("x", vector=vectors(1)[0])])
            assert await store.count() == 21

    anyio.run(use)
    blocker.close()
