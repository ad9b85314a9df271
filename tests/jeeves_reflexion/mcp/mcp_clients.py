"""The server over both transports, and the official client."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from jeeves_reflexion import open_lessons
from jeeves_reflexion.cli.listener import listen, server_of, url_of
from jeeves_reflexion.mcp import http
from jeeves_reflexion.mcp.tokens import RIGHTS, Tokens
from vectorstores import HashingEmbedder

COMMAND = "from jeeves_reflexion.cli import main; main()"
TASK = "Move the table users to the new schema"
ADVICE = "Rename the column before you copy the rows."


def lessons_at(address: Any, namespace: str = "default"):
    return open_lessons(address, namespace=namespace, embedder=HashingEmbedder())


def stdio(address: Any, *options: str) -> StdioServerParameters:
    """How a client starts the command."""
    given = ["serve", "mcp", "--lessons", str(address), *options]
    env = {name: os.environ[name] for name in ("PYTHONPATH", "HF_HUB_OFFLINE") if name in os.environ}
    return StdioServerParameters(command=sys.executable, args=["-c", COMMAND, *given], env=env)


class Server:
    """A server over HTTP, and clients with tokens for it."""

    def __init__(self, url: str, tokens: Tokens) -> None:
        self.url = url
        self.tokens = tokens

    async def token(
        self, name: str = "ada", namespaces: tuple[str, ...] = ("default",), rights=RIGHTS
    ) -> str:
        return await self.tokens.make(name, namespaces, rights)

    @asynccontextmanager
    async def client(self, token: str, mode: str = "auto") -> AsyncIterator[Client]:
        headers = {"authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as carrier,
            Client(streamable_http_client(self.url, http_client=carrier), mode=mode) as client,
        ):
            yield client

    async def post(self, token: str = "", *, text: str = "", **headers: str) -> httpx2.Response:
        """Send one request as it is, with a text of no meaning."""
        given = {"accept": "application/json, text/event-stream", **headers}
        if token:
            given["authorization"] = f"Bearer {token}"
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"text": text}}
        async with httpx2.AsyncClient(timeout=60) as carrier:
            return await carrier.post(self.url, json=asked, headers=given)


@asynccontextmanager
async def served(lessons, **door: Any) -> AsyncIterator[Server]:
    listening = listen("127.0.0.1", 0)
    tokens = Tokens(lessons.store)
    server = server_of(http.http_app(lessons, tokens, **door))
    url = url_of(listening) + http.PATH
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listening])
        try:
            yield Server(url, tokens)
        finally:
            server.should_exit = True


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool, and return its structured content, or raise what it says."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(result.content[0].text)
    return result.structured_content
