"""The tools of an MCP server as tools for a model. Needs the official package ``mcp`` (the extra ``mcp``)."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import pydantic_core
from anyio.abc import TaskStatus

from jeeves_reflexion.agents.tools import Tool
from jeeves_reflexion.errors import (
    ConfigurationError,
    MissingDependencyError,
    ToolError,
    described,
    first_of,
)
from jeeves_reflexion.protocols import ToolSpec
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import logger
from jeeves_reflexion.text import cut_middle, visible

if TYPE_CHECKING:
    import mcp

_LONGEST_NAME: Final = 64
_DESCRIPTION: Final = 500  # tokens of a server's description of a tool


@asynccontextmanager
async def mcp_tools(
    server: Any,  # noqa: ANN401 - whatever the package's client takes
    *,
    prefix: str = "",
    timeout: float = 60.0,
    max_tokens: int = 2000,
) -> AsyncIterator[list[Tool]]:
    """Connect to an MCP server and give its tools, until the block ends::

        async with mcp_tools("python -m my_server") as tools:
            agent = ReAct(model, tools=tools)

    ``server`` is an address of streamable HTTP (``http://...``), a command that speaks MCP on its standard streams, or
    whatever ``mcp.Client`` takes, such as ``StdioServerParameters`` with an environment. A command inherits only
    variables such as ``PATH`` and ``HOME``. ``prefix`` is put before each name, for servers whose names clash;
    characters that models refuse in a name become ``_``. ``timeout`` is in seconds, for the connection and for each
    call; results are cut to ``max_tokens``.

    A tool that the server does not call read-only is ``alone``. The server checks the arguments. The model is told of
    its errors, and of a lost connection: the tools remain and fail from then on. Images and sounds are named but not
    shown. A server's descriptions of its tools become part of prompts, so connect only to servers that you trust.
    Raises :class:`ConfigurationError` if the server can't be used, and :class:`MissingDependencyError`.
    """
    client = _client(server, timeout)
    # Anything but a text may hold the environment of a command, with keys in it.
    leave, shown = anyio.Event(), redact(server) if isinstance(server, str) else type(server).__name__

    # A task of its own, because a transport that breaks cancels what runs within its block: here, a run of the loop.
    async def stay_connected(*, task_status: TaskStatus[list[Tool] | Exception]) -> None:
        connected = False
        try:
            async with client:
                task_status.started(await _tools(client, prefix, timeout, max_tokens))
                connected = True
                await leave.wait()
        except Exception as error:  # noqa: BLE001 - raised below, or shown to the model by later calls
            if connected:
                logger.warning("the MCP server %s is gone: %s", shown, redact(described(first_of(error))))
            else:
                task_status.started(error)

    found: list[Tool] | Exception = TimeoutError(f"no answer within {timeout:g} seconds")
    outside: BaseException | None = None
    async with anyio.create_task_group() as group:
        with anyio.move_on_after(timeout):
            found = await group.start(stay_connected)
        if not isinstance(found, Exception):
            try:
                yield found
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001 - raised below, as itself and in no group
                outside = error
        leave.set()
    if isinstance(found, Exception):
        problem = first_of(found)
        raise ConfigurationError(
            f"the MCP server {shown} can't be used: {redact(described(problem))}"
        ) from problem
    if outside is not None:
        raise outside


def _client(server: Any, timeout: float) -> mcp.Client:  # noqa: ANN401 - as above
    try:
        import mcp  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingDependencyError("mcp_tools", "mcp") from error
    if not timeout > 0:
        raise ConfigurationError(f"mcp_tools: timeout must be above 0 seconds, not {timeout}")
    if isinstance(server, str) and not re.match(r"(?i)https?://", server):
        try:
            words = shlex.split(server)
        except ValueError as error:
            raise ConfigurationError(f"mcp_tools: the command can't be read: {error}") from error
        if not words:
            raise ConfigurationError("mcp_tools: name a command or an address, not an empty text")
        server = mcp.StdioServerParameters(command=words[0], args=words[1:])
    return mcp.Client(server)


async def _tools(client: mcp.Client, prefix: str, timeout: float, max_tokens: int) -> list[Tool]:
    found: dict[str, Tool] = {}
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            # A name that models accept, with a number if another tool of the server has it.
            clean = re.sub(r"[^A-Za-z0-9_-]", "_", f"{prefix}{tool.name}")
            shorter = (f"{clean[: _LONGEST_NAME - 4]}_{number}" for number in itertools.count(2))
            names = itertools.chain([clean[:_LONGEST_NAME]], shorter)
            name = next(name for name in names if name not in found)
            description = cut_middle(visible(tool.description or tool.title or ""), _DESCRIPTION)
            parameters = {"type": "object", "properties": {}, **tool.input_schema}
            found[name] = Tool(
                ToolSpec(name, description, parameters),
                functools.partial(_call, client, tool.name),
                timeout=timeout,
                max_tokens=max_tokens,
                alone=not (tool.annotations and tool.annotations.read_only_hint),
            )
        cursor = page.next_cursor
        if not cursor:
            return list(found.values())


async def _call(client: mcp.Client, name: str, values: dict[str, Any]) -> str:
    result = await client.call_tool(name, values)
    text = "\n".join(map(_shown, result.content))
    if result.is_error:
        raise ToolError(text or "the tool failed, and does not say why")
    if result.structured_content is not None and not any(each.type == "text" for each in result.content):
        data = pydantic_core.to_json(result.structured_content).decode()
        text = f"{data}\n{text}".strip()
    return text


def _shown(content: Any) -> str:  # noqa: ANN401 - one of the package's five kinds
    """Return a part of a result as text."""
    match content.type:
        case "text":
            return str(content.text)
        case "resource_link":
            return f"[resource {content.name}: {content.uri}]"
        case "resource" if (text := getattr(content.resource, "text", None)) is not None:
            return f"[resource {content.resource.uri}]\n{text}"
        case "resource":
            kind, data = content.resource.mime_type or "of unknown kind", content.resource.blob
        case _:
            kind, data = content.mime_type, content.data
    size = len(data) * 3 // 4 - data[-2:].count("=")  # of the data that base64 encodes
    return f"[{content.type}, {kind}, {size} bytes, not shown]"
