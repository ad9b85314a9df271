"""New rows put by one statement: it leaves behind what several statements do, or nothing."""

import sqlite3
from collections.abc import Iterator, Sequence
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
    _putting,
    _rows,
    _schema,
)
from vectorstores._checks import Row

DIM = 8
TABLES = ("chunks", "vectors", "changes")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(empty()) as made:
        yield made


def empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in _schema._STATEMENTS:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('store', 'this one')")
    _putting.make_ready(connection)
    return connection


def some(text: str, ids: Sequence[int]) -> list[Row]:
    rng = np.random.default_rng(len(text))
    return [
        Row(f"c{n}", f"{text} {n}", f"é {n}" if n % 3 else None, f'{{"n":{n}}}', rng.random(DIM, np.float32))
        for n in ids
    ]


def put(
    connection: sqlite3.Connection, rows: Sequence[Row], namespace: str = "mine", store: str = "this one"
) -> bool:
    return _putting.put(connection, _putting.values_of(namespace, rows, store))


def all_of(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    found = {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in TABLES}
    # The last column of a change is a random number, the same for all of a call.
    found["changes"] = [change[:-1] for change in found["changes"]]
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["mine", "yours"]),
            st.lists(st.integers(0, 99), min_size=1, max_size=_putting.MOST, unique=True),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_it_leaves_behind_what_several_statements_do(calls):
    with closing(empty()) as quick, closing(empty()) as thorough:
        seen: set[tuple[str, int]] = set()
        for number, (namespace, ids) in enumerate(calls):
            rows = some(f"text {number}", ids)
            known = not seen.isdisjoint((namespace, n) for n in ids)
            before = all_of(quick)
            assert put(quick, rows, namespace) is not known
            assert not quick.in_transaction
            if known:
                assert all_of(quick) == before
                _rows.write_chunks(quick, namespace, rows)
            _rows.write_chunks(thorough, namespace, rows)
            seen |= {(namespace, n) for n in ids}
            assert all_of(quick) == all_of(thorough)
        tokens = quick.execute("SELECT token, count(*) FROM changes GROUP BY token").fetchall()
        assert sorted(count for _, count in tokens) == sorted(len(ids) for _, ids in calls)


def test_nothing_is_put_into_another_store(connection):
    assert not put(connection, some("text", [1, 2]), store="another")
    assert all_of(connection) == {table: [] for table in TABLES}


def test_the_log_of_changes_is_trimmed_as_by_several_statements(monkeypatch):
    monkeypatch.setattr(_rows, "LOG_SIZE", 50)
    monkeypatch.setattr(_rows, "SWEPT", 10)
    with closing(empty()) as connection:
        for first in range(0, 200, 5):
            assert put(connection, some("text", range(first, first + 5)))
            oldest, newest = connection.execute("SELECT min(seq), max(seq) FROM changes").fetchone()
            assert newest == first + 5
            assert newest - oldest < 50 + 10
        assert oldest > 100


@pytest.mark.anyio
async def test_many_writers_wait_for_another_process_no_longer_than_one(tmp_path, monkeypatch):
    from vectorstores import _sqlite

    monkeypatch.setattr(_sqlite, "BUSY_TIMEOUT", 0.3)
    store = FaissVectorStore(tmp_path, embedder=HashingEmbedder(dim=DIM), namespace="test")
    await store.add([Chunk("first", id="first")])
    refused: list[str] = []

    async def add(number: int) -> None:
        try:
            await store.add([Chunk("x", id=f"c{number}", vector=np.ones(DIM, np.float32))])
        except StoreUnavailableError as error:
            refused.append(str(error))

    with closing(sqlite3.connect(tmp_path / "store.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(2):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(add, number)
        other.execute("ROLLBACK")
    assert len(refused) == 20
    assert all("another process has been writing for 0.3 s" in each for each in refused)
    await add(1)
    assert await store.count() == 2
    await store.close()
