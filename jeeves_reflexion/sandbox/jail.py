"""A jail: a supervisor process that runs code once in a process below it. Also what each language needs."""

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
from typing import Self

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from jeeves_reflexion.errors import SandboxError, SandboxUnavailableError
from jeeves_reflexion.sandbox.inside import kernel, messages
from jeeves_reflexion.sandbox.limits import Language, Report, SandboxLimits

START_SECONDS = 30.0
_GRACE_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_LONGEST_HEAD = 100_000
_MAX_LAST_WORDS = 2_000
INSIDE = Path(__file__).parent
_PROLOG_SECONDS = 20


@dataclass(frozen=True)
class Runtime:
    """What it takes to start a language: the paths that its process may read, and the program or package."""

    language: Language
    read: tuple[str, ...] = ()
    program: str = ""
    harness: str = ""


@functools.cache
def runtime(language: Language) -> Runtime:
    """Return the runtime of a language; the first call may start a process. Raises :class:`SandboxUnavailableError`."""
    if language == "python":
        return Runtime("python")

    if language == "lua":
        spec = importlib.util.find_spec("lupa")
        if spec is None or spec.origin is None:
            raise SandboxUnavailableError(
                'Lua code needs the package lupa: pip install "jeeves-reflexion[lua]"'
            )
        folder = Path(spec.origin).parent
        packages = (folder, folder.parent / "lupa.libs")  # the second has shared libraries, in some builds
        read = tuple(str(path) for path in packages if path.exists())
        return Runtime("lua", read=read, program=str(folder))

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
    # the usual folders of shared libraries: Prolog may need some that Python does not
    multiarch = f"{platform.machine()}-linux-gnu"
    libraries = ("/lib64", "/usr/lib64", f"/usr/lib/{multiarch}", f"/lib/{multiarch}")
    read = tuple(path for path in (home, program, *libraries) if Path(path).exists())
    harness = (INSIDE / "inside" / "harness.pl").read_text(encoding="utf-8")
    return Runtime("prolog", read=read, program=program, harness=harness)


def interpreter() -> list[str]:
    """Return the command that starts the supervisor: the bare interpreter, without packages and environment."""
    start = "import sys; sys.path.insert(0, sys.argv[1]); import inside.supervisor as s; del sys.path[0]; s.main()"
    program = os.path.realpath(sys.executable)
    return [program, "-I", "-S", "-X", "utf8", "-c", start, str(INSIDE)]


# -- the process


class Jail:
    """A supervisor process that runs code once."""

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
        """Start the process; the code gets the descriptors ``channel``. Raises :class:`SandboxUnavailableError`."""
        # whether we may become another user; root of a user namespace without other users may not
        root = os.geteuid() == 0 and (sys.platform != "linux" or kernel.knows_user(kernel.NOBODY))
        # How many of our own processes count towards the limit on threads, or None to set no limit. Linux counts by
        # user, since 5.14 by user and namespace. As root each run has its own user; otherwise, without a namespace, the
        # limit would count the user's other processes.
        counted = None
        if sys.platform == "linux" and root:
            counted = 1
        elif sys.platform == "linux" and way == "namespaces":
            release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
            counted = 2 if release >= (5, 14) else None
        folders = sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
        configuration = {
            **asdict(runtime),
            "read": [*runtime.read, *folders],
            "way": way,
            "root": root,
            "temporary": tempfile.gettempdir(),
            "resources": limits.resources(),
            "counted": counted,
            "channel": channel,
        }
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
            await jail._send(json.dumps(configuration).encode())
        except BaseException:
            await jail.close()
            raise
        return jail

    async def run(self, request: bytes) -> Report:
        """Run a request once the code's process is isolated, end the process, and return the report.

        Raises :class:`SandboxUnavailableError` if the process can't be isolated, and :class:`SandboxError`.
        """
        limits = self._limits
        try:
            with anyio.move_on_after(START_SECONDS + limits.seconds + _GRACE_SECONDS):
                await self._send(request)
                head = json.loads(await self._receive(_LONGEST_HEAD))
                if "problem" in head:
                    raise SandboxUnavailableError(f"the sandbox could not be set up: {head['problem']}")
                # the last read of a pipe may exceed the limit
                longest = int(limits.resources()["output_bytes"]) + (1 << 17)
                result, stdout, stderr = [await self._receive(longest) for _ in range(3)]
                return Report(**head, result=result, stdout=stdout, stderr=stderr)
            raise SandboxError(
                "the sandbox's supervisor did not report in time; it was ended together with the code"
            )
        finally:
            await self.close()

    async def close(self) -> None:
        """End the process, everything that the code started, and its scratch folder; also while being cancelled."""
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(anyio.BrokenResourceError, OSError):
                await self._stdin.aclose()  # tells the supervisor to end everything
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self._process.wait()
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            await self._last_words()  # waits for the guard, which ends the code before it ends itself
            await self._process.aclose()

    async def _send(self, data: bytes) -> None:
        try:
            await self._stdin.send(messages.packed(data))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise SandboxError(f"the sandbox's supervisor ended early{await self._last_words()}") from error

    async def _receive(self, longest: int) -> bytes:
        try:
            size = messages.LENGTH.unpack(await self._reader.receive_exactly(messages.LENGTH.size))[0]
            if size > longest:
                raise SandboxError(
                    f"the sandbox's supervisor sent {size} bytes, and at most {longest} are expected"
                )
            return await self._reader.receive_exactly(size) if size else b""
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            words = await self._last_words()
            raise SandboxError(f"the sandbox's supervisor ended without a report{words}") from error

    async def _last_words(self) -> str:
        text = b""
        closed = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
        with anyio.move_on_after(_CLOSE_SECONDS), contextlib.suppress(*closed):
            while True:
                text = (text + await self._stderr.receive())[-_MAX_LAST_WORDS:]
        return f": {text.decode(errors='replace').strip()}" if text.strip() else ""
