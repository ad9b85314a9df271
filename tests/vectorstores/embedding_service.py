"""A real HTTP server on this machine that speaks the protocol of /embeddings, well or badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio

from vectorstores import HashingEmbedder

DIM = 32


@dataclass
class Reply:
    """One answer, other than the right one."""

    body: bytes | dict[str, Any] = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


def right(request: dict[str, Any]) -> dict[str, Any]:
    """Answer as a service should, the last text first: the index alone says what belongs to what."""
    rows = anyio.run(HashingEmbedder(request.get("dimensions", DIM)).embed, request["input"])
    data: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        data.append({"index": index, "embedding": row.tolist()})
    return {"object": "list", "data": data[::-1]}


class Service:
    """Notes what it is asked; ``respond`` may return something else than the right answer."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.respond: Callable[[dict[str, Any], int], Reply | None] = lambda request, number: None
        self.delay = 0.0
        self.at_once = self.most_at_once = self.connections = 0
        self._lock = threading.Lock()
        self._released = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                service._count(connections=1)

            def finish(self) -> None:
                super().finish()
                service._count(connections=-1)

            def do_POST(self) -> None:
                service._handle(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 64
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[list[str]]:
        return [request["input"] for request in self.requests]

    def _count(self, *, at_once: int = 0, connections: int = 0) -> None:
        with self._lock:
            self.at_once += at_once
            self.connections += connections
            self.most_at_once = max(self.most_at_once, self.at_once)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        request = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self._lock:
            number = len(self.requests)
            self.requests.append({**request, "path": handler.path})
            self.headers.append({key.lower(): value for key, value in handler.headers.items()})
        self._count(at_once=1)
        try:
            time.sleep(self.delay)
            reply = self.respond(request, number) or Reply(right(request))
        finally:
            self._count(at_once=-1)
        if reply.hang:
            self._released.wait(20)
            handler.close_connection = True
            return
        data = json.dumps(reply.body).encode() if isinstance(reply.body, dict) else reply.body
        handler.send_response(reply.status)
        for key, value in {"content-type": "application/json", **reply.headers}.items():
            handler.send_header(key, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:-5] if reply.cut else data)
        handler.close_connection = handler.close_connection or reply.cut

    def wait_until_closed(self, seconds: float = 3.0) -> bool:
        """Wait until no client holds a connection; False if one still does."""
        deadline = time.monotonic() + seconds
        while self.connections and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.connections == 0

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
