"""``python -m benchmarks.concurrency``: many concurrent runs, one store, and a model whose endpoint sometimes fails.

Each run fails its first attempt, writes a lesson, recalls it and passes: three calls of a model over HTTP. A share of
the answers is faulty: 429, 500, an HTML page, half of a body, a closed connection. The table counts what was lost (runs
that did not end or pass, missing lessons), what was doubled (lessons, their support, calls made again although they
were answered) and what was mixed up (the words of one run in another).
"""

from __future__ import annotations

import json
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import anyio.abc
import click

from benchmarks.report import machine, table
from benchmarks.servers import embedded_postgres
from jeeves_reflexion import (
    Attempt,
    HashingEmbedder,
    Message,
    OpenAIModel,
    Reflexion,
    RunResult,
    Session,
    Task,
    ask,
    open_lessons,
    render_blocks,
)

_NAME: Final = re.compile(r"report-[0-9a-f]{12}")
_LESSON: Final = "Open the file {name} at its last page before you add up its rows."


@dataclass
class Endpoint:
    """An endpoint for chat completions; a share of its answers is faulty."""

    share: float
    seed: int
    delay: float = 0.0
    """Seconds before each answer."""
    answered: Counter[str] = field(default_factory=Counter)
    """The complete answers, by the name of the task and the purpose of the call."""
    faults: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Answer the requests of one connection."""
        buffer = b""
        async with stream:
            while True:
                while b"\r\n\r\n" not in buffer:
                    try:
                        buffer += await stream.receive()
                    except (anyio.EndOfStream, anyio.BrokenResourceError):
                        return
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])  # type: ignore[index]
                while len(buffer) < length:
                    buffer += await stream.receive()
                body, buffer = json.loads(buffer[:length]), buffer[length:]
                if not await self._answer(stream, body):
                    return

    async def _answer(self, stream: anyio.abc.SocketStream, body: dict[str, Any]) -> bool:
        """Answer a request. Returns False if the connection must be closed after it."""
        await anyio.sleep(self.delay)
        kind, text = _reply(body["messages"])
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}
        answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        whole = _http("200 OK", json.dumps(answer))
        if self._chance.random() >= self.share:
            self.answered[kind] += 1
            await stream.send(whole)
            return True
        fault = self._chance.choice(["429", "500", "HTML", "half a body", "closed"])
        self.faults[fault] += 1
        if fault == "429":
            await stream.send(_http("429 Too Many Requests", "{}", "retry-after-ms: 50\r\n"))
        elif fault == "500":
            await stream.send(_http("500 Internal Server Error", "{}"))
        elif fault == "HTML":
            await stream.send(_http("502 Bad Gateway", "<html><body>Bad gateway</body></html>"))
        elif fault == "half a body":
            await stream.send(whole[: len(whole) - 40])
        return fault in {"429", "500", "HTML"}


def _http(status: str, body: str, more: str = "") -> bytes:
    kind = "text/html" if body.startswith("<") else "application/json"
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {len(body.encode())}\r\n\r\n"
    return (head + body).encode()


def _reply(messages: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the purpose of a call, and the answer: the right one if the instructions hold the task's own lesson."""
    prompt = "\n".join(str(each["content"]) for each in messages)
    name = _NAME.findall(str(messages[-1]["content"]))[0]
    if str(messages[0]["content"]).startswith("You write lessons"):
        return f"{name} lesson", _LESSON.format(name=name)
    known = _LESSON.format(name=name) in prompt
    return f"{name} {'second' if known else 'first'}", f"{name}: {'forty-two' if known else 'unknown'}"


@dataclass
class Count:
    """What became of the runs."""

    runs: int
    ended: int = 0
    passed: int = 0
    mixed: int = 0
    lessons: int = 0
    supported: int = 0
    again: int = 0
    faults: int = 0
    seconds: float = 0.0
    peak: float = 0.0

    @property
    def right(self) -> bool:
        """Whether nothing was lost, doubled or mixed up."""
        once = self.lessons == self.supported == self.runs
        return self.ended == self.passed == self.runs and once and not self.mixed and not self.again


async def measure(runs: int, share: float, seed: int, address: str, delay: float = 0.0) -> Count:
    """Make all runs concurrently, with a model that takes ``delay`` seconds for each answer."""
    count, endpoint = Count(runs), Endpoint(share, seed, delay)
    chance = random.Random(seed)
    names = [f"report-{chance.getrandbits(48):012x}" for _ in range(runs)]
    async with _listening(endpoint) as url, open_lessons(address, embedder=HashingEmbedder()) as store:
        model = OpenAIModel("tiny", base_url=url, api_key="", timeout=30)

        async def clerk(task: Task, session: Session) -> Attempt:
            system = "\n\n".join(["You add up reports.", render_blocks(session.blocks)])
            answer = await ask(model, [Message("system", system), Message("user", task.prompt)])
            return Attempt(answer.text, usage=answer.usage)

        loop: Reflexion[Any] = Reflexion(
            clerk, evaluator=lambda output: float("forty-two" in output), reflector=model, lesson_store=store
        )

        async def run(name: str) -> None:
            result: RunResult[Any] = await loop.run(f"What is the total of {name}?")
            count.ended += 1
            count.passed += result.passed
            named = {found for trial in result.trials for found in _NAME.findall(trial.attempt.output)}
            count.mixed += named != {name}

        started = time.monotonic()
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(run, name)
        count.seconds = time.monotonic() - started
        lessons = [lesson async for lesson in store.repository.each()]
        count.lessons = len({each.text for each in lessons})
        count.supported = sum(each.support for each in lessons)
        await model.aclose()
    count.again = sum(times - 1 for times in endpoint.answered.values())
    count.faults = endpoint.faults.total()
    scale = 2**20 if sys.platform == "darwin" else 2**10
    count.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
    return count


@asynccontextmanager
async def _listening(endpoint: Endpoint) -> AsyncIterator[str]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=1024)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no Django
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, endpoint.serve)
        yield f"http://127.0.0.1:{port}/v1"
        group.cancel_scope.cancel()


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=200, show_default=True)
@click.option(
    "--faults", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Share of faulty answers."
)
@click.option("--store", type=click.Choice(["folder", "postgres"]), default="folder", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--delay", default=0.0, show_default=True, help="Seconds that the model takes for an answer.")
def main(runs: int, faults: float, store: str, seed: int, delay: float) -> None:
    """Make many runs concurrently, and count what was lost, doubled or mixed up."""
    place = embedded_postgres() if store == "postgres" else tempfile.TemporaryDirectory()
    with place as address:
        count = anyio.run(measure, runs, faults, seed, address, delay)
    click.echo(f"{machine()}; {store}, {faults:.0%} of the answers faulty, seed {seed}\n")
    cells = {
        "runs": count.runs,
        "ended": count.ended,
        "passed": count.passed,
        "lessons": count.lessons,
        "doubled": count.supported - count.lessons,
        "calls made again": count.again,
        "mixed up": count.mixed,
        "faulty answers": count.faults,
        "s": f"{count.seconds:.1f}",
        "peak, MiB": f"{count.peak:.0f}",
    }
    click.echo(table(list(cells), [list(cells.values())]))
    if not count.right:
        raise click.ClickException("runs or lessons were lost, doubled or mixed up: see the table")


if __name__ == "__main__":
    main()
