"""``python -m benchmarks.sharing``: what it takes to share lessons through MCP, and how soon another process has one.

``delay``: another process records lessons; how long after each was stored this one is told, and recalls it. ``trip``:
``recall_lessons`` over stdio and HTTP beside the store's own recall, in turn. ``crowd``: clients that are held at once
over HTTP, each recalling, and the server's memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TextIO, cast

import anyio
import click
import httpx2
import numpy as np
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from benchmarks.report import figure_text, machine, table
from benchmarks.timing import Here, differences, in_turn, median
from jeeves_reflexion import Task, VectorLessonStore, open_lessons
from jeeves_reflexion.mcp.tokens import Tokens
from vectorstores import HashingEmbedder

_LESSONS: Final = 1_000
_COMMAND: Final = (sys.executable, "-m", "jeeves_reflexion", "serve", "mcp", "--lessons")
_WRITER: Final = """
import random, sys, time, anyio
from jeeves_reflexion import open_lessons
from vectorstores import HashingEmbedder

async def main():
    async with open_lessons(sys.argv[1], embedder=HashingEmbedder()) as lessons:
        for number in range(int(sys.argv[2])):
            sys.stdin.readline()
            await anyio.sleep(random.uniform(0, 0.3))  # at any time between two looks of the other process
            await lessons.add(f"Open drawer {number} of the late desk first.", f"Look into late drawer {number}")
            print(time.monotonic(), flush=True)

anyio.run(main)
"""


def _lessons_at(address: str) -> VectorLessonStore:
    return open_lessons(address, embedder=HashingEmbedder())


def _milliseconds(seconds: Sequence[float]) -> list[str]:
    return [f"{1000 * each:.1f}" for each in (*np.percentile(seconds, [50, 99]), max(seconds))]


async def delay(address: str, number: int) -> list[list[str]]:
    """Return the lines of one store: from the end of another process's write to the notice, and to the recall."""
    told, recalled = list[float](), list[float]()
    command = [sys.executable, "-c", _WRITER, address, str(number)]
    async with _lessons_at(address) as lessons, await anyio.open_process(command, stderr=None) as writer:
        asked, answers = cast("ByteSendStream", writer.stdin), cast("ByteReceiveStream", writer.stdout)
        async with aclosing(lessons.changes()) as changes:
            await anext(changes)
            for each in range(number):
                task = Task(f"Look into late drawer {each}")
                await anyio.sleep(
                    np.random.default_rng(each).uniform(0, 0.3)
                )  # at any time between two looks
                await asked.send(b"\n")
                while True:
                    await anext(changes)
                    noticed = time.monotonic()
                    found = (await lessons.explain(task, k=1)).offered
                    if found and f"drawer {each} " in found[0].lesson.text:
                        break
                recalling = time.monotonic()
                stored = float(await answers.receive())
                # Told before the writer knew of it itself is told at once.
                told.append(max(noticed - stored, 0.0))
                recalled.append(max(recalling - stored, 0.0))
    return [["told", *_milliseconds(told)], ["recalled", *_milliseconds(recalled)]]


@asynccontextmanager
async def _server(address: str) -> AsyncIterator[tuple[str, int]]:
    """A server over HTTP in a process of its own: its address, and its id."""
    command = [*_COMMAND, address, "--http", "127.0.0.1:0", "--rate", "1000000000"]
    process = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    )
    try:
        said = cast("TextIO", process.stderr)
        yield (await anyio.to_thread.run_sync(said.readline)).split()[-1], process.pid
    finally:
        process.terminate()
        await anyio.to_thread.run_sync(process.communicate)


@asynccontextmanager
async def _http_client(url: str, token: str) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as carrier,
        Client(streamable_http_client(url, http_client=carrier)) as client,
    ):
        yield client


async def _recall(client: Client, number: int) -> None:
    result = await client.call_tool("recall_lessons", {"task": f"Look into drawer {number}"})
    if result.is_error or not (result.structured_content or {})["lessons"]:
        raise RuntimeError(f"nothing was recalled: {result}")


