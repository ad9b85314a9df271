"""Processes that write are killed at any moment: nothing acknowledged is lost, nothing is there by half."""

import itertools
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from creators import kill_one_of_two_creators, verdict_on

from benchmarks.faults.lane import Lane, vector_of
from benchmarks.faults.rounds import Plan, run_rounds
from benchmarks.faults.verify import Journals, Verdict, read_all
from benchmarks.faults.writer import Journal, perform, run_lane
from vectorstores import Chunk, HashingEmbedder, Store, open_store

DIM = 16
SEED = 3


def open_at(path: Path) -> Store:
    return open_store(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def test_rounds_of_kill_9_lose_nothing(tmp_path):
    """Two in a new store and two in a large one, one in each way; ``python -m benchmarks.faults`` makes hundreds."""
    plan = Plan(
        lambda number: (str(tmp_path / f"store{number}"), "test"),
        tmp_path,
        seed=9,
        rounds=4,
        per_store=2,
        preload=6_000,
        longest=0.2,
        calls=12,
        dim=DIM,
    )
    outcome = anyio.run(run_rounds, plan)
    assert outcome.verdict.faults == 0, f"{outcome.killed} processes killed: {outcome.verdict.say()}"
    assert outcome.killed == 16
    assert outcome.verdict.calls >= 3 * 4 * plan.calls, "in all rounds but the early one"


def test_one_of_two_that_create_the_store_is_killed(tmp_path):
    places = [str(tmp_path / f"store{number}") for number in range(8)]
    verdict = kill_one_of_two_creators(places, tmp_path, seed=SEED, dim=DIM, longest=0.08, patience=20)
    assert verdict.faults == 0, verdict.say()
    assert verdict.calls >= 24


BATCH = """
    import sys, anyio, numpy as np
    from vectorstores import Chunk, HashingEmbedder, RecordWrite, open_store

    async def main(path, name):
        vectors = np.random.default_rng(1).standard_normal((15_000, 16)).astype(np.float32)
        chunks = [Chunk("text " * 20, id=f"{name}-{n}", vector=v) for n, v in enumerate(vectors)]
        async with open_store(path, embedder=HashingEmbedder(dim=16), namespace="test") as store:
            await store.count()
            print("begin", flush=True)
            await store.add(chunks, records=[RecordWrite("batches", name, len(chunks))])
            print("done", flush=True)

    anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2])
def test_who_dies_in_the_middle_of_a_write_holds_up_nobody(tmp_path, start, delay):
    path = tmp_path / "store"
    writer = start(BATCH, path, "big")

    async def main() -> int:
        async with open_at(path) as store:
            await store.add([Chunk("before", id="before", vector=vector_of("before", DIM))])
            assert writer.stdout.readline() == "begin\n"
            killer = threading.Timer(delay, writer.kill)
            killer.start()
            for n in itertools.count():
                if not killer.is_alive():
                    break
                name = f"during {n}"
                await store.add([Chunk(name, id=name, vector=vector_of(name, DIM))])
            with anyio.fail_after(60):
                await store.add([Chunk("after", id="after", vector=vector_of("after", DIM))])
            big = len(await store.get_by_ids([f"big-{n}" for n in range(15_000)]))
            records = await store.get("batches", "big")
            assert (records is None) == (big == 0), f"{15_000 - big} of 15,000 chunks lost, and {records}"
            assert [c.id for c in await store.get_by_ids(["before", "after"])] == ["before", "after"]
            return big

    big = anyio.run(main)
    assert big in (0, 15_000), f"{15_000 - big} of a batch of 15,000 chunks lost"
    assert big == 15_000 or writer.stdout.read() == "", "15,000 acknowledged chunks lost"


async def write_some(path: Path, scratch: Path) -> Journals:
    journal = scratch / "journal"
    async with open_at(path) as store:
        await run_lane(store, Lane("r.0", SEED, DIM), DIM, Journal(journal), steps=60)
    journals = Journals()
    journals.read(journal)
    return journals


async def lose_a_chunk(store: Store, ids: list[str]) -> None:
    await store.delete([ids[-1]])


async def bring_one_back(store: Store, ids: list[str]) -> None:
    await store.add([Chunk("gone", "r.0/99", vector=vector_of("gone", DIM))])


async def change_metadata(store: Store, ids: list[str]) -> None:
    (kept,) = await store.get_by_ids(ids[:1], vectors=True)
    await store.add([replace(kept, metadata={**kept.metadata, "step": -1})])


async def move_a_vector(store: Store, ids: list[str]) -> None:
    (chunk,) = await store.get_by_ids(ids[-1:])
    await store.add([Chunk(chunk.content, chunk.id, chunk.metadata, vector=vector_of("elsewhere", DIM))])


async def lose_a_record(store: Store, ids: list[str]) -> None:
    (first, *_) = (await store.scan_records("ledger")).records
    await store.delete_records("ledger", [first.key])


async def lose_a_count(store: Store, ids: list[str]) -> None:
    await store.delete_records("counter", ["r"])


@pytest.mark.parametrize(
    ("sabotage", "lost", "torn", "wrong"),
    [
        (None, 0, 0, 0),
        (lose_a_chunk, 1, 0, 0),
        (bring_one_back, 1, 0, 0),
        (change_metadata, 1, 0, 0),
        (move_a_vector, 0, 0, 1),
        (lose_a_record, 1, 0, 0),
        (lose_a_count, 1, 0, 0),
    ],
)
def test_the_harness_sees_what_it_looks_for(tmp_path, sabotage, lost, torn, wrong):
    async def main() -> Verdict:
        path = tmp_path / "store"
        journals = await write_some(path, tmp_path)
        async with open_at(path) as store:
            ids = [key for collection, key in await read_all(store) if not collection]
            if sabotage:
                await sabotage(store, ids)
        return await verdict_on(path, journals, SEED, DIM)

    verdict = anyio.run(main)
    assert verdict.calls == 60
    assert (verdict.lost, verdict.torn, verdict.wrong) == (lost, torn, wrong), verdict.say()


@pytest.mark.parametrize("whole", [True, False])
def test_the_harness_tells_a_whole_call_from_a_torn_one(tmp_path, whole):
    async def main() -> Verdict:
        lane, results = Lane("r.0", SEED, DIM), []
        async with open_at(tmp_path / "store") as store:
            while not (len((step := lane.plan()).chunks) > 1 and step.records):
                results.append((step.kind, await perform(store, lane, step)))
                lane.done(step)
            # This batch is not acknowledged any more; without its record it is half of a call.
            await store.add(step.chunks, records=step.records if whole else ())
        return await verdict_on(tmp_path / "store", Journals({"r.0": results}), SEED, DIM)

    verdict = anyio.run(main)
    assert (verdict.lost, verdict.torn, verdict.wrong) == (0, 0 if whole else 1, 0), verdict.say()
    assert verdict.kept == whole
