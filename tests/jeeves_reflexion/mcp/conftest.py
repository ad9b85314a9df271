"""A client over each transport."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from mcp import Client
from mcp_clients import ADVICE, TASK, lessons_at, served, stdio


@pytest.fixture(params=["stdio", "http"])
async def client(request, tmp_path) -> AsyncIterator[Client]:
    """A client that may do everything in the namespace ``default`` of a folder with one lesson."""
    async with AsyncExitStack() as stack:
        lessons = await stack.enter_async_context(lessons_at(tmp_path / "lessons"))
        await lessons.add(ADVICE, TASK, by="grace")
        if request.param == "stdio":
            made = Client(stdio(tmp_path / "lessons", "--review"))
        else:
            server = await stack.enter_async_context(served(lessons))
            made = server.client(await server.token())
        yield await stack.enter_async_context(made)
