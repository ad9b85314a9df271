"""What the tests of workflows share."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jeeves_reflexion.sandbox import Ran


@pytest.fixture
def example() -> str:
    """The complete example of the contract, as printed."""
    return (Path(__file__).parents[3] / "examples" / "workflow_profile" / "profile.yaml").read_text(
        encoding="utf-8"
    )


# Without the extra 'workflows' there is nothing to test here.
if any(importlib.util.find_spec(name) is None for name in ("jinja2", "jsonschema", "yaml")):
    collect_ignore_glob = ["test_*.py"]


class HereRunner:
    """Stands in for the sandbox where isolation is not what is tested; keeps what it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(
        self,
        code: str,
        *,
        language: str = "python",
        inputs: Mapping[str, Any] | None = None,
        result: str = "result",
    ) -> Ran:
        self.ran.append(code)
        from jeeves_reflexion.workflows.steps import run_here

        return Ran(await run_here(code, inputs or {}), "", "", 0.0)


@pytest.fixture
def here() -> HereRunner:
    return HereRunner()


@dataclass
class Endpoint:
    """An OpenAI-compatible endpoint on loopback that gives its replies in turn, the last one for ever."""

    replies: list[str]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint(["{}"])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served.asked.append(body)
            text = served.replies.pop(0) if len(served.replies) > 1 else served.replies[0]
            answer = {
                "model": body["model"],
                "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 40, "completion_tokens": 10},
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        served.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield served
        http.shutdown()
        thread.join()
