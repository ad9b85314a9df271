"""Sync agents that hang hold up neither the stores nor, where that is asked for, the end of the process."""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest
from tables import table

from jeeves_reflexion import Evaluation, Reflection, Reflexion, Task
from jeeves_reflexion.agents import as_agent
from jeeves_reflexion.session import Session
from vectorstores import Chunk, FaissVectorStore, HashingEmbedder

ROOT = Path(__file__).parents[3]


@pytest.mark.anyio
@pytest.mark.timeout(120)
async def test_hung_agents_leave_the_stores_their_threads(tmp_path):
    goes_on, begun = threading.Event(), threading.Semaphore(0)

    def agent(prompt: str) -> str:
        begun.release()
        goes_on.wait()
        return prompt

    def all_begun() -> None:
        for _ in range(60):
            begun.acquire()

    try:
        async with (
            FaissVectorStore(tmp_path, embedder=HashingEmbedder(), namespace="test") as store,
            anyio.create_task_group() as group,
        ):
            for _ in range(60):
                group.start_soon(as_agent(agent), Task("x"), Session())
            await anyio.to_thread.run_sync(all_begun)
            await store.add([Chunk(f"text {n}") for n in range(50)])
            assert len(await store.search("text 7", k=3)) == 3
            assert await store.count() == 50
            group.cancel_scope.cancel()
    finally:
        goes_on.set()


HUNG = """
    import sys, threading, time
    import anyio
    from jeeves_reflexion import Evaluation, Reflection, Reflexion
    from jeeves_reflexion.agents import as_agent

    begun = threading.Event()

    def hung(prompt):
        print("begun", flush=True)
        begun.set()
        time.sleep(600)

    loop = Reflexion(
        as_agent(hung, daemon=True),
        evaluator=lambda task, attempt: Evaluation(1.0),
        reflector=lambda task, trials, problem=None: Reflection("Wait no longer."),
    )

    async def late():
        async with anyio.create_task_group() as group:
            group.start_soon(loop.run, "x")
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        print("returned", flush=True)

    if sys.argv[1] == "late":
        anyio.run(late, backend=sys.argv[2])
    else:
        loop.run_sync("x")
"""


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HUNG), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@table("backend", ["asyncio", "trio"])
def test_the_process_ends_without_a_daemon_that_hangs(backend):
    process = start("late", backend)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out.splitlines()[-1]) == (0, "returned"), err


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent otherwise there")
def test_one_interrupt_ends_run_sync():
    process = start("interrupted")
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode not in (0, -signal.SIGKILL)
    assert "KeyboardInterrupt" in err


@pytest.mark.anyio
async def test_a_daemon_returns_and_raises_as_another_thread_does():
    about = contextvars.ContextVar("about", default="nothing")
    about.set("the caller")
    session = Session()

    def nested(prompt: str) -> str:
        inner = Reflexion(
            lambda task: f"{prompt} of {about.get()}",
            evaluator=lambda task, attempt: Evaluation(1.0),
            reflector=lambda task, trials, problem=None: Reflection("Wait no longer."),
        )
        return inner.run_sync("inner").output

    assert (await as_agent(nested, daemon=True)(Task("word"), session)).output == "word of the caller"

    def failing(prompt: str) -> str:
        raise KeyError(prompt)

    with pytest.raises(KeyError, match="word"):
        await as_agent(failing, daemon=True)(Task("word"), session)
