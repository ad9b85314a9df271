"""A chat server on this machine, and the command, in this process and as a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from jeeves_reflexion import Provenance, Reflection, Task, open_lessons
from jeeves_reflexion.cli.program import program
from vectorstores import HashingEmbedder

COMMAND = [sys.executable, "-c", "from jeeves_reflexion.cli import main; main()"]


@dataclass
class ChatServer:
    """Speaks the OpenAI chat protocol. Each role gives its replies in turn, the last one for ever.

    A reply is a text, an ``(status, content type, body)`` to answer as it is, or ``None`` to never answer. All texts
    have one embedding.
    """

    answers: list[Any] = field(default_factory=lambda: ["Paris"])
    verdicts: list[Any] = field(default_factory=lambda: ["score: 1.0"])
    lessons: list[Any] = field(default_factory=lambda: ["Name the capital, not the country."])
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    hanging: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def reply(self, body: dict[str, Any]) -> Any:
        if "input" in body:
            found = [
                {"index": place, "embedding": [1.0, 0.0, 0.0, 0.0]} for place in range(len(body["input"]))
            ]
            return 200, "application/json", json.dumps({"data": found})
        self.asked.append(body)
        system = body["messages"][0]["content"]
        judging, reflecting = system.startswith("You judge"), system.startswith("You write lessons")
        replies = self.verdicts if judging else self.lessons if reflecting else self.answers
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def prompts(self) -> str:
        return json.dumps([body["messages"] for body in self.asked])


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.keys.append(self.headers.get("authorization"))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            reply = server.reply(body)
            if reply is None:
                server.hanging.set()
                server.released.wait(30)
                self.close_connection = True
                return
            status, kind, data = (
                reply if isinstance(reply, tuple) else (200, "application/json", _chat(reply))
            )
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data.encode())))
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _chat(text: str) -> str:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 40, "completion_tokens": 10}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    chat = ChatServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(chat)) as http:
        chat.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield chat
        chat.released.set()
        http.shutdown()
        thread.join()


@pytest.fixture
def dead_url() -> str:
    """An address of this machine at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The default place of lessons in these tests; nothing is there yet."""
    return tmp_path / "lessons"


@pytest.fixture(autouse=True)
def _environment(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "NO_COLOR",
        "FORCE_COLOR",
        "COLUMNS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JEEVES_LESSONS", str(place))
    # Waits between retries are not what is tested here.
    monkeypatch.setattr("vectorstores.json_http.Waits.before", lambda *_: 0.0)


class Cli:
    """Calls the command in this process; unexpected exceptions are raised."""

    def __call__(self, *arguments: str | os.PathLike[str], stdin: str | None = None) -> Result:
        result = CliRunner().invoke(program, [os.fspath(a) for a in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def count(self, *arguments: str) -> int:
        """Return how many lessons there are."""
        number: int = json.loads(self("lessons", "list", "--json", *arguments).stdout)["count"]
        return number


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture
def run(cli: Cli, server: ChatServer) -> Callable[..., Result]:
    """Call ``run`` with the server's model and, for a new store, the embedder without a model."""

    def call(task: str, *options: str, stdin: str | None = None) -> Result:
        given = ["--model", "tiny", "--base-url", server.url]
        if "--embedder" not in options:
            given += ["--embedder", "hashing"]
        return cli("run", task, *given, *options, stdin=stdin)

    return call


Process = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def process() -> Iterator[Process]:
    """Start the command as a process."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str | os.PathLike[str], **options: Any) -> subprocess.Popen[str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        started.append(subprocess.Popen([*COMMAND, *arguments], text=True, **streams))
        return started[-1]

    yield start
    for each in started:
        if each.poll() is None:
            each.kill()
        for stream in (each.stdout, each.stderr):
            if stream is not None:
                stream.close()
        each.wait()


Fill = Callable[..., list[str]]


@pytest.fixture
def fill(place: Path) -> Fill:
    """Store lessons, given as task and sentence, and return their ids."""

    def store(
        pairs: Sequence[tuple[str, str]], *, namespace: str = "default", dim: int = 512, folder: Path = place
    ) -> list[str]:
        async def record() -> list[str]:
            ids = []
            async with open_lessons(folder, namespace=namespace, embedder=HashingEmbedder(dim)) as lessons:
                for number, (task, sentence) in enumerate(pairs, 1):
                    source = Provenance("run-1", number, 0.25, "tiny", "react", created_at=1.7e9 + number)
                    lesson = await lessons.record(Task(task), Reflection(sentence), provenance=source)
                    ids.append(lesson.id)
            return ids

        return anyio.run(record)

    return store