async def trip(address: str, repetitions: int, calls: int) -> list[list[str]]:
    """Return a line for the store's own recall, and one for each transport with what it adds."""
    async with AsyncExitStack() as stack:
        lessons = await stack.enter_async_context(_lessons_at(address))
        token = await Tokens(lessons.store).make("trip", ["default"], ["read"])
        url, _ = await stack.enter_async_context(_server(address))
        over_http = await stack.enter_async_context(_http_client(url, token))
        command, *given = _COMMAND
        started = StdioServerParameters(command=command, args=[*given, address], env=dict(os.environ))
        over_stdio = await stack.enter_async_context(Client(started))

        async def own(number: int) -> None:
            await lessons.recall(Task(f"Look into drawer {number}"), k=3)

        sides: dict[str, Any] = {
            "the store's own": Here(own),
            "stdio": Here(lambda number: _recall(over_stdio, number)),
            "HTTP": Here(lambda number: _recall(over_http, number)),
        }
        taken = await in_turn(sides, repetitions=repetitions, calls=calls)
    base = taken["the store's own"]
    return [
        [
            name,
            figure_text(median(each), scale=1000),
            "-" if each is base else figure_text(differences(each, base), scale=1000, sign=True),
            f"{1000 * min(each):.2f}",
        ]
        for name, each in taken.items()
    ]


async def crowd(address: str, clients: int, calls: int) -> list[str]:
    """Return clients, calls a second, the 50th and 99th percentile and longest of a call, the server's MB before and
    with them.
    """
    seconds = list[float]()
    async with _lessons_at(address) as lessons:
        token = await Tokens(lessons.store).make(f"crowd{clients}", ["default"], ["read"])
    async with _server(address) as (url, pid):
        async with _http_client(url, token) as first:
            await _recall(first, 0)
        before = _megabytes(pid)
        ready, go = anyio.Semaphore(0), anyio.Event()

        async def work(client_number: int) -> None:
            async with _http_client(url, token) as client:
                ready.release()
                await go.wait()
                for number in range(calls):
                    started = time.perf_counter()
                    await _recall(client, client_number * calls + number)
                    seconds.append(time.perf_counter() - started)

        async with anyio.create_task_group() as tasks:
            for client_number in range(clients):
                tasks.start_soon(work, client_number)
            for _ in range(clients):
                await ready.acquire()
            began = time.perf_counter()
            go.set()
        took = time.perf_counter() - began
        held = _megabytes(pid)
    return [
        str(clients),
        f"{clients * calls / took:.0f}",
        *_milliseconds(seconds),
        f"{before:.0f}",
        f"{held:.0f}",
    ]


def _megabytes(pid: int) -> float:
    """The most memory that a process has had, of Linux."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


async def _filled(address: str) -> None:
    async with _lessons_at(address) as lessons:
        for number in range(_LESSONS - await lessons.count()):
            await lessons.add(f"Open drawer {number} of the desk first.", f"Look into drawer {number}")


async def _measured(
    address: str, parts: Sequence[str], number: int, repetitions: int, clients: int, calls: int
) -> list[str]:
    await _filled(address)
    said = []
    if "trip" in parts:
        heads = ("recall of 3", "ms (95 %)", "added, ms (95 %)", "quickest turn, ms")
        said.append(table(heads, await trip(address, repetitions, calls)))
    if "crowd" in parts:
        of_crowd = ("clients", "recalls/s", "p50, ms", "p99, ms", "longest, ms", "MB with 1", "MB with all")
        said.append(table(of_crowd, [await crowd(address, clients, calls)]))
    if "delay" in parts:
        said.append(
            table(("another's lesson is", "p50, ms", "p99, ms", "longest, ms"), await delay(address, number))
        )
    return said


@click.command()
@click.option("--part", "parts", multiple=True, default=("trip", "crowd", "delay"), show_default=True)
@click.option("--store", "stores", multiple=True, default=("folder", "postgresql"), show_default=True)
@click.option("--number", default=200, show_default=True, help="Lessons of another process.")
@click.option("--repetitions", default=15, show_default=True, help="How often the transports take turns.")
@click.option("--clients", default=50, show_default=True, help="Clients held at once.")
@click.option("--calls", default=20, show_default=True, help="Recalls of each in a turn.")
def main(
    parts: tuple[str, ...], stores: tuple[str, ...], number: int, repetitions: int, clients: int, calls: int
) -> None:
    """Print what sharing lessons takes, in a folder and in PostgreSQL (embedded)."""
    click.echo(f"{machine()}; {_LESSONS} lessons, found by a hash of words\n")
    for store in stores:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            Path(folder).chmod(0o711)  # under root, PostgreSQL runs as another account
            address = folder if store == "folder" else f"postgresql+embedded://{folder}/server"
            said = anyio.run(_measured, address, parts, number, repetitions, clients, calls)
            click.echo(f"{store}\n\n" + "\n\n".join(said) + "\n")


if __name__ == "__main__":
    main()
