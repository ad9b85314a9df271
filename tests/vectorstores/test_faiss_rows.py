"""What the FAISS store writes into its tables: the quick ways give what the thorough ones give."""

import sqlite3
from contextlib import closing

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectorstores import (
    Chunk,
    FaissVectorStore,
    HashingEmbedder,
    StoreUnavailableError,
)
from vectorstores._checks import Row
from vectorstores.sqlite_faiss import rows as sql
from vectorstores.sqlite_faiss import schema
from vectorstores.sqlite_faiss.database import concerns_all, translated

DIM = 8


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.lists(st.integers(0, 99), min_size=1, max_size=70, unique=True)),
        min_size=1,
        max_size=6,
    )
)
def test_writes_of_any_number_of_new_and_known_ids(calls):
    """Each call writes ``text + n`` under the ids of its list; ids of another namespace stay out of it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in schema._STATEMENTS:
            connection.execute(statement)
        connection.execute("BEGIN")
        sql.write_chunks(connection, "other", _some(0, range(100)))
        texts: dict[str, str] = {}
        order: list[str] = []
        for text, ids in calls:
            rows = _some(text, ids)
            before = sql.last_change(connection)
            replaces, gone = sql.write_chunks(connection, "mine", rows)
            assert replaces is any(row.id in texts for row in rows)
            assert [seq for seq, _, _ in _changes(connection, before)] == [
                *range(before + 1, before + 1 + len(rows))
            ]
            known = [texts[row.id] for row in rows if row.id in texts and texts[row.id] != row.content]
            assert gone == known
            order += [row.id for row in rows if row.id not in texts]
            texts |= {row.id: row.content for row in rows}
        page = sql.scan_chunks(connection, "mine", None, 0, 1000)
        assert [(chunk.id, chunk.content) for chunk in page.chunks] == [(id, texts[id]) for id in order]
        assert sql.count_chunks(connection, "other") == 100
        found = connection.execute(
            "SELECT id, vector FROM chunks JOIN vectors USING (row) WHERE namespace = 'mine'"
        )
        for id, vector in found:
            assert np.frombuffer(vector, "<f4")[0] == float(texts[id].split()[0])
        connection.execute("COMMIT")


def _some(text: int, ids) -> list[Row]:
    vector = np.full(DIM, text, dtype=np.float32)
    return [Row(f"c{n}", f"{text} {n // 10}", None, "{}", vector) for n in ids]


def _changes(connection, after):
    return connection.execute(
        "SELECT seq, row, kind FROM changes WHERE seq > ? ORDER BY seq", (after,)
    ).fetchall()


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 3, 8, 40])
async def test_many_tasks_write_new_and_known_ids_at_once(tmp_path, size):
    async with FaissVectorStore(tmp_path, embedder=HashingEmbedder(dim=DIM), namespace="test") as store:

        def made(text: str, first: int) -> list[Chunk]:
            vector = np.ones(DIM, dtype=np.float32)
            return [Chunk(f"{text} {n}", id=f"c{n}", vector=vector) for n in range(first, first + size)]

        await store.add(made("old", 0))
        async with anyio.create_task_group() as tasks:
            for first in range(0, 10 * size, size):
                tasks.start_soon(store.add, made("new", first))
        page = await store.scan(limit=1000)
        assert {chunk.id: chunk.content for chunk in page.chunks} == {
            f"c{n}": f"new {n}" for n in range(10 * size)
        }
        assert len(await store.search(np.ones(DIM), k=1000)) == 10 * size


class ColumnsFirst(HashingEmbedder):
    async def embed(self, texts):
        return np.asfortranarray(await super().embed(texts))


@pytest.mark.anyio
async def test_the_order_in_which_an_embedder_lays_out_its_array_does_not_matter(tmp_path):
    texts = ["find the mug", "open the drawer", "look at the lamp"]
    async with FaissVectorStore(tmp_path, embedder=ColumnsFirst(dim=DIM), namespace="test") as store:
        await store.add([Chunk(text) for text in texts])
        for text in texts:
            (hit,) = await store.search(text, k=1)
            assert (hit.chunk.content, hit.score) == (text, pytest.approx(1.0, abs=1e-5))


def test_locks_that_sqlite_could_not_get_are_an_error_of_this_package(tmp_path):
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
    refused = pytest.raises(StoreUnavailableError, match="nothing of the call was stored")
    with refused as caught, translated(tmp_path / "store.sqlite3"):
        raise error
    assert concerns_all(caught.value)
