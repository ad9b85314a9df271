"""The parent's view of one worker process: it starts, asks and ends the worker without blocking the event loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, Self

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from .failures import EngineError

_MODULE: Final = f"{__package__}.worker"
_LONGEST_REPLY: Final = 4 * 1024 * 1024  # bytes; the longest list of commands, in a kitchen, has about 20 kB
_SHOWN_OF_CRASH: Final = 2000  # bytes of the last output of the process
_BROKEN: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)
_GRACE: Final = 2.0  # seconds for a process to end by itself once its input is closed


class WorkerProcess:
    """One worker, which answers one request at a time.

    A request that is not completed (a timeout, a cancellation, a broken pipe) leaves the worker unusable: ``alive`` is
    then false, and the caller must end the worker with :meth:`close`.
    """

    def __init__(
        self, process: Process, requests: ByteSendStream, replies: ByteReceiveStream, printed: IO[bytes]
    ) -> None:
        self._process = process
        self._requests = requests
        self._replies = BufferedByteReceiveStream(replies)
        self._printed = printed
        self._in_request = False

    @classmethod
    async def start(cls) -> Self:
        """Start a worker; it answers its first request about a second later."""
        # close() closes this file. It is not made in a thread, where a cancellation would leave it open.
        printed = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            process = await anyio.open_process(
                # -P keeps the user's current folder off the module path.
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                env=_environment(),
            )
        except BaseException:
            printed.close()
            raise
        if process.stdin is None or process.stdout is None:
            raise AssertionError("open_process was asked for both pipes")
        return cls(process, process.stdin, process.stdout, printed)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the worker can take a request."""
        return self._process.returncode is None and not self._in_request

    async def ask(self, request: Mapping[str, object], *, timeout: float) -> dict[str, Any]:
        """Send one request and return the reply.

        Raises :class:`TimeoutError` after ``timeout`` seconds, and
        :class:`~benchmarks.alfworld.failures.EngineError` if the process died or has not answered the last request.
        """
        if self._in_request:
            raise EngineError("the last command has not been answered yet; give one command at a time")
        self._in_request = True
        try:
            with anyio.fail_after(timeout):
                await self._requests.send(json.dumps(request).encode() + b"\n")
                line = await self._replies.receive_until(b"\n", _LONGEST_REPLY)
        except _BROKEN as error:
            raise EngineError(f"the engine's process ended {await self._last_words()}") from error
        reply: dict[str, Any] = json.loads(line)
        self._in_request = False
        return reply

    async def close(self) -> None:
        """End the process, by force if necessary, and wait for its end."""
        with anyio.CancelScope(shield=True):
            try:
                if self.alive:
                    await self._requests.aclose()
                    with anyio.move_on_after(_GRACE):
                        await self._process.wait()
                if self._process.returncode is None:
                    self._process.kill()
            finally:
                await self._process.aclose()
                self._printed.close()

    async def _last_words(self) -> str:
        with anyio.move_on_after(_GRACE):
            await self._process.wait()
        printed = await anyio.to_thread.run_sync(self._read_printed)
        return f"with code {self._process.returncode}" + (f"; it printed: {printed}" if printed else "")

    def _read_printed(self) -> str:
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _SHOWN_OF_CRASH))
        return self._printed.read().decode(errors="replace").strip()


def _root() -> Path:
    """Return the folder of this module's top-level package: the repository, or where the wheel is installed."""
    package = sys.modules[__package__.partition(".")[0]]
    return Path(str(package.__file__)).resolve().parents[1]


def _environment() -> dict[str, str]:
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_root()), *([inherited] if inherited else [])]),
        # The engine lists things in the order of Python sets: a fixed seed makes its texts the same in every run.
        "PYTHONHASHSEED": "0",
    }
