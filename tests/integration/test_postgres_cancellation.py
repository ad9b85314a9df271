"""Calls of PostgreSQL that their callers give up: the statement ends, the connection stays, others keep their speed."""

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable

import anyio
import pytest

from benchmarks.faults.lane import vector_of
from vectorstores import StoreUnavailableError

psycopg = pytest.importorskip("psycopg")
from postgres_parts import DIM, Proxy, chunk, store_at  # noqa: E402

from vectorstores.postgres import pool  # noqa: E402

SEED = 7
SESSIONS = (
    "SELECT pid, state, wait_event_type FROM pg_stat_activity WHERE application_name = 'vectorstores'"
    " AND datname = current_database()"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["anyio", "cancel"])
def give_up(request: pytest.FixtureRequest) -> Callable[[Awaitable[object], asyncio.Event], Awaitable[None]]:
    """Make a call, and give it up when an event is set: anyio's way, or asyncio's, as its time limits do too."""

    async def by_anyio(call: Awaitable[object], now: asyncio.Event) -> None:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await now.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel)
            await call
            pytest.fail("the call was not given up")

    async def by_cancel(call: Awaitable[object], now: asyncio.Event) -> None:
        task = asyncio.ensure_future(call)
        await now.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    return {"anyio": by_anyio, "cancel": by_cancel}[request.param]


@pytest.mark.anyio
async def test_a_call_that_is_given_up_ends_its_statement_and_keeps_the_connection(
    postgres_database, give_up
):
    vector = vector_of("x", DIM)
    async with (
        store_at(postgres_database, pool_size=1) as store,
        await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as watcher,
    ):
        await store.add([chunk("before")])
        ((pid, *_),) = await (await watcher.execute(SESSIONS)).fetchall()
        calls = (
            store.count,
            lambda: store.search(vector),
            lambda: store.add([chunk("one")]),
            lambda: store.add([chunk(f"many {n}") for n in range(40)]),
            lambda: store.delete(["before"]),
            lambda: store.append_once("r", "k", 1),
        )
        for number, call in enumerate(calls):
            async with await psycopg.AsyncConnection.connect(postgres_database) as holder:
                await holder.execute(
                    "LOCK TABLE vectorstores.chunks, vectorstores.records IN ACCESS EXCLUSIVE MODE"
                )
                now = asyncio.Event()

                async def when_it_waits(now: asyncio.Event = now) -> None:
                    while (await (await watcher.execute(SESSIONS)).fetchone())[2] != "Lock":  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                    now.set()

                watching = asyncio.create_task(when_it_waits())
                with anyio.fail_after(60):
                    await give_up(call(), now)
                await watching
                # The lock is still held: the statement that waits for it ends all the same.
                with anyio.fail_after(60):
                    while (await (await watcher.execute(SESSIONS)).fetchone())[1] != "idle":  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                await holder.rollback()
            assert await store.count() == 1, f"call {number} was made after all"
            assert [row[0] for row in await (await watcher.execute(SESSIONS)).fetchall()] == [pid]
        assert (await store.get_by_ids(["before"]))[0].metadata == {}
        assert await store.get("r", "k") is None


class DeafTask(asyncio.Task):
    """A task whose cancellation is lost, as asyncio.wait_for() may lose one before Python 3.12."""

    def cancel(self, msg: object = None) -> bool:
        return False


@pytest.mark.anyio
async def test_a_write_that_ends_after_its_caller_gave_up_is_rolled_back(
    postgres_database, give_up, monkeypatch
):
    async with (
        store_at(postgres_database, pool_size=1) as store,
        await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as watcher,
        await psycopg.AsyncConnection.connect(postgres_database) as holder,
    ):
        assert await store.count() == 0
        before = await (await watcher.execute(SESSIONS)).fetchall()
        await holder.execute("LOCK TABLE vectorstores.records IN ACCESS EXCLUSIVE MODE")
        now = asyncio.Event()

        async def when_it_waits() -> None:
            while (await (await watcher.execute(SESSIONS)).fetchone())[2] != "Lock":  # noqa: ASYNC110
                await anyio.sleep(0.01)
            now.set()

        watching = asyncio.create_task(when_it_waits())
        with monkeypatch.context() as patch, anyio.fail_after(60):
            patch.setattr(pool, "in_background", DeafTask)
            await give_up(store.append_once("r", "k", 1), now)
        await watching
        await holder.rollback()
        with anyio.fail_after(60):
            assert await store.get("r", "k") is None
        after = await (await watcher.execute(SESSIONS)).fetchall()
        assert [row[0] for row in after] == [row[0] for row in before]


