"""The files beside the database: never a wrong answer, never a vector that was deleted."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorstores import Chunk, EmbedderMismatchError, FaissVectorStore, HashingEmbedder
from vectorstores._checks import unit_rows
from vectorstores.sqlite_faiss import index, snapshot, upkeep
from vectorstores.sqlite_faiss.snapshot import Place, Snapshot

ROOT = Path(__file__).parents[2]
DIM = 32
COUNT = 700


def open_at(path: Path, **options) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test", **options)


def vectors(count: int = COUNT, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIM))
    for _ in range(3):  # until scaling them changes nothing: these are the very bytes that are stored
        rows = unit_rows(rows, DIM, str)
    return rows


def chunks(rows: np.ndarray) -> list[Chunk]:
    return [
        Chunk(f"text {n}", f"c{n}", {"kind": "odd one" if n == 3 else f"k{n % 7}"}, vector=v)
        for n, v in enumerate(rows)
    ]


def changed(number: int) -> Chunk:
    return replace(chunks(vectors())[number], metadata={"kind": "new"})


@pytest.fixture(autouse=True)
def small_thresholds(monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 10)
    monkeypatch.setattr(upkeep, "_NEW_ROWS", 200)


async def make(path: Path) -> None:
    async with open_at(path) as store:
        await store.add(chunks(vectors()))
        await store.search(vectors()[0], filter={"kind": "k1"})


async def answers(path: Path, expected: np.ndarray) -> list[list[tuple[str, float]]]:
    queries = vectors(6, seed=9)
    async with open_at(path) as store:
        found = [await store.search(q, k=5, filter=f) for q in queries for f in (None, {"kind": "k3"})]
        found += [await store.search(vectors()[n], k=1) for n in range(0, COUNT, 41)]
        # Whatever the files say, what is searched are the vectors that were stored.
        matrix = store._engine._state.index.get("test").matrix
        assert np.array_equal(matrix.gather(np.flatnonzero(matrix.alive)), expected)
        return [[(hit.chunk.content, round(hit.score, 6)) for hit in hits] for hits in found]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with its files, and the answers without them."""
    path = tmp_path_factory.mktemp("made") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "INDEX_FROM", 10)
        patch.setattr(upkeep, "_NEW_ROWS", 200)
        anyio.run(make, path)
        plain = path.with_name("plain")
        shutil.copytree(path, plain)
        shutil.rmtree(plain / "index")
        return path, anyio.run(answers, plain, vectors())


def file_of(path: Path) -> Path:
    (found,) = (path / "index").glob("*.snapshot")
    return found


