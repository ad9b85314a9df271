"""Two thousand tasks on one store, and very large lessons: nothing is lost, nothing grows without bound."""

import itertools
import statistics
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from benchmarks.faults.lane import vector_of
from vectorstores import Chunk, HashingEmbedder, RecordWrite, Store, open_store

pytestmark = pytest.mark.anyio
DIM = 16
TASKS = 2_000
EACH = 4
"""One of so many tasks searches, which takes some six times as long as what the others do, adding."""
CANCELLED = 1500
TICK = 0.005


def open_at(path: Path) -> Store:
    return open_store(path, embedder=HashingEmbedder(dim=DIM), namespace="test")


def chunk(n: int) -> Chunk:
    return Chunk(f"lesson {n}", f"c{n}", {"n": n}, vector=vector_of(f"lesson {n}", DIM))


def resident_megabytes() -> float:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc to measure memory")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@dataclass
class Watch:
    """What a ticker saw: how long the event loop's thread was at work between two ticks, which what else the machine
    does leaves as it is; the most threads, and the most memory over the start."""

    work: list[float] = field(default_factory=list)
    threads: int = 0
    megabytes: float = 0.0


@asynccontextmanager
async def watching() -> AsyncIterator[Watch]:
    watch, start = Watch(), resident_megabytes()

    async def tick() -> None:
        for n in itertools.count():
            worked = time.thread_time()
            await anyio.sleep(TICK)
            watch.work.append(time.thread_time() - worked)
            watch.threads = max(watch.threads, threading.active_count())
            if n % 10 == 0:
                watch.megabytes = max(watch.megabytes, resident_megabytes() - start)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield watch
        tasks.cancel_scope.cancel()


async def crowd(work: Callable[[int], object]) -> Watch:
    async with watching() as watch, anyio.create_task_group() as tasks:
        for n in range(TASKS):
            tasks.start_soon(work, n)
    return watch


async def test_two_thousand_tasks_that_add_and_search(tmp_path):
    async with open_at(tmp_path / "store") as store:
        await store.add([chunk(n) for n in range(0, TASKS, EACH)])
        wrong: list[str] = []

        async def work(n: int) -> None:
            if n % EACH:
                await store.add([chunk(n)], records=[RecordWrite("added", str(n), n)])
            else:
                hits = await store.search(vector_of(f"lesson {n}", DIM), k=1)
                if [hit.chunk.id for hit in hits] != [f"c{n}"]:
                    wrong.append(f"c{n}: {hits}")

        watch = await crowd(work)
        assert not wrong, f"{len(wrong)} searches went wrong: {wrong[0]}"
        found = await store.get_by_ids([f"c{n}" for n in range(TASKS)])
        assert len(found) == TASKS, f"{TASKS - len(found)} acknowledged chunks lost"
        records = await store.scan_records("added", limit=TASKS)
        added = TASKS - TASKS // EACH
        assert len(records.records) == added, f"{added - len(records.records)} records lost"
        assert await store.count() == TASKS
    # anyio runs 40 threads at most; the store may have a few of its own.
    assert watch.threads <= 40 + 8, f"{watch.threads} threads"
    assert watch.megabytes < 300, f"{watch.megabytes:.0f} MB more than before"
    held = statistics.median(watch.work)
    assert held < 0.1, f"the event loop was at work for {held * 1000:.0f} ms before every other tick"


async def test_tasks_that_are_cancelled_leave_whole_calls(tmp_path):
    async with open_at(tmp_path / "store") as store:
        begun: set[str] = set()
        acknowledged: set[str] = set()

        async def work(task: int) -> None:
            for n in itertools.count():
                name = f"{task}-{n}"
                begun.add(name)
                pair = [Chunk(name, f"{name}{part}", vector=vector_of(f"{name}{part}", DIM)) for part in "ab"]
                await store.add(pair, records=[RecordWrite("added", name, n)])
                acknowledged.add(name)
                if len(acknowledged) == CANCELLED:
                    tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for task in range(300):
                tasks.start_soon(work, task)
        assert len(begun) > len(acknowledged)
        found = {c.id for c in await store.get_by_ids([f"{name}{part}" for name in begun for part in "ab"])}
        records = {r.key for r in (await store.scan_records("added", limit=2 * len(begun))).records}
        whole = {name for name in begun if {f"{name}a", f"{name}b"} <= found}
        assert not acknowledged - whole, f"{len(acknowledged - whole)} acknowledged calls lost"
        assert len(found) == 2 * len(whole) == await store.count(), (
            f"{len(found) - 2 * len(whole)} calls torn"
        )
        assert records == whole, f"{len(records ^ whole)} calls torn"


async def test_lessons_of_a_megabyte(tmp_path):
    size = 1_000_000
    texts = [f"{word} " * (size // (len(word) + 1)) for word in ("cupboard", "Ünïcödé", "棚", "🗄")]
    async with open_at(tmp_path / "store") as store:
        await store.add([chunk(n) for n in range(20)])
        async with watching() as watch:
            await store.add(
                [Chunk(text, f"big{n}", {"same": text}) for n, text in enumerate(texts)]
                + [Chunk("short", "short", embed_text=texts[0], vector=None)],
                records=[RecordWrite("big", "big", texts)],
            )
            for n, text in enumerate(texts):
                hits = await store.search(text, k=2)
                assert any(hit.chunk.content == text and hit.score > 0.999 for hit in hits), (
                    f"text {n} is lost"
                )
    async with open_at(tmp_path / "store") as store:
        found = await store.get_by_ids([f"big{n}" for n in range(len(texts))])
        lost = [
            n for n, text in enumerate(texts) if found[n].content != text or found[n].metadata["same"] != text
        ]
        assert not lost, f"{len(lost)} of {len(texts)} lost"
        record = await store.get("big", "big")
        assert record is not None
        assert record.value == texts
        assert await store.count(filter={"same": texts[1]}) == 1
        assert (await store.search(chunk(7).vector, k=1))[0].chunk.id == "c7"
    # Checking what comes in is done on the loop, a megabyte in some 10 ms.
    assert max(watch.work) < 0.5, f"the event loop was at work for {max(watch.work) * 1000:.0f} ms"
