"""``python -m benchmarks.first_token``: the delay of the first token that a model adds over raw httpx.

A server in a thread sends a stream of fifty tokens at once, over a connection that is kept. Both sides take turns, and
time what passes until the first token is there: raw httpx until it has read the event, a model until a listener of the
run hears it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import anyio
import click
import httpx

from benchmarks.report import figure_text, machine
from benchmarks.timing import Figure, differences, in_turn, median
from jeeves_reflexion import Message, OpenAIModel, Session
from jeeves_reflexion.events import Event, TextStreamed

_TOKENS: Final = 50
_ASKED: Final = [Message("user", "Say hello.")]


def _events() -> Iterator[str]:
    for number in range(_TOKENS):
        choice = {"index": 0, "delta": {"content": f"word{number} "}, "finish_reason": None}
        yield json.dumps({"model": "m", "choices": [choice]})
    yield json.dumps({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield "[DONE]"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else 40 ms are those of TCP
    answer = "".join(f"data: {event}\n\n" for event in _events()).encode()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        """Say nothing."""


@contextmanager
def _server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


class FirstToken:
    """A side whose call returns when its first token was there."""

    def __init__(self, call: Callable[[], Awaitable[float]]) -> None:
        self._call = call

    async def burst(self, calls: Sequence[int]) -> Sequence[float]:
        """Return the seconds until each call's first token."""
        taken = []
        for _ in calls:
            started = time.perf_counter()
            taken.append(await self._call() - started)
        return taken


async def measure(repetitions: int, calls: int) -> tuple[Figure, Figure, Figure]:
    """Return the delay of raw httpx, that of a model, and the difference of neighbours in time, in seconds."""
    with _server() as base:
        async with httpx.AsyncClient() as client, OpenAIModel("m", base_url=base, stream=True) as model:

            async def raw() -> float:
                body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Say hello."}]}
                first = 0.0
                async with client.stream("POST", f"{base}/chat/completions", json=body) as response:
                    async for line in response.aiter_lines():
                        if not first and line.startswith("data: ") and json.loads(line[6:])["choices"]:
                            first = time.perf_counter()
                return first

            async def ours() -> float:
                heard: list[float] = []

                def listen(event: Event) -> None:
                    if isinstance(event, TextStreamed) and not heard:
                        heard.append(time.perf_counter())

                session = Session(listener=listen)
                with session.acting_as("agent"):
                    await model.complete(_ASKED)
                return heard[0]

            sides = {"raw": FirstToken(raw), "ours": FirstToken(ours)}
            taken = await in_turn(sides, repetitions=repetitions, calls=calls)
    return median(taken["raw"]), median(taken["ours"]), differences(taken["ours"], taken["raw"])


@click.command()
@click.option("--repetitions", type=click.IntRange(min=2), default=40, show_default=True)
@click.option("--calls", type=click.IntRange(min=1), default=50, show_default=True, help="Of a repetition.")
def main(repetitions: int, calls: int) -> None:
    """Measure and print."""
    raw, ours, added = (figure_text(each, 3, scale=1e3) for each in anyio.run(measure, repetitions, calls))
    click.echo(
        f"First token, ms, median with a 95 % interval, {repetitions} repetitions of {calls} calls, {machine()}:"
    )
    click.echo(f"raw httpx {raw}; OpenAIModel with a listener {ours}; added {added}")


if __name__ == "__main__":
    main()
