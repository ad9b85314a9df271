"""Clocks that are set back: nothing depends on the order of their times."""

import os
from pathlib import Path

import anyio
import pytest

from benchmarks.faults import writer
from benchmarks.faults.lane import Lane, vector_of
from benchmarks.faults.rounds import Plan, run_rounds
from benchmarks.faults.verify import read_all
from benchmarks.faults.writer import perform
from vectorstores import Chunk, HashingEmbedder, Store, open_store

DIM = 16


def open_at(path: Path) -> Store:
    return open_store(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def test_writers_whose_clock_runs_backwards_lose_nothing(tmp_path):
    plan = Plan(
        lambda number: (str(tmp_path / "store"), "test"),
        tmp_path,
        seed=2,
        rounds=2,
        longest=0.2,
        calls=3,
        dim=DIM,
        backwards=True,
    )
    outcome = anyio.run(run_rounds, plan)
    assert outcome.verdict.faults == 0, outcome.verdict.say()
    assert outcome.verdict.calls >= 2 * 4 * plan.calls


@pytest.fixture
def backwards(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("time.time_ns", lambda: 0)
    writer.turn_back_time()


@pytest.mark.usefixtures("backwards")
def test_order_is_the_order_of_the_calls(tmp_path):
    path, lane = tmp_path / "store", Lane("r.0", 1, DIM)

    async def session(number: int) -> None:
        async with open_at(path) as store:
            await store.add([Chunk(f"text {number}", f"c{number}"), Chunk(f"latest {number}", "latest")])
            await store.append_once("order", str(number), number)
            for _ in range(10):
                step = lane.plan()
                await perform(store, lane, step)
                lane.done(step)
            assert (await store.search(f"latest {number}", k=1))[0].chunk.id == "latest"

    async def check() -> None:
        async with open_at(path) as store:
            found = [c.id for c in (await store.scan(limit=1000)).chunks if c.id.startswith("c")]
            assert found == [f"c{n}" for n in range(6)], f"{6 - len(found)} of 6 lost"
            (latest,) = await store.get_by_ids(["latest"])
            assert latest.content == "latest 5"
            order = [record.value for record in (await store.scan_records("order")).records]
            assert order == list(range(6)), f"{6 - len(order)} of 6 records lost"
            mine = {
                place: item for place, item in (await read_all(store)).items() if place[1].startswith("r.")
            }
            assert mine == lane.items, f"{len(lane.items.keys() - mine.keys())} of {len(lane.items)} lost"

    for number in range(6):
        anyio.run(session, number)
        # The files seem to be older, or of the future.
        for file in path.rglob("*"):
            os.utime(file, (number * 1e9, (6 - number) * 1e9))
    anyio.run(check)


@pytest.mark.parametrize("when", [0, 4_000_000_000])
def test_an_index_of_another_time_is_judged_by_what_it_holds(tmp_path, when):
    path, count = tmp_path / "store", 11_000

    def chunk(n: int, word: str = "text") -> Chunk:
        return Chunk(f"{word} {n}", f"c{n}", vector=vector_of(f"{word} {n}", DIM))

    async def main() -> None:
        async with open_at(path) as store:
            await store.add([chunk(n) for n in range(count)])
            await store.search(vector_of("anything", DIM))
        async with open_at(path) as store:
            await store.add([chunk(n, "changed") for n in range(0, count, 1000)])
            await store.delete(["c7"])
        for file in path.rglob("*"):
            if file.parent != path:
                os.utime(file, (when, when))
        async with open_at(path) as store:
            for n in range(0, count, 1000):
                (hit,) = await store.search(vector_of(f"changed {n}", DIM), k=1)
                assert hit.chunk.content == f"changed {n}", f"the change of c{n} is lost"
            (hit,) = await store.search(vector_of("text 7", DIM), k=1)
            assert hit.chunk.id != "c7", "a deleted chunk is back"

    anyio.run(main)
