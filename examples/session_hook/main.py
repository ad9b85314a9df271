"""A hook for a coding agent: prints the lessons for a session, recalled through a running server.

    jeeves-reflexion serve mcp --lessons ~/lessons --http 127.0.0.1:8765
    LESSONS_TOKEN=jr_... python main.py "Move the table users"

Claude Code passes a JSON object to its hooks and adds their output to the session. In .claude/settings.json:

    {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "python main.py"}]}]}}

A session without lessons is better than none: if the server can't be reached, the hook says so and exits with 0.
"""

import json
import os
import sys
from pathlib import Path

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def task_of(argument: str, event: dict[str, object]) -> str:
    """Return the task of the session: from the command line, the user's prompt, or the project's name."""
    prompt, folder = event.get("prompt"), event.get("cwd")
    return argument or str(prompt or f"Work on the project {Path(str(folder or '.')).resolve().name}")


async def begin(task: str) -> str:
    """The server's own prompt for a task, with its lessons and how to report the outcome."""
    url = os.environ.get("LESSONS_URL", "http://127.0.0.1:8765/mcp")
    headers = {"authorization": f"Bearer {os.environ['LESSONS_TOKEN']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=5) as carrier,
        Client(streamable_http_client(url, http_client=carrier)) as client,
    ):
        prompt = await client.get_prompt("begin_task", {"task": task[:20_000]})
        return "\n".join(message.content.text for message in prompt.messages)


def main() -> None:
    """Print what the server says for the session that begins."""
    argument = " ".join(sys.argv[1:])
    event = {} if argument or sys.stdin.isatty() else json.loads(sys.stdin.read() or "{}")
    try:
        print(anyio.run(begin, task_of(argument, event)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the session goes on
        print(f"no lessons for this session: {error!r}", file=sys.stderr)


main()
