"""A real HTTP server on this machine that speaks the protocol of /chat/completions, well or badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Canned:
    """One answer: its status, its body, and how it is sent."""

    body: bytes | str | dict[str, Any] = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0  # how many bytes less than announced are sent before the connection closes
    hang: bool = False
    pieces: int = 0  # sent in chunks of so many bytes, and with the last one missing where it is cut


def completion(text: object = "fine", **message: object) -> dict[str, Any]:
    usage = message.pop("usage", {"prompt_tokens": 12, "completion_tokens": 3})
    finish = message.pop("finish_reason", "stop")
    body = {
        "model": "served-model",
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}],
        "usage": usage,
    }
    return {key: value for key, value in body.items() if value is not None}


class Endpoint:
    """Gives its answers in order, the last one again and again, or asks a function; keeps requests."""

    def __init__(self) -> None:
        self.answers: list[Canned] = []
        self.respond: Callable[[dict[str, Any]], Canned] | None = None
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.connections: set[tuple[str, int]] = set()
        self.open = 0
        self.hanging = threading.Event()
        self.released = threading.Event()
        self._lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                endpoint.count(1)

            def finish(self) -> None:
                super().finish()
                endpoint.count(-1)

            def do_POST(self) -> None:
                endpoint.handle(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 64
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def gives(self, *answers: Canned | dict[str, Any]) -> None:
        """Begin anew, with these answers."""
        for kept in (self.requests, self.headers, self.paths):
            kept.clear()
        self.respond = None
        self.answers = [each if isinstance(each, Canned) else Canned(each) for each in answers]

    def count(self, change: int) -> None:
        with self._lock:
            self.open += change

    def wait_until_closed(self, seconds: float = 3.0) -> bool:
        """Wait until no client holds a connection; False if one still does."""
        deadline = time.monotonic() + seconds
        while self.open and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.open == 0

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        request = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.headers.append(
                {key.lower(): ", ".join(handler.headers.get_all(key)) for key in handler.headers}
            )
            self.paths.append(handler.path)
            self.connections.add(handler.client_address)
        canned = self.respond(request) if self.respond else self.answers[min(number, len(self.answers) - 1)]
        if canned.hang and not canned.pieces:
            self.hanging.set()
            self.released.wait(20)
            handler.close_connection = True
            return
        body = json.dumps(canned.body) if isinstance(canned.body, dict) else canned.body
        data = body.encode() if isinstance(body, str) else body
        handler.send_response(canned.status)
        for key, value in {"content-type": "application/json", **canned.headers}.items():
            handler.send_header(key, value)
        if canned.pieces:
            self._chunked(handler, data, canned)
            return
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) - canned.cut])
        if canned.cut:
            handler.close_connection = True

    def _chunked(self, handler: BaseHTTPRequestHandler, data: bytes, canned: Canned) -> None:
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for at in range(0, len(data), canned.pieces):
            piece = data[at : at + canned.pieces]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if canned.hang:
            self.released.wait(20)
        handler.close_connection = True
        if not canned.cut:
            handler.wfile.write(b"0\r\n\r\n")

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    serving = Endpoint()
    yield serving
    serving.close()


@pytest.fixture
def canned() -> type[Canned]:
    return Canned


@pytest.fixture
def completed() -> Callable[..., dict[str, Any]]:
    return completion