@settings(max_examples=20, deadline=None)
@given(damage=st.sampled_from(["flip", "cut", "zero", "more"]), data=st.data())
def test_damage_anywhere_changes_no_answer(made, damage, data):
    source, expected = made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        shutil.copytree(source, path)
        content = bytearray(file_of(path).read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        if damage == "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        elif damage == "cut":
            del content[at:]
        elif damage == "zero":
            end = at + data.draw(st.integers(1, 5000))
            content[at:end] = bytes(len(content[at:end]))
        else:
            content += b"\1" * data.draw(st.integers(1, 5000))
        file_of(path).write_bytes(content)
        assert anyio.run(answers, path, vectors()) == expected
        # Made anew at the latest when it was closed.
        assert whole(path)


def place(path: Path) -> Place:
    with sqlite3.connect(path / "store.sqlite3") as connection:
        (store,) = connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()
    connection.close()
    return Place(path / "index", store, "test", DIM)


def whole(path: Path) -> Snapshot | None:
    """Return the file of a store, if it has its checksums."""
    return snapshot.opened(place(path))


def test_codes_of_other_vectors_are_not_used(made, tmp_path):
    path = tmp_path / "store"
    shutil.copytree(made[0], path)
    old = file_of(path).read_bytes()
    shutil.rmtree(path / "index")
    fresh = vectors(300, seed=4)

    async def change() -> None:
        async with open_at(path) as store:
            await store.delete([f"c{n}" for n in range(300)])
            await store.add([Chunk(f"new {n}", f"n{n}", vector=v) for n, v in enumerate(fresh)])
            await store.search(fresh[0])

    anyio.run(change)
    file_of(path).write_bytes(old)
    anyio.run(answers, path, np.concatenate([vectors()[300:], fresh]))


def needles(rows: np.ndarray) -> list[bytes]:
    return [row.tobytes()[:32] for row in rows]


def holding(path: Path, wanted: list[bytes]) -> list[str]:
    found = []
    for file in path.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # files may go while we look
            if any(needle in file.read_bytes() for needle in wanted):
                found.append(file.name)
    return found


def test_deleted_and_replaced_vectors_leave_the_files(tmp_path, monkeypatch):
    path = tmp_path / "store"
    monkeypatch.setattr(upkeep, "_REST", 0.0)
    anyio.run(make, path)
    rows = vectors()
    gone = [*needles(rows[[3, 300, 699]]), b"odd one"]
    assert all(holding(path, [needle]) for needle in gone)

    async def change() -> None:
        async with open_at(path) as store:
            await store.search(rows[0], filter={"kind": "k1"})
            await store.delete(["c3", "c300"])
            await store.add([Chunk("other", "c699", vector=vectors(1, seed=5)[0])])
            # The index at once, the database and its log a moment later.
            assert not {name for name in holding(path, gone) if not name.startswith("store.sqlite3")}
            with anyio.fail_after(60):
                while holding(path, gone):  # noqa: ASYNC110 - no one says when
                    await anyio.sleep(0.01)
            hits = await store.search(rows[3], k=1000, filter={"kind": {"$ne": "k1"}})
            assert len(hits) == COUNT - 2 - 100
            # The file is made again without them, when there is time for it.
            with anyio.fail_after(30):
                while not whole(path):
                    await store.search(rows[0])
                    await anyio.sleep(0.01)
            assert holding(path, gone) == []
        assert holding(path, gone) == []

    anyio.run(change)
    assert len(whole(path).rows) == COUNT - 2


@pytest.mark.parametrize("by", ["the owner", "another process"])
def test_what_is_added_deleted_and_replaced_while_files_come_and_go_is_found(tmp_path, monkeypatch, by):
    """The file is removed and written again all the time; every answer is that of the rows."""
    monkeypatch.setattr(upkeep, "_REST", 0.0)
    monkeypatch.setattr(upkeep, "_NEW_ROWS", 5)
    path = tmp_path / "store"
    chance = np.random.default_rng(1)

    async def main() -> None:
        await make(path)
        known = dict(enumerate(vectors()))
        async with open_at(path) as searching, open_at(path) as other:
            writing = searching if by == "the owner" else other
            for step in range(60):
                n = int(chance.integers(COUNT + 200))
                if step % 3 == 0:
                    await writing.delete([f"c{n}"])
                    known.pop(n, None)
                else:
                    known[n] = vectors(1, seed=1000 + step)[0]
                    await writing.add([Chunk(f"text {n}", f"c{n}", vector=known[n])])
                hits = await searching.search(vectors(1, seed=step)[0], k=2000)
                assert {hit.chunk.id for hit in hits} == {f"c{each}" for each in known}
                for each in [*known][-3:]:
                    (hit,) = await searching.search(known[each], k=1)
                    assert (hit.chunk.id, round(hit.score, 5)) == (f"c{each}", 1.0)
                await anyio.sleep(0.002)

    anyio.run(main)


@pytest.mark.parametrize("namespace", ["test", "another"])
def test_what_a_process_left_that_was_killed_after_it_deleted_is_cleared(tmp_path, namespace):
    path = tmp_path / "store"
    anyio.run(make, path)
    deleted = needles(vectors()[[5]])
    killed(path, "Database.scrub = lambda database: os._exit(9)")
    # The index at once, the log by whoever opens the store next.
    assert {name.removesuffix("-wal") for name in holding(path, deleted)} == {"store.sqlite3"}

    async def use() -> None:
        async with open_at(path) as store:
            # Whether the namespace itself is searched or not.
            hits = await store.scoped(namespace).search(vectors()[5], k=1000)
            assert "c5" not in [hit.chunk.id for hit in hits]
            with anyio.fail_after(60):
                while holding(path, deleted):  # noqa: ASYNC110 - no one says when
                    await anyio.sleep(0.01)
        assert holding(path, deleted) == []

    anyio.run(use)


def test_a_process_that_is_killed_while_it_deletes_has_deleted_nothing(made, tmp_path):
    path = tmp_path / "store"
    shutil.copytree(made[0], path)
    killed(path, "Writer.scrub_soon = lambda writer: os._exit(9)")
    assert not list((path / "index").glob("*.snapshot"))
    assert anyio.run(answers, path, vectors()) == made[1]
    assert whole(path)


def test_a_file_stays_where_the_same_vectors_were_written_again(tmp_path):
    path = tmp_path / "store"
    anyio.run(make, path)
    before = file_of(path).stat().st_ino

    async def use() -> None:
        async with open_at(path) as store:
            await store.add(chunks(vectors())[:50])
            await store.add([changed(8)])
            await store.search(vectors()[0])
        async with open_at(path) as store:
            await store.search(vectors()[0])

    anyio.run(use)
    assert file_of(path).stat().st_ino == before


def test_a_vector_that_is_replaced_under_the_same_text_leaves_the_file(tmp_path):
    path = tmp_path / "store"
    anyio.run(make, path)
    rows = vectors()

    async def replace() -> None:
        async with open_at(path) as store:
            await store.add([Chunk("text 5", "c5", vector=-rows[5])])
            assert not {name for name in holding(path, needles(rows[[5]])) if name.endswith(".snapshot")}

    anyio.run(replace)
    assert holding(path, needles(rows[[5]])) == []


def test_files_of_earlier_versions_are_removed(tmp_path):
    path = tmp_path / "store"
    anyio.run(make, path)
    for name in ("0123.vectors", "0123.codes", "0123.matrix"):
        (path / "index" / name).write_bytes(b"what an earlier version derived")
    anyio.run(answers, path, vectors())
    assert [file.suffix for file in (path / "index").iterdir()] == [".snapshot"]


def test_what_a_killed_process_had_begun_is_removed(tmp_path):
    path = tmp_path / "store"
    anyio.run(make, path)
    left = path / "index" / "ab.cd.new"
    left.write_bytes(b"half")
    anyio.run(answers, path, vectors())
    assert not left.exists()


def test_a_file_that_was_removed_while_it_was_written_is_written_later(tmp_path, monkeypatch):
    path = tmp_path / "store"
    draft = snapshot.draft

    @contextmanager
    def removed(*arguments):
        with draft(*arguments) as written:
            monkeypatch.setattr(snapshot, "draft", draft)
            snapshot.clean(path / "index")  # as another process does that opens the store
            yield written

    monkeypatch.setattr(snapshot, "draft", removed)
    anyio.run(make, path)
    anyio.run(answers, path, vectors())
    assert whole(path)


def test_what_is_deleted_while_a_file_is_written_is_not_in_it(tmp_path, monkeypatch):
    path = tmp_path / "store"
    rows = vectors()
    draft = snapshot.draft
    waiting = []

    @contextmanager
    def slow(*arguments):
        with draft(*arguments) as written:
            other = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(DELETE), path], cwd=ROOT, check=False
            )
            waiting.append(other.returncode)
            yield written

    monkeypatch.setattr(snapshot, "draft", slow)
    anyio.run(make, path)
    assert waiting[:1] == [0]
    assert holding(path, needles(rows[[5]])) == []
    monkeypatch.undo()

    async def check() -> None:
        async with open_at(path) as store:
            assert await store.count() == COUNT - 1
            assert len(await store.search(rows[5], k=1000)) == COUNT - 1

    anyio.run(check)


