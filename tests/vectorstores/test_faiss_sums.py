"""Checksums of rows, files of another history, and what fails after a commit."""

import logging
import shutil
import sqlite3
import time
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectorstores import (
    Chunk,
    FaissVectorStore,
    HashingEmbedder,
    StoreCorruptError,
    StoreUnavailableError,
)
from vectorstores._checks import unit_rows
from vectorstores.sqlite_faiss import index, rows, writer
from vectorstores.sqlite_faiss.database import Database
from vectorstores.sqlite_faiss.namespace import Namespace
from vectorstores.sqlite_faiss.rows import metadata_sum, text_sum, vector_sums

DIM = 32


def open_at(path: Path) -> FaissVectorStore:
    return FaissVectorStore(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def vectors(count: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, DIM))
    return unit_rows(drawn, DIM, str)


def chunks(count: int, name: str = "c", seed: int = 0) -> list[Chunk]:
    return [
        Chunk(f"text {name} {n}", f"{name}{n}", {"kind": n % 3, "n": n}, vector=v)
        for n, v in enumerate(vectors(count, seed))
    ]


@given(st.integers(0, DIM * 4 - 1), st.integers(0, 7), st.integers(0, 9))
def test_any_flipped_bit_of_a_vector_shows(byte, bit, row):
    good = vectors(10)
    data = bytearray(good.tobytes())
    data[row * DIM * 4 + byte] ^= 1 << bit
    found = vector_sums(np.frombuffer(bytes(data), dtype=np.float32).reshape(-1, DIM)) != vector_sums(good)
    assert found.tolist() == [place == row for place in range(10)]


@given(st.text(), st.text(), st.none() | st.text(), st.text(), st.data())
def test_a_change_of_any_text_shows(id, content, embed_text, metadata, data):
    texts = [id, content, embed_text, metadata]
    place = data.draw(st.integers(0, 3))
    other = data.draw((st.none() | st.text(max_size=3)) if place == 2 else st.text(max_size=3))
    changed = [*texts[:place], other, *texts[place + 1 :]]
    assert (text_sum(*changed) == text_sum(*texts)) == (changed == texts)
    assert text_sum(*texts) & 0xFFFFFFFF == metadata_sum(metadata)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_normalising_is_done_once(count, seed):
    once = unit_rows(np.random.default_rng(seed).standard_normal((count, DIM)) * 10, DIM, str)
    assert np.array_equal(unit_rows(once, DIM, str), once)
    assert np.array_equal(np.concatenate([unit_rows(row[np.newaxis], DIM, str) for row in once]), once)


DAMAGES = {
    "content": "UPDATE chunks SET content = 'text c 5.' WHERE row = 5",
    "metadata": "UPDATE chunks SET metadata = replace(metadata, '4', '7') WHERE row = 5",
    "vector": "UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE row = 6) WHERE row = 5",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_row_that_changed_by_itself_is_named(tmp_path, name):
    async def main() -> None:
        async with open_at(tmp_path) as store:
            await store.add(chunks(20))
        with closing(sqlite3.connect(tmp_path / "store.sqlite3", isolation_level=None)) as connection:
            connection.execute(DAMAGES[name])
        async with open_at(tmp_path) as store:
            with pytest.raises(StoreCorruptError, match="row 5"):
                await store.search(vectors(20)[4], filter={"n": {"$gte": 0}})
            if name != "vector":
                with pytest.raises(StoreCorruptError, match="row 5"):
                    await store.get_by_ids(["c4"])

    anyio.run(main)


@pytest.mark.anyio
async def test_a_remembered_embedding_that_changed_by_itself_is_made_again(tmp_path):
    texts = ["heat the potato", "cool the apple"]
    async with open_at(tmp_path) as store:
        await store.add([Chunk(text, text) for text in texts])
        expected = await store.search(texts[0])
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as connection, connection:
        for key, blob in connection.execute("SELECT key, vector FROM embeddings").fetchall():
            damaged = bytes(each ^ 0x40 if place % 4 == 3 else each for place, each in enumerate(blob))
            connection.execute("UPDATE embeddings SET vector = ? WHERE key = ?", (damaged, key))
    async with open_at(tmp_path) as store:
        assert await store.search(texts[0]) == expected


def test_an_index_of_another_history_counts_as_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 10)

    async def main() -> None:
        path = tmp_path / "store"
        async with open_at(path) as store:
            await store.add(chunks(50))
        shutil.copy(path / "store.sqlite3", tmp_path / "backup")
        async with open_at(path) as store:
            await store.add(chunks(50, "after", seed=1))
            await store.search(vectors(1)[0])
        shutil.copytree(path / "index", tmp_path / "index")
        shutil.copy(tmp_path / "backup", path / "store.sqlite3")
        async with open_at(path) as store:
            # As many changes as the files know of, though others.
            await store.add(chunks(50, "other", seed=2))
        shutil.rmtree(path / "index", ignore_errors=True)
        shutil.copytree(tmp_path / "index", path / "index")
        async with open_at(path) as store:
            for n, wanted in enumerate(vectors(50, seed=2)):
                (hit,) = await store.search(wanted, k=1)
                assert hit.chunk.id == f"other{n}"

    anyio.run(main)


