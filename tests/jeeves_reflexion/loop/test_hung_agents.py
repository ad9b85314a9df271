"""Sync agents that hang don't hold up the stores."""

from __future__ import annotations

import threading

import anyio
import pytest

from jeeves_reflexion import Task
from jeeves_reflexion.agents import as_agent
from jeeves_reflexion.session import Session
from vectorstores import Chunk, FaissVectorStore, HashingEmbedder


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
