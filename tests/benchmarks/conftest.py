"""What the tests of all benchmarks share: games that are made once, and a model behind an endpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import filelock
import pytest

from benchmarks.alfworld.games import Game
from benchmarks.alfworld.generator import generate_games
from benchmarks.alfworld.requirements import require_engine
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError

MADE = 7  # the fewest that have all six kinds


@pytest.fixture
def anyio_backend() -> str:
    """Benchmarks are commands, which run on asyncio; what they are made of has tests of its own on both."""
    return "asyncio"


@pytest.fixture(scope="session")
def engine() -> None:
    """Skip unless the engine can run here."""
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def made_folder(engine: None, folder_of_all_workers: Path) -> Path:
    """The folder of :func:`made_games`; only for reading."""
    return folder_of_all_workers / "made-games"


@pytest.fixture(scope="session")
def made_games(made_folder: Path) -> list[Game]:
    """Made games of all six kinds, in the order of their numbers."""

    async def make() -> list[Game]:
        return await generate_games(made_folder, count=MADE, seed=0)

    with filelock.FileLock(made_folder.with_suffix(".lock"), timeout=150):
        return anyio.run(make)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[str]]]:
    """A server that speaks the OpenAI chat protocol, and the systems prompts that it was asked with."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            system = body["messages"][0]["content"]
            asked.append(system)
            answer = {
                "choices": [
                    {"message": {"role": "assistant", "content": _said(system)}, "finish_reason": "stop"}
                ],
                "usage": {"prompt_tokens": 40, "completion_tokens": 10},
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()
        thread.join()


def _said(system: str) -> str:
    if "You write lessons" in system or "who learns from failed tests" in system:
        return f"Read the question once more, for the {len(system)}th time."
    if "Python functions" in system:
        return "```python\ndef add1(x):\n    return x + 1\n```"
    return "Action: Finish[Bram Holt]"