@pytest.mark.anyio
async def test_a_connection_whose_caller_gave_up_while_it_was_made_serves_the_next(
    postgres_database, give_up
):
    async with Proxy(postgres_database) as proxy, store_at(proxy.dsn, pool_size=1) as store:

        async def give_up_while_connecting() -> None:
            proxy.passing.clear()
            before, now = proxy.accepted, asyncio.Event()

            async def watch() -> None:
                while proxy.accepted == before:  # noqa: ASYNC110 - the proxy's
                    await anyio.sleep(0.01)
                now.set()

            watching = asyncio.create_task(watch())
            with anyio.fail_after(60):
                await give_up(store.append_once("r", "given up", 1), now)
                await watching
            proxy.passing.set()

        await give_up_while_connecting()
        assert await store.count() == 0
        assert proxy.accepted == 2, "to open the store, and for the pool: neither was made again"
        async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as other:
            await other.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM ({SESSIONS}) AS sessions")
        await give_up_while_connecting()
        assert await store.append_once("r", "k", 1)
        assert proxy.accepted == 3, "the connection on its way was made again"
        assert await store.get("r", "given up") is None


@pytest.mark.anyio
async def test_calls_given_up_at_any_moment_keep_their_connections_and_disturb_nobody(
    postgres_database, give_up
):
    chance = random.Random(SEED)
    async with store_at(postgres_database, pool_size=2) as store:
        ids = [f"c{n}" for n in range(20)]
        await store.add([chunk(id) for id in ids])

        async def call(n: int) -> None:
            now = asyncio.Event()
            asyncio.get_running_loop().call_later(chance.random() * 0.02, now.set)

            async def endlessly() -> None:
                while True:
                    await store.append_once("r", str(n), n) if n % 2 else await store.get_by_ids(ids)

            await give_up(endlessly(), now)

        async def bystander() -> None:
            # What is cancelled is the statement of who gave up, never the next one of its connection.
            for _ in range(100):
                assert len(await store.get_by_ids(ids)) == len(ids)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bystander)
            for n in range(100):
                await call(n)
        assert len(await store.get_by_ids(ids)) == len(ids)


@pytest.mark.anyio
async def test_a_call_in_a_scope_that_is_cancelled_already_leaves_nothing_behind(postgres_database):
    async with store_at(postgres_database, pool_size=1) as store:
        for _ in range(2):
            for call in (store.count, lambda: store.append_once("r", "k", 1)):
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await call()
                assert scope.cancelled_caught
            assert await store.get("r", "k") is None
        # Nothing waits to be told by the garbage collector that it was never awaited.
        gc.collect()


@pytest.mark.anyio
async def test_a_statement_that_somebody_cancels_is_not_said_to_take_too_long(postgres_database):
    async with (
        store_at(postgres_database) as store,
        store_at(postgres_database, statement_timeout=0.2) as short,
        await psycopg.AsyncConnection.connect(postgres_database) as holder,
        await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as other,
    ):
        await store.add([chunk("one")])
        await short.count()
        await holder.execute("LOCK TABLE vectorstores.chunks IN ACCESS EXCLUSIVE MODE")
        waiting = asyncio.create_task(store.count())
        cancelled = 0
        while not cancelled:
            await anyio.sleep(0.01)
            cursor = await other.execute(
                f"SELECT count(pg_cancel_backend(pid)) FROM ({SESSIONS}) AS s WHERE wait_event_type = 'Lock'"
            )
            cancelled = (await cursor.fetchone())[0]
        with pytest.raises(StoreUnavailableError, match=r"cancelled at the server.*user request") as caught:
            await waiting
        assert "too long" not in str(caught.value)
        with pytest.raises(StoreUnavailableError, match=r"took too long.*statement timeout"):
            await short.count()
        await holder.rollback()
        assert await store.count() == 1