def holding(folder: Path, needle: bytes) -> list[str]:
    return [f.name for f in folder.rglob("*") if f.is_file() and needle in f.read_bytes()]


def test_what_cannot_be_taken_off_the_disk_is_not_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "INDEX_FROM", 10)
    unlink = Path.unlink

    def refusing(path: Path, **options: bool) -> None:
        if path.suffix == ".snapshot":
            raise PermissionError("not yours")
        unlink(path, **options)

    async def main() -> None:
        async with open_at(tmp_path) as store:
            await store.add(chunks(50))
            await store.search(vectors(1)[0])
        async with open_at(tmp_path) as store:
            with monkeypatch.context() as patch:
                patch.setattr(Path, "unlink", refusing)
                with pytest.raises(StoreUnavailableError, match="not yours"):
                    await store.delete(["c7"])
                await store.add(chunks(1, "other"))
            assert (await store.search(vectors(50)[7], k=1))[0].chunk.id == "c7"
            assert await store.delete(["c7"]) == 1
            assert not [name for name in holding(tmp_path, vectors(50)[7].tobytes()) if "snapshot" in name]

    anyio.run(main)


def test_a_log_that_cannot_be_cleared_is_cleared_later(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(writer, "_SCRUB", 0.001)
    refused, checkpoint = [], Database.scrub

    def scrub(database: Database) -> bool:
        if len(refused) < 5:
            refused.append(database)
            raise StoreUnavailableError("no room")
        return checkpoint(database)

    async def main() -> None:
        async with open_at(tmp_path) as store:
            await store.add(chunks(50))
            monkeypatch.setattr(Database, "scrub", scrub)
            assert await store.delete(["c7"]) == 1
            assert await store.count() == 49
            with anyio.fail_after(60):
                while holding(tmp_path, vectors(50)[7].tobytes()):  # noqa: ASYNC110 - no one says when
                    await anyio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        anyio.run(main)
    assert caplog.text.count("no room") == 1  # not each time


def put(store: FaissVectorStore, content: str, note: str) -> Awaitable[object]:
    return store.add([Chunk(content, "c0", {"note": note}, "searched", vectors(1)[0])])


@pytest.mark.parametrize(
    ("gone", "change"),
    [
        (b"old content", lambda store: put(store, "new content", "old note")),
        (b"old note", lambda store: put(store, "old content", "new note")),
        (b"old record", lambda store: store.delete_records("records", ["key"])),
        (b"old record", lambda store: store.compare_and_swap("records", "key", "new record", version=1)),
    ],
)
def test_what_is_deleted_or_replaced_leaves_the_log_whatever_it_was(tmp_path, monkeypatch, gone, change):
    monkeypatch.setattr(writer, "_SCRUB", 0.001)

    async def main() -> None:
        async with open_at(tmp_path) as store:
            await put(store, "old content", "old note")
            await store.append_once("records", "key", "old record")
            assert holding(tmp_path, gone)
            await change(store)
            with anyio.fail_after(60):
                while holding(tmp_path, gone):  # noqa: ASYNC110 - no one says when
                    await anyio.sleep(0.01)

    anyio.run(main)


def test_a_log_without_its_database_is_named(tmp_path):
    (tmp_path / "store.sqlite3-wal").write_bytes(b"what was written last")

    async def main() -> None:
        with pytest.raises(StoreCorruptError, match=r"store\.sqlite3-wal"):
            await open_at(tmp_path).count()

    anyio.run(main)
    assert [file.name for file in tmp_path.iterdir() if "lock" not in file.name] == ["store.sqlite3-wal"]


@pytest.mark.anyio
async def test_a_search_follows_what_another_writes(tmp_path):
    async with open_at(tmp_path) as store, open_at(tmp_path) as other:
        await store.add(chunks(30))
        await store.search(vectors(1)[0])
        fresh = vectors(5, seed=3)
        for n, vector in enumerate(fresh):
            await other.add([Chunk(f"late {n}", f"late{n}", vector=vector)])
            for _ in range(3):
                (hit,) = await store.search(vector, k=1)
                assert hit.chunk.id == f"late{n}"
        await other.delete(["late4"])
        (hit,) = await store.search(fresh[4], k=1)
        assert hit.chunk.id != "late4"


@pytest.mark.anyio
async def test_a_write_in_the_middle_of_a_search_leaves_it_on_one_state(tmp_path, monkeypatch):
    plain = Namespace.search

    def interrupted(self, *args):
        found = plain(self, *args)
        monkeypatch.setattr(Namespace, "search", plain)
        # Another process deletes the best, after it was found and before its text is read.
        with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as other, other:
            (row, seq) = other.execute(
                "SELECT row, (SELECT max(seq) FROM changes) FROM chunks WHERE id = 'c0'"
            ).fetchone()
            other.execute("DELETE FROM chunks WHERE row = ?", (row,))
            other.execute("DELETE FROM vectors WHERE row = ?", (row,))
            other.execute("INSERT INTO changes VALUES (?, 'test', ?, ?, 1)", (seq + 1, row, rows.DELETED))
        return found

    async with open_at(tmp_path) as store:
        await store.add(chunks(10))
        vector = vectors(1)[0]
        assert (await store.search(vector))[0].chunk.id == "c0"
        monkeypatch.setattr(Namespace, "search", interrupted)
        assert (await store.search(vector))[0].chunk.id == "c0"
        found = [hit.chunk.id for hit in await store.search(vector, k=10)]
        assert sorted(found) == [f"c{n}" for n in range(1, 10)]


@pytest.mark.anyio
async def test_others_get_their_turn_while_a_column_is_read(tmp_path, monkeypatch):
    pauses = []
    async with open_at(tmp_path) as store:
        await store.add(
            [Chunk(f"{n}", f"c{n}", {"an odd key": n % 2}, vector=v) for n, v in enumerate(vectors(1_000))]
        )
        await store.search(vectors(1)[0])
        monkeypatch.setattr(rows, "pause", lambda: pauses.append(None))
        hits = await store.search(vectors(1)[0], k=1000, filter={"an odd key": 1})
    assert len(hits) == 500
    assert len(pauses) >= 1_000 // 256


@pytest.mark.anyio
async def test_large_texts_do_not_hold_the_loop(tmp_path):
    async with open_at(tmp_path) as store:
        large = [
            Chunk("x" * 10**6, f"c{n}", {"more": ["y" * 1000] * 1000}, vector=v)
            for n, v in enumerate(vectors(4))
        ]
        held = 0.0

        async def tick() -> None:
            nonlocal held
            while True:
                started = time.thread_time()
                await anyio.sleep(0.001)
                held = max(held, time.thread_time() - started)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            await anyio.sleep(0.01)
            await store.add(large)
            tasks.cancel_scope.cancel()
        assert held < 0.15
