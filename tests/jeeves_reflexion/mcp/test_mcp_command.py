"""``jeeves-reflexion serve mcp`` and ``jeeves-reflexion tokens``."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner
from mcp_clients import ADVICE, COMMAND, TASK, Server, call, lessons_at

from jeeves_reflexion.cli.program import program


def tokens(folder, *arguments):
    return CliRunner().invoke(program, ["tokens", *arguments, "--lessons", str(folder)])


def hooked(url, token):
    """Run the example of a hook, as a coding agent does, and return what it prints and what it says."""
    hook = Path(__file__).parents[3] / "examples" / "session_hook" / "main.py"
    done = subprocess.run(
        [sys.executable, str(hook)],
        input=json.dumps({"hook_event_name": "UserPromptSubmit", "cwd": "/", "prompt": TASK}),
        env={**os.environ, "LESSONS_URL": url, "LESSONS_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    async def fill() -> None:
        async with lessons_at(tmp_path / "lessons") as lessons:
            await lessons.add(ADVICE, TASK)

    anyio.run(fill)
    return tmp_path / "lessons"


def test_a_token_is_made_listed_and_revoked(folder):
    made = tokens(folder, "make", "ada", "--for", "team", "--for", "default", "--right", "read")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("jr_ada.")
    assert tokens(folder, "make", "ada").exit_code == 3, "a name is one client's"
    assert tokens(folder, "make", "not a name").exit_code == 3
    for namespace in (".tokens", "", " ", "a\nb"):
        assert tokens(folder, "make", "eve", "--for", namespace).exit_code == 3, namespace
    (listed,) = json.loads(tokens(folder, "list", "--json").stdout)["tokens"]
    assert (listed["name"], listed["namespaces"], listed["rights"]) == ("ada", ["team", "default"], ["read"])
    assert set(listed) == {"name", "namespaces", "rights", "created_at"}
    assert tokens(folder, "revoke", "ada").exit_code == 0
    assert tokens(folder, "revoke", "ada").exit_code == 5
    assert json.loads(tokens(folder, "list", "--json").stdout)["tokens"] == []


def test_the_command_serves_over_http_until_it_is_interrupted(folder):
    token = tokens(folder, "make", "ada").stdout.strip()
    given = ["serve", "mcp", "--lessons", str(folder), "--http", "127.0.0.1:0"]

    async def recall(url: str) -> str:
        async with Server(url, None).client(token) as client:
            return (await call(client, "recall_lessons", task=TASK))["lessons"][0]["lesson"]

    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *given], stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            url = server.stderr.readline().split()[-1]
            assert anyio.run(recall, url) == ADVICE
            assert ADVICE in hooked(url, token)[0]
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(60) == 130
        said, told = hooked(url, token)
        assert (said, "no lessons for this session" in told) == ("", True)
        assert "Traceback" not in server.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--lessons", "nowhere"), 3, "no lesson store"),
        (("--http", "here"), 3, "HOST:PORT"),
        (("--http", "[]:0"), 3, "HOST:PORT"),
        (("--http", "127.0.0.1:0", "--review"), 2, "a token's rights decide"),
        (("--http", "127.0.0.1:0", "--namespace", "team"), 2, "a token names the namespaces"),
        (("--allow-host", "here"), 2, "need --http"),
    ],
)
def test_what_can_not_be_served_is_told(folder, monkeypatch, arguments, code, why):
    monkeypatch.setenv("JEEVES_LESSONS", str(folder))
    told = CliRunner().invoke(program, ["serve", "mcp", *arguments])
    assert (told.exit_code, why in told.output) == (code, True), told.output


def test_each_configuration_of_the_page_can_be_read_and_starts_the_command():
    page = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    blocks += [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    servers = [
        value["lessons"] for block in blocks for key, value in block.items() if "server" in key.lower()
    ]
    assert len(servers) == 6
    for server in servers:
        assert ("command" in server) != (server.get("url") == "http://127.0.0.1:8765/mcp")
        for argument in filter(lambda each: each.startswith("--"), server.get("args", ())):
            told = CliRunner().invoke(program, ["serve", "mcp", "--help"])
            assert argument in told.output
