"""A framework's process as the referee sees it: sends commands, answers what it is asked meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Final, Self, TypeAlias

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from jeeves_reflexion.errors import ReflexionError

Answer: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

OUR_MODULE: Final = "benchmarks.peers.ours"
PEER_MODULE: Final = "benchmarks.peers.theirs"
_ROOT: Final = Path(__file__).resolve().parents[2]
_LONGEST: Final = 16 * 1024 * 1024  # bytes of a line
_SHOWN: Final = 1500  # bytes of what a process printed last
_GONE: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)


class ChildError(ReflexionError):
    """A framework's process could not be started, failed or gave no answer."""


async def _no_questions(said: Mapping[str, Any]) -> Mapping[str, Any]:
    raise ChildError(f"{said['ask']!r} was asked where nothing can be")


class Child:
    """One process; ended by ``async with``.

    ``ready`` is what it said when it was up. Raises :class:`ChildError` where it does not come up, and from
    :meth:`do`; ``timeout`` is in seconds, for one line of the process.
    """

    def __init__(self, module: str, *, python: Path | None = None, timeout: float = 120.0) -> None:
        self._command = [str(python or sys.executable), "-P", "-m", module]
        self._timeout = timeout
        self._process: Process | None = None
        self._lines: BufferedByteReceiveStream | None = None
        self._printed: IO[bytes] | None = None
        self._out_of_step = False
        self.ready: Mapping[str, Any] = {}

    async def __aenter__(self) -> Self:
        self._printed = TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = await anyio.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                env=_environment(),
            )
            assert self._process.stdout is not None  # noqa: S101 - asked for
            self._lines = BufferedByteReceiveStream(self._process.stdout)
            self.ready = await self._until_done(_no_questions)
        except OSError as error:
            await self._end()
            raise ChildError(f"{self._command[0]} can't be started: {error.strerror}") from error
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        with anyio.CancelScope(shield=True):
            if process is not None:
                if process.returncode is None:
                    process.kill()
                await process.aclose()
            if self._printed is not None:
                self._printed.close()

    async def do(self, what: str, answer: Answer = _no_questions, **said: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Give a command and return what comes of it; ``answer`` is asked what the process asks meanwhile."""
        await self._send({"do": what, **said})
        return await self._until_done(answer)

    async def _until_done(self, answer: Answer) -> Mapping[str, Any]:
        while True:
            said = await self._line()
            if "error" in said:
                raise ChildError(f"{self._command[-1]}: {said['error']}")
            if "done" in said:
                done: Mapping[str, Any] = said["done"]
                return done
            try:
                answered = await answer(said)
            except BaseException:
                # It waits for an answer that doesn't come, and would take the next command for it.
                self._out_of_step = True
                raise
            await self._send(answered)

    async def _send(self, said: Mapping[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None or self._out_of_step:
            raise ChildError(f"{self._command[-1]} has ended, or failed in the middle of a command")
        try:
            await process.stdin.send(json.dumps(said).encode() + b"\n")
        except _GONE as error:
            raise ChildError(f"{self._command[-1]} ended{self._last_words()}") from error

    async def _line(self) -> dict[str, Any]:
        assert self._lines is not None  # noqa: S101 - made with the process
        try:
            with anyio.fail_after(self._timeout):
                line = await self._lines.receive_until(b"\n", _LONGEST)
        except TimeoutError as error:
            self._out_of_step = True
            raise ChildError(f"{self._command[-1]} gave no answer in {self._timeout:g} s") from error
        except _GONE as error:
            raise ChildError(f"{self._command[-1]} ended{self._last_words()}") from error
        said: dict[str, Any] = json.loads(line)
        return said

    def _last_words(self) -> str:
        if self._printed is None:
            return ""
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _SHOWN))
        text = self._printed.read().decode(errors="replace").strip()
        return f"; it printed: {text}" if text else ""


def _environment() -> dict[str, str]:
    inherited = os.environ.get("PYTHONPATH")
    # Threads of a linear algebra library would count as a framework's CPU time while they spin.
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *([inherited] if inherited else [])]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
