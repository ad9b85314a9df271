"""One jail: a supervisor process of ours, and in it the process that runs code once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from subprocess import PIPE
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from jeeves_reflexion.errors import SandboxError, SandboxUnavailableError
from jeeves_reflexion.sandbox.inside import frames, kernel
from jeeves_reflexion.sandbox.limits import SandboxLimits
from jeeves_reflexion.sandbox.runtimes import Runtime, interpreter

START_SECONDS = 30.0
_GRACE_SECONDS = 10.0
_LETTING_GO_SECONDS = 2.0
_LONGEST_HEAD = 100_000
_SAID = 2_000


@dataclass(frozen=True)
class Report:
    """What the supervisor says of a run: how the process ended, and what it wrote."""

    limit: str | None
    status: int | None
    cpu: float
    seconds: float
    result: bytes
    stdout: bytes
    stderr: bytes


class Jail:
    """A process that waits to run code once."""

    def __init__(self, process: anyio.abc.Process, limits: SandboxLimits) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise SandboxError("the process was started without its pipes")
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._reader = BufferedByteReceiveStream(process.stdout)
        self._ready = False
        self.limits = limits

    @classmethod
    async def start(
        cls,
        way: str,
        runtime: Runtime,
        limits: SandboxLimits,
        *,
        warm: bool = False,
        channel: tuple[int, ...] = (),
    ) -> Jail:
        """Start the process; :meth:`ready` waits until it is shut in. ``channel``: descriptors that the code gets."""
        try:
            process = await anyio.open_process(
                interpreter(),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={},
                cwd="/",
                start_new_session=True,
                pass_fds=channel,
            )
        except OSError as error:
            raise SandboxUnavailableError(
                f"the interpreter {interpreter()[0]} does not start: {error}"
            ) from error
        jail = cls(process, limits)
        try:
            told = {**configuration(way, runtime, limits, warm=warm), "channel": channel}
            await jail._send(json.dumps(told).encode())
        except BaseException:
            await jail.close()
            raise
        return jail

    async def ready(self) -> None:
        """Wait until code can be given to it. Raises :class:`SandboxUnavailableError`."""
        if self._ready:
            return
        with anyio.move_on_after(START_SECONDS):
            said = json.loads(await self._receive(_LONGEST_HEAD))
            if "problem" in said:
                raise SandboxUnavailableError(f"the sandbox could not be set up: {said['problem']}")
            self._ready = True
            return
        raise SandboxUnavailableError(f"the sandbox's process was not ready within {START_SECONDS:g} s")

    async def run_once(self, request: bytes) -> Report:
        """Run a request when the process is ready, return the report on it, and end the process."""
        try:
            await self.ready()
            return await self.run(request)
        finally:
            await self.close()

    async def run(self, request: bytes) -> Report:
        """Run one request and return the report on it. For once only."""
        most = self.limits.resources()
        with anyio.move_on_after(self.limits.seconds + _GRACE_SECONDS):
            await self._send(request)
            head = json.loads(await self._receive(_LONGEST_HEAD))
            longest = int(most["output_bytes"]) + (
                1 << 17
            )  # what one reading of a pipe may bring beyond the limit
            result, stdout, stderr = [await self._receive(longest) for _ in range(3)]
            return Report(**head, result=result, stdout=stdout, stderr=stderr)
        raise SandboxError(
            "the sandbox's own process did not report in time; it was ended with the code in it"
        )

    async def close(self) -> None:
        """End the process, and with it all that the code started and its scratch folder. Also when cancelled."""
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(anyio.BrokenResourceError, OSError):
                await self._stdin.aclose()  # the supervisor's word to end everything
            with anyio.move_on_after(_LETTING_GO_SECONDS):
                await self._process.wait()
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            await self._last_words()  # they end with the guard, which has ended the code before
            await self._process.aclose()

    async def _send(self, data: bytes) -> None:
        try:
            await self._stdin.send(frames.packed(data))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise SandboxError(f"the sandbox's own process ended early{await self._last_words()}") from error

    async def _receive(self, longest: int) -> bytes:
        try:
            size = frames.LENGTH.unpack(await self._reader.receive_exactly(frames.LENGTH.size))[0]
            if size > longest:
                raise SandboxError(
                    f"the sandbox's process sent {size} bytes where at most {longest} are expected"
                )
            return await self._reader.receive_exactly(size) if size else b""
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise SandboxError(
                f"the sandbox's own process ended without a report{await self._last_words()}"
            ) from error

    async def _last_words(self) -> str:
        said = b""
        closed = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
        with anyio.move_on_after(_LETTING_GO_SECONDS), contextlib.suppress(*closed):
            while True:
                said = (said + await self._stderr.receive())[-_SAID:]
        return f": {said.decode(errors='replace').strip()}" if said.strip() else ""


def configuration(
    way: str, runtime: Runtime, limits: SandboxLimits, *, warm: bool = False
) -> Mapping[str, Any]:
    """Return what the supervisor is told at its start."""
    root = _is_root()
    told = runtime.config()
    return {
        **told,
        "read": [*runtime.read, *_own_folders()],
        "way": way,
        "root": root,
        "temporary": tempfile.gettempdir(),
        "warm": warm,
        "resources": limits.resources(),
        "counted": _counted(way, root=root),
        "channel": (),
    }


def _is_root() -> bool:
    """Whether we may become another user, as root may; root of a small user namespace is an ordinary user."""
    return os.geteuid() == 0 and (sys.platform != "linux" or kernel.knows_user(kernel.NOBODY))


def _counted(way: str, *, root: bool) -> int | None:
    """How many processes of our own the limit on processes counts; ``None`` when it would count the user's others.

    It counts by user, since Linux 5.14 by user and namespace: as root every run has a user of its own.
    """
    if sys.platform != "linux":
        return None
    if root:
        return 1
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return 2 if way == "namespaces" and release >= (5, 14) else None


def _own_folders() -> list[str]:
    """Return the folders of the standard library and of the shared libraries that it loads."""
    paths = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return sorted(paths)
