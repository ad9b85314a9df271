"""Writes of many tasks that share a batch: what each of them gets, whoever is cancelled, ends or fails."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from offline import printed_by

from vectorstores import StoreClosedError, StoreUnavailableError
from vectorstores.sqlite_faiss import writer
from vectorstores.sqlite_faiss.writer import Writer

pytestmark = pytest.mark.anyio
PATIENCE = 10


class Doubling:
    """A database whose writes double numbers, refuse negative ones, and wait while it is held.

    A number in a batch that fails is worked on once more, alone.
    """

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.begun = threading.Event()
        self.free = threading.Event()
        self.free.set()

    def write(self, work: Callable[[list[int]], None]) -> None:
        batch: list[int] = []
        self.batches.append(batch)
        self.threads.add(threading.get_ident())
        self.begun.set()
        assert self.free.wait(PATIENCE)
        work(batch)


def double(number: int, batch: list[int]) -> int:
    batch.append(number)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return 2 * number


class Together:
    """Doubles numbers through a writer."""

    def __init__(self, work: Doubling) -> None:
        self.writer = Writer(work)

    async def __call__(self, number: int) -> int:
        return await self.writer(partial(double, number))

    def close(self) -> None:
        self.writer.close()


@pytest.fixture
def work():
    return Doubling()


@pytest.fixture
def together(work):
    made = Together(work)
    yield made
    work.free.set()
    made.close()


async def all_of(together, numbers) -> dict[int, object]:
    found: dict[int, object] = {}

    async def one(number: int) -> None:
        try:
            found[number] = await together(number)
        except ValueError as error:
            found[number] = str(error)

    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(one, number)
    return found


async def until_begun(work) -> None:
    with anyio.fail_after(PATIENCE):
        while not work.begun.is_set():  # noqa: ASYNC110 - another thread sets it
            await anyio.sleep(0.001)


async def test_each_task_gets_the_outcome_of_its_own_item(together):
    numbers = [*range(-5, 600)]
    found = await all_of(together, numbers)
    assert found == {n: f"{n} is negative" if n < 0 else 2 * n for n in numbers}


async def test_tasks_that_wait_share_batches_of_a_bounded_size(together, work, monkeypatch):
    monkeypatch.setattr(writer, "_AT_ONCE", 16)
    work.free.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(together, 0)
        await until_begun(work)
        for number in range(1, 41):
            tasks.start_soon(together, number)
        await anyio.wait_all_tasks_blocked()
        work.free.set()
    assert [len(batch) for batch in work.batches] == [1, 16, 16, 8]
    assert sorted(item for batch in work.batches for item in batch) == [*range(41)]


async def test_a_failure_of_the_work_itself_reaches_all_and_the_next_batch_is_worked_on(
    together, work, monkeypatch
):
    def failing(given: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(work, "write", failing)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await together(1)
    assert await together(1) == 2


async def test_a_task_that_is_cancelled_before_hands_nothing_over(together, work):
    with anyio.CancelScope() as scope:
        scope.cancel()
        await together(1)
    assert scope.cancelled_caught
    assert await together(2) == 4
    assert work.batches == [[2]]


async def test_a_cancelled_task_goes_on_when_its_item_is_done_and_holds_up_no_other(together, work):
    work.free.clear()
    went_on: list[bool] = []
    others: list[int] = []

    async def cancelled() -> None:
        try:
            await together(1)
        finally:
            went_on.append(work.free.is_set())

    async def other() -> None:
        others.append(await together(2))

    async with anyio.create_task_group() as outer:
        outer.start_soon(other)
        async with anyio.create_task_group() as inner:
            inner.start_soon(cancelled)
            await until_begun(work)
            inner.cancel_scope.cancel()
            threading.Timer(0.05, work.free.set).start()
    assert (went_on, others, [sorted(batch) for batch in work.batches]) == ([True], [4], [[1, 2]])


def test_a_task_cancelled_by_asyncio_itself_spoils_nothing_for_those_of_its_batch(together, work):
    async def main() -> None:
        work.free.clear()
        tasks = [asyncio.create_task(together(n)) for n in range(3)]
        await until_begun(work)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        work.free.set()
        assert await asyncio.gather(*tasks[1:]) == [2, 4]
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]

    asyncio.run(main())
    assert work.batches == [[0, 1, 2]]


def test_loops_in_several_threads_share_one_thread_of_work(work):
    together = Together(work)
    found: dict[int, dict[int, object]] = {}

    def run(number: int, backend: str) -> None:
        mine = range(1000 * number, 1000 * number + 300)
        found[number] = anyio.run(all_of, together, mine, backend=backend)

    threads = [
        threading.Thread(target=run, args=(number, ("asyncio", "trio")[number % 2])) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    together.close()
    assert found == {n: {m: 2 * m for m in range(1000 * n, 1000 * n + 300)} for n in range(4)}
    assert len(work.threads) == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_loops_that_follow_each_other_in_a_thread(work, backend):
    together = Together(work)
    for number in range(5):
        assert anyio.run(together, number, backend=backend) == 2 * number
    together.close()


def test_a_loop_that_ends_while_its_items_are_worked_on(work):
    together = Together(work)
    work.free.clear()
    loop = asyncio.new_event_loop()
    task = loop.create_task(together(1))
    while not work.begun.is_set():
        loop.run_until_complete(asyncio.sleep(0.001))
    # Nobody waits for the task: as when a loop is closed in a hurry.
    task._log_destroy_pending = False
    loop.close()
    work.free.set()
    assert anyio.run(together, 2) == 4
    assert work.batches == [[1], [2]]
    together.close()


async def test_closing_ends_the_thread_after_what_was_handed_over(together, work):
    before = set(threading.enumerate())
    work.free.clear()
    found: list[int] = []

    async def one(number: int) -> None:
        found.append(await together(number))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, 1)
        await until_begun(work)
        tasks.start_soon(one, 2)
        await anyio.sleep(0.01)
        threading.Timer(0.05, work.free.set).start()
        await anyio.to_thread.run_sync(together.close)
    assert sorted(found) == [2, 4]
    fresh = set(threading.enumerate()) - before
    assert not [thread for thread in fresh if thread.name.startswith("vectorstores-writes")]
    with pytest.raises(StoreClosedError):
        await together(3)


async def test_no_thread_to_be_had_is_an_error_of_this_package(together, monkeypatch):
    def refuse(thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StoreUnavailableError, match="can't start new thread"):
            await together(1)
    assert await together(1) == 2


def test_a_program_that_does_not_close_ends_all_the_same(tmp_path):
    started = time.monotonic()
    said = printed_by(
        """
        import sys, anyio
        from vectorstores import Chunk, FaissVectorStore, HashingEmbedder

        async def main():
            store = FaissVectorStore(sys.argv[1], embedder=HashingEmbedder(dim=32), namespace="test")
            await store.add([Chunk("mug")])
            print(await store.count())

        anyio.run(main)
        """,
        tmp_path / "store",
    )
    assert said.strip() == "1"
    assert time.monotonic() - started < PATIENCE


async def test_a_write_that_was_carried_out_alone_is_answered_whatever_ends_the_next(together, work):
    class EndOfThread(BaseException):
        pass

    def end_alone(batch: list[int]) -> None:
        if not batch:
            raise EndOfThread

    answers: dict[str, object] = {}

    async def ask(name: str, item: Callable[[list[int]], object]) -> None:
        try:
            answers[name] = await together.writer(item)
        except (ValueError, EndOfThread) as error:
            answers[name] = type(error)

    work.free.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "first", partial(double, 1))
        await until_begun(work)
        # These share a batch, which fails as a whole, and are then carried out one by one.
        for name, item in (("good", partial(double, 2)), ("ends", end_alone), ("bad", partial(double, -3))):
            tasks.start_soon(ask, name, item)
            await anyio.sleep(0.01)
        work.free.set()
    assert answers == {"first": 2, "good": 4, "ends": EndOfThread, "bad": ValueError}
