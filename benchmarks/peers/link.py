"""The end of the pipe in a process that runs a framework; needs nothing but the standard library.

One JSON object a line. The referee sends commands; while it carries one out, the process may ask the referee things
(``{"ask": ...}``), and ends with ``{"done": ...}`` or ``{"error": ...}``. A process does one thing at a time, so asking
blocks, and the time that passes while it waits for an answer is kept apart from its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeAlias

Command: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Link:
    """Asks the referee; ``waited`` and ``waited_cpu`` are the seconds that went into that so far."""

    def __init__(self, incoming: TextIO, outgoing: TextIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self.waited = 0.0
        self.waited_cpu = 0.0

    def ask(self, what: str, **said: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Ask and return the answer. Raises ``EOFError`` where the referee is gone."""
        started, cpu = time.perf_counter(), time.process_time()
        self.tell({"ask": what, **said})
        line = self._incoming.readline()
        if not line:
            raise EOFError("the referee is gone")
        answer: dict[str, Any] = json.loads(line)
        self.waited += time.perf_counter() - started
        self.waited_cpu += time.process_time() - cpu
        return answer

    def tell(self, said: Mapping[str, Any]) -> None:
        """Send one line."""
        self._outgoing.write(json.dumps(said) + "\n")
        self._outgoing.flush()

    async def timed(self, work: Callable[[], Awaitable[None]]) -> dict[str, Any]:
        """Do some work; return the seconds and CPU seconds that were this process's own, without the waiting."""
        waited, waited_cpu = self.waited, self.waited_cpu
        started, cpu = time.perf_counter(), time.process_time()
        await work()
        return {
            "seconds": time.perf_counter() - started - (self.waited - waited),
            "cpu": time.process_time() - cpu - (self.waited_cpu - waited_cpu),
        }

    async def serve(self, commands: Mapping[str, Command]) -> None:
        """Carry out commands until the referee closes the pipe; one that fails is answered with its error."""
        while line := self._incoming.readline():
            said: dict[str, Any] = json.loads(line)
            try:
                self.tell({"done": await commands[said["do"]](said)})
            except EOFError:
                return
            except Exception as error:  # noqa: BLE001 - told to the referee, which raises it
                traceback.print_exc()
                self.tell({"error": f"{type(error).__name__}: {error}"})


def memory() -> dict[str, float | None]:
    """Return the resident memory of this process now and at its highest, in MB; ``None`` where Linux doesn't tell.

    ``getrusage`` won't do: its maximum includes what the parent had when it started the process.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return {"now": None, "peak": None}
    rows = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines() if ":" in line)
    return {name: int(rows[key].split()[0]) / 1000 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}


def main(run: Callable[[Link], Coroutine[Any, Any, None]]) -> None:
    """Run a process: its standard output is kept for answers, and what is printed goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    link = Link(sys.stdin, channel)
    try:
        asyncio.run(run(link))
    except BaseException as error:
        link.tell({"error": f"{type(error).__name__}: {error}"})
        raise
