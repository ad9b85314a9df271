"""What one process records, another that has the store open is told of, and recalls."""

import sys
from contextlib import aclosing

import anyio
import pytest

from jeeves_reflexion import Task, open_lessons
from vectorstores import HashingEmbedder

pytestmark = pytest.mark.anyio

RECORDER = """
import sys, anyio
from jeeves_reflexion import open_lessons
from vectorstores import HashingEmbedder

async def main():
    async with open_lessons(sys.argv[1], embedder=HashingEmbedder()) as lessons:
        await lessons.add("Read the units before adding the numbers.", "Add two lengths")

anyio.run(main)
"""


@pytest.mark.parametrize("kind", ["folder", "postgres"])
async def test_another_process_learns_and_this_one_recalls(kind, tmp_path, request):
    address = str(tmp_path / "lessons") if kind == "folder" else request.getfixturevalue("postgres_database")
    task = Task("Add two lengths")
    async with open_lessons(address, embedder=HashingEmbedder()) as lessons:
        assert not (await lessons.recall(task, k=1)).offered
        async with aclosing(lessons.changes()) as changes:
            await anext(changes)
            process = await anyio.open_process([sys.executable, "-c", RECORDER, address])
            with anyio.fail_after(120):
                while not (await lessons.explain(task, k=1)).offered:
                    await anext(changes)
                assert await process.wait() == 0
        (found,) = (await lessons.recall(task, k=1)).offered
        assert found.lesson.text == "Read the units before adding the numbers."
