"""One jail: a supervisor process of ours, and in it the process that runs code once; and what each language needs."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any, Self

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from jeeves_reflexion.errors import SandboxError, SandboxUnavailableError
from jeeves_reflexion.sandbox.inside import kernel, messages
from jeeves_reflexion.sandbox.limits import Language, Report, SandboxLimits

START_SECONDS = 30.0
_GRACE_SECONDS = 10.0
_LETTING_GO_SECONDS = 2.0
_LONGEST_HEAD = 100_000
_SAID = 2_000
INSIDE = Path(__file__).parent
_PROLOG_SECONDS = 20


@dataclass(frozen=True)
class Runtime:
    """A language, ready to be started: what its process may read, and which program (or package) runs it."""

    language: Language
    read: tuple[str, ...] = ()
    program: str = ""
    harness: str = ""


def runtime(language: Language) -> Runtime:
    """Return the runtime of a language. Raises :class:`SandboxUnavailableError`; may start a process once."""
    if language == "lua":
        return _lua()
    if language == "prolog":
        return _prolog()
    return Runtime("python")


def interpreter() -> list[str]:
    """Return the command that starts the supervisor: the plain interpreter, without packages and environment."""
    start = "import sys; sys.path.insert(0, sys.argv[1]); import inside.supervisor as s; del sys.path[0]; s.main()"
    program = os.path.realpath(sys.executable)
    return [program, "-I", "-S", "-X", "utf8", "-c", start, str(INSIDE)]


@functools.cache
def _lua() -> Runtime:
    found = importlib.util.find_spec("lupa")
    if found is None or found.origin is None:
        raise SandboxUnavailableError('Lua code needs the package lupa: pip install "jeeves-reflexion[lua]"')
    folder = Path(found.origin).parent
    beside = folder.parent / "lupa.libs"  # the shared libraries that some builds bring
    read = tuple(str(path) for path in (folder, beside) if path.exists())
    return Runtime("lua", read=read, program=str(folder))


@functools.cache
def _prolog() -> Runtime:
    found = shutil.which("swipl")
    if found is None:
        raise SandboxUnavailableError(
            "Prolog code needs SWI-Prolog (the program swipl): apt-get install swi-prolog-nox, or see swi-prolog.org"
        )
    asked = [found, "--dump-runtime-variables"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_PROLOG_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailableError(f"{found} does not start: {error}") from error
    variables = dict(line.rstrip(";").split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    home = variables.get("PLBASE", "").strip('"')
    program = os.path.realpath(found)
    if not Path(home).is_dir():
        raise SandboxUnavailableError(f"{found} does not say where its library is (PLBASE is {home!r})")
    # where shared libraries usually are, also those that Python itself does without
    multiarch = f"{platform.machine()}-linux-gnu"
    libraries = ("/lib64", "/usr/lib64", f"/usr/lib/{multiarch}", f"/lib/{multiarch}")
    read = tuple(path for path in (home, program, *libraries) if Path(path).exists())
    harness = (INSIDE / "inside" / "harness.pl").read_text(encoding="utf-8")
    return Runtime("prolog", read=read, program=program, harness=harness)


# -- the process


class Jail:
    """A process that runs code once."""

    def __init__(self, process: anyio.abc.Process, limits: SandboxLimits) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise SandboxError("the process was started without its pipes")
        self._process = process
        self._stdin, self._stderr = process.stdin, process.stderr
        self._reader = BufferedByteReceiveStream(process.stdout)
        self._limits = limits

    @classmethod
    async def start(
        cls, way: str, runtime: Runtime, limits: SandboxLimits, *, channel: tuple[int, ...] = ()
    ) -> Self:
        """Start the process. ``channel``: descriptors that the code gets. Raises :class:`SandboxUnavailableError`."""
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
            told = {**_configuration(way, runtime, limits), "channel": channel}
            await jail._send(json.dumps(told).encode())
        except BaseException:
            await jail.close()
            raise
        return jail

    async def run(self, request: bytes) -> Report:
        """Run a request when the code is shut in, return the report on it, and end the process.

        Raises :class:`SandboxUnavailableError` where it can't be shut in, and :class:`SandboxError`.
        """
        limits = self._limits
        try:
            with anyio.move_on_after(START_SECONDS + limits.seconds + _GRACE_SECONDS):
                await self._send(request)
                head = json.loads(await self._receive(_LONGEST_HEAD))
                if "problem" in head:
                    raise SandboxUnavailableError(f"the sandbox could not be set up: {head['problem']}")
                # what one reading of a pipe may bring beyond the limit
                longest = int(limits.resources()["output_bytes"]) + (1 << 17)
                result, stdout, stderr = [await self._receive(longest) for _ in range(3)]
                return Report(**head, result=result, stdout=stdout, stderr=stderr)
            raise SandboxError(
                "the sandbox's own process did not report in time; it was ended with the code in it"
            )
        finally:
            await self.close()

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
            await self._stdin.send(messages.packed(data))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise SandboxError(f"the sandbox's own process ended early{await self._last_words()}") from error

    async def _receive(self, longest: int) -> bytes:
        try:
            size = messages.LENGTH.unpack(await self._reader.receive_exactly(messages.LENGTH.size))[0]
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


def _configuration(way: str, runtime: Runtime, limits: SandboxLimits) -> dict[str, Any]:
    """Return what the supervisor is told at its start."""
    # whether we may become another user, as root may; root of a small user namespace is an ordinary user
    root = os.geteuid() == 0 and (sys.platform != "linux" or kernel.knows_user(kernel.NOBODY))
    # of the standard library, and of the shared libraries that it loads
    folders = sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
    return {
        **asdict(runtime),
        "read": [*runtime.read, *folders],
        "way": way,
        "root": root,
        "temporary": tempfile.gettempdir(),
        "resources": limits.resources(),
        "counted": _counted(way, root=root),
    }


def _counted(way: str, *, root: bool) -> int | None:
    """How many processes of our own the limit on threads counts; ``None`` when it would count the user's others.

    It counts by user, since Linux 5.14 by user and namespace: as root every run has a user of its own.
    """
    if sys.platform != "linux":
        return None
    if root:
        return 1
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return 2 if way == "namespaces" and release >= (5, 14) else None
