"""Tools of an MCP server, made with the official package: in this process, as a command, and over HTTP."""

import logging
import os
import shlex
import subprocess
import sys

import pytest
from tables import table

from jeeves_reflexion import ReAct, Reflexion, ScriptedModel, mcp_tools
from jeeves_reflexion.errors import ConfigurationError, ToolError
from jeeves_reflexion.protocols import Completion, ToolCall

mcp = pytest.importorskip("mcp")
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SERVER = """
import os, socket, sys
import anyio, uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("test", log_level="CRITICAL")

@server.tool()
def greet(name: str) -> str:
    "Greet somebody."
    return f"hello {name}, {os.environ.get('SECRET_OF_OURS', 'no secret')}"

@server.tool()
async def hang() -> str:
    await anyio.sleep_forever()

@server.tool()
def die() -> str:
    os._exit(3)

if sys.argv[1:] == ["http"]:
    heard = socket.create_server(("127.0.0.1", 0))
    print(heard.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[heard])
else:
    server.run("stdio")
"""


@pytest.fixture
def command(tmp_path):
    path = tmp_path / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return [sys.executable, str(path)]


def calling(name, arguments="{}"):
    return Completion("", tool_calls=(ToolCall("1", name, arguments),))


async def test_a_command_gives_tools_and_one_that_hangs_or_dies_is_told_to_the_model(command, monkeypatch):
    monkeypatch.setenv("SECRET_OF_OURS", "sesame")
    greeting = calling("t_greet", '{"name": "Ada"}')
    model = ScriptedModel(
        [greeting, calling("t_hang"), calling("t_die"), greeting, "done"], supports_tools=True
    )
    with pytest.raises(LookupError, match="mine"):  # noqa: PT012 - as itself, and in no group
        async with mcp_tools(shlex.join(command), prefix="t_", timeout=60) as tools:
            assert [tool.usage for tool in tools] == ["t_greet(name: string)", "t_hang()", "t_die()"]
            hanging = [
                tool if tool.name != "t_hang" else type(tool)(tool.spec, tool.function, timeout=0.2)
                for tool in tools
            ]
            loop = Reflexion(ReAct(model, hanging), evaluator=lambda output: output == "done", model=model)
            result = await loop.run("Say hello.")
            raise LookupError("mine")
    seen = [(step.observation, step.failed) for step in result.trials[0].attempt.steps]
    assert seen == [
        ("hello Ada, no secret", False),
        ("Error: t_hang gave no result within 0.2 seconds", True),
        ("Error: MCPError: Connection closed", True),
        ("Error: MCPError: Connection closed", True),
    ]
    assert result.passed


async def test_a_server_over_http_that_dies_ends_no_run(command, caplog):
    with subprocess.Popen([*command, "http"], stdout=subprocess.PIPE, text=True) as server:  # noqa: ASYNC220
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"
        try:
            async with mcp_tools(url) as (greet, _, die):
                assert await greet.call('{"name": "Ada"}') == "hello Ada, no secret"
                for _ in range(2):
                    with pytest.raises(ToolError, match="Connection closed"):
                        await die.call("{}")
        finally:
            server.kill()
    told = [record.getMessage() for record in caplog.records if record.name == "jeeves_reflexion"]
    assert len(told) == 1
    assert told[0].startswith(f"the MCP server {url} is gone: ")


async def test_names_results_and_errors(caplog):
    caplog.set_level(logging.CRITICAL)  # what the package itself says
    from mcp.server.mcpserver import Image, MCPServer

    server = MCPServer("test", log_level="CRITICAL")
    long = "x" * 70
    said = {
        "plain": lambda: "words",
        "a.b": lambda: {"n": [1, None]},
        "a/b": lambda: [Image(data=b"1234", format="png"), "and a caption"],
        long: lambda: "w" * 1000,
        f"{long}y": lambda: 1 / 0,
    }
    for name, function in said.items():
        server.add_tool(function, name=name, description=f"It\u202e says {name}.", structured_output=False)

    @server.tool(annotations=mcp.types.ToolAnnotations(read_only_hint=True))
    def bare() -> mcp.types.CallToolResult:
        return mcp.types.CallToolResult(content=[], structured_content={"n": 1})

    async with mcp_tools(server, max_tokens=50) as tools:
        by_name = {tool.name: tool for tool in tools}
        assert list(by_name) == ["plain", "a_b", "a_b_2", "x" * 64, "x" * 60 + "_2", "bare"]
        assert [tool.alone for tool in tools] == [True] * 5 + [False]
        assert by_name["plain"].spec.description == "It says plain."
        assert await by_name["plain"].call("{}") == "words"
        assert await by_name["a_b_2"].call("") == "[image, image/png, 4 bytes, not shown]\nand a caption"
        assert await by_name["bare"].call("") == '{"n":1}'
        assert "characters cut" in await by_name["x" * 64].call("{}")
        with pytest.raises(ToolError, match="Error executing tool"):
            await by_name["x" * 60 + "_2"].call("{}")
        with pytest.raises(ToolError, match="must be one JSON object"):
            await by_name["plain"].call("[]")
        with pytest.raises(ConfigurationError, match=r"two tools have one name.*prefix="):
            ReAct(ScriptedModel([]), [*tools, *tools])


@table(
    ("server", "why"),
    [
        ("no-such-command --at all", "No such file"),
        (f"{shlex.quote(sys.executable)} -c pass", "Connection closed"),
        ("http://127.0.0.1:9/mcp", "ConnectError"),
        (" ", "name a command or an address"),
        ("python 'server.py", "No closing quotation"),
        (
            mcp.StdioServerParameters(command="no-such", env={"KEY": "hush"}),
            "the MCP server StdioServerParameters can",
        ),
    ],
)
async def test_without_a_server_it_says_why(server, why):
    with pytest.raises(ConfigurationError, match=why):
        async with mcp_tools(server):
            pass


async def test_a_server_that_does_not_answer_is_given_up():
    silent = shlex.join([sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(ConfigurationError, match=r"no answer within 0\.5 seconds"):
        async with mcp_tools(silent, timeout=0.5):
            pass


def test_the_command_takes_the_tools_of_a_server(command, tmp_path):
    from chat_server import chat_server
    from click.testing import CliRunner

    from jeeves_reflexion.cli.program import program

    asked = []

    def reply(body):
        asked.append(body)
        return "score: 1.0" if body["messages"][0]["content"].startswith("You judge") else "hello"

    with chat_server(reply) as url:
        done = CliRunner().invoke(
            program,
            [
                "run",
                "Greet.",
                "--model",
                "m",
                "--base-url",
                url,
                "--no-lessons",
                "--mcp",
                shlex.join(command),
            ],
            env={"HOME": os.fspath(tmp_path)},
        )
    assert (done.exit_code, done.stdout) == (0, "hello\n"), done.output
    assert [tool["function"]["name"] for tool in asked[0]["tools"]] == ["greet", "hang", "die"]