DELETE = """
    import sys, anyio
    from vectorstores import FaissVectorStore, HashingEmbedder

    async def main(path):
        async with FaissVectorStore(path, embedder=HashingEmbedder(dim=32), namespace="test") as store:
            assert await store.delete(["c5"]) == 1

    anyio.run(main, sys.argv[1])
"""


def killed(path: Path, patch: str) -> None:
    """Delete a chunk in a process that is killed at a moment."""
    program = textwrap.dedent(
        f"""
        import os, sys, anyio
        from vectorstores import FaissVectorStore, HashingEmbedder
        from vectorstores.sqlite_faiss.database import Database
        from vectorstores.sqlite_faiss.writer import Writer

        async def main(path):
            async with FaissVectorStore(path, embedder=HashingEmbedder(dim=32), namespace="test") as store:
                await store.search("any")
                {patch}
                await store.delete(["c5"])

        anyio.run(main, sys.argv[1])
        """
    )
    assert subprocess.run([sys.executable, "-c", program, path], cwd=ROOT, check=False).returncode == 9


def test_metadata_that_changed_since_the_files_were_written_counts(tmp_path):
    path = tmp_path / "store"
    anyio.run(make, path)

    async def change() -> None:
        async with open_at(path) as store:
            await store.add([changed(8)])
            await store.add([Chunk("more", "more", {"kind": "new"}, vector=vectors(1, seed=3)[0])])

    anyio.run(change)

    async def check() -> None:
        async with open_at(path) as store:
            for _ in range(2):
                hits = await store.search(vectors()[8], k=9, filter={"kind": "new"})
                assert {hit.chunk.id for hit in hits} == {"c8", "more"}
                assert await store.count(filter={"kind": "new"}) == 2
                assert len((await store.scan(filter={"kind": "k1"}, limit=500)).chunks) == 99

    anyio.run(check)


def test_a_store_that_was_moved_to_another_embedder_says_so(tmp_path):
    path = tmp_path / "store"
    anyio.run(make, path)

    async def use() -> None:
        async with open_at(path) as store:
            await store.search(vectors()[0])
            with sqlite3.connect(path / "store.sqlite3") as connection:
                connection.execute("UPDATE meta SET value = 'another' WHERE key = 'store'")
            connection.close()
            for call in (
                lambda: store.search(vectors()[0]),
                lambda: store.add([Chunk("x", vector=vectors()[0])]),
                lambda: store.delete(["c1"]),
                store.count,
            ):
                with pytest.raises(EmbedderMismatchError, match="open it again"):
                    await call()

    anyio.run(use)


@pytest.mark.skipif(not os.access("/proc/self/fd", os.R_OK), reason="needs /proc")
def test_a_closed_store_leaves_no_thread_and_no_file_open(tmp_path):
    before = set(threading.enumerate())
    anyio.run(make, tmp_path / "store")
    # The link of the folder's own listing is gone by then.
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [link for link in links if str(tmp_path) in link]
    assert not [
        each for each in threading.enumerate() if each.name.startswith("vectorstores") and each not in before
    ]
