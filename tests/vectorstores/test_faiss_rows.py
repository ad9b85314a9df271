"""What the FAISS store writes into its tables: the quick ways give what the thorough ones give."""

import sqlite3
from contextlib import closing
from dataclasses import asdict

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectorstores import (
    Chunk,
    FaissVectorStore,
    HashingEmbedder,
    InvalidChunkError,
    StoreUnavailableError,
    _rows,
    _schema,
)
from vectorstores._checks import Row, check_chunks, plain_row
from vectorstores._sqlite import concerns_all, translated

DIM = 8
LIMIT = 200
TEXTS = st.one_of(
    st.text(st.characters(codec="ascii"), max_size=80), st.text(max_size=20), st.just("\ud800"), st.just(7)
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
METADATA = st.dictionaries(TEXTS, st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=5)
VECTORS = st.builds(
    lambda seed, scale, unit, dtype: _vector(seed, scale, unit=unit).astype(dtype),
    st.integers(0, 1000),
    st.sampled_from([0.0, 1e-30, 0.5, 1.0, 1.0000001, 3e37, np.inf, np.nan]),
    st.booleans(),
    st.sampled_from(["f4", "f8"]),
)


def _vector(seed: int, scale: float, *, unit: bool) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    with np.errstate(all="ignore"):
        return (drawn / np.linalg.norm(drawn) if unit else drawn) * np.float32(scale)


@given(st.builds(Chunk, TEXTS, TEXTS, METADATA, st.one_of(st.none(), TEXTS), VECTORS))
def test_a_plain_chunk_becomes_the_row_that_the_thorough_way_makes_of_it(chunk):
    quick = plain_row(chunk, DIM, LIMIT)
    try:
        with np.errstate(all="ignore"):
            (thorough,) = check_chunks([chunk], DIM)
    except InvalidChunkError:
        assert quick is None
        return
    if quick is None:
        return
    given = asdict(quick), asdict(thorough)
    vectors = [each.pop("vector") for each in given]
    assert given[0] == given[1]
    assert vectors[0].tobytes() == vectors[1].tobytes()
    assert not np.shares_memory(quick.vector, chunk.vector)


def test_what_is_common_is_plain_and_what_is_large_is_not():
    vector = _vector(0, 1.0, unit=True)
    metadata = {"kind": "lesson", "score": 0.5, "trial": 2, "seen": True, "tool": None}
    assert plain_row(Chunk("text", "id", metadata, "task", vector), DIM, LIMIT) is not None
    assert plain_row(Chunk("text", "id", metadata, "task", 2 * vector), DIM, LIMIT) is not None
    for large in (
        Chunk("x" * LIMIT, "id", vector=vector),
        Chunk("x", "id", {"x": "x" * LIMIT}, None, vector),
    ):
        assert plain_row(large, DIM, LIMIT) is None
    assert plain_row(Chunk("text", "id", {"n": dict.fromkeys("ab", 1)}, vector=vector), DIM, LIMIT) is None
    assert plain_row(Chunk("text", "id"), DIM, LIMIT) is None


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
        for statement in _schema._STATEMENTS:
            connection.execute(statement)
        connection.execute("BEGIN")
        _rows.write_chunks(connection, "other", _some(0, range(100)))
        texts: dict[str, str] = {}
        order: list[str] = []
        for text, ids in calls:
            rows = _some(text, ids)
            before = _rows.last_change(connection)
            gone = _rows.write_chunks(connection, "mine", rows)
            changed = {row.id for row in rows if texts.get(row.id, row.content) != row.content}
            numbered = {row: seq for seq, row, _ in _changes(connection, before)}
            assert [seq for seq, _, _ in _changes(connection, before)] == [
                *range(before + 1, before + 1 + len(rows))
            ]
            names = dict(connection.execute("SELECT row, id FROM chunks"))
            assert {(names[each.row], each.text, each.seq) for each in gone} == {
                (id, texts[id], numbered[row])
                for row, id in names.items()
                if row in numbered and id in changed
            }
            order += [row.id for row in rows if row.id not in texts]
            texts |= {row.id: row.content for row in rows}
        page = _rows.scan_chunks(connection, "mine", None, 0, 1000)
        assert [(chunk.id, chunk.content) for chunk in page.chunks] == [(id, texts[id]) for id in order]
        assert _rows.count_chunks(connection, "other", None) == 100
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
        assert len(await store.search_by_vector(np.ones(DIM), k=1000)) == 10 * size


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
