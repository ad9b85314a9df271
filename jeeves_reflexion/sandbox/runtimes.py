"""What each language needs to run: programs, packages and the folders that the sandbox must show."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jeeves_reflexion.errors import SandboxUnavailableError
from jeeves_reflexion.sandbox.limits import Language

INSIDE = Path(__file__).parent
_SECONDS = 20
_LOADER_FOLDERS = ("/lib64", "/usr/lib64")


@dataclass(frozen=True)
class Runtime:
    """A language, ready to be started: what its process may read, and which program (or package) runs it."""

    language: Language
    read: tuple[str, ...] = ()
    program: str = ""
    harness: str = ""

    def config(self) -> dict[str, object]:
        """Return what the new process is told of it."""
        return {
            "language": self.language,
            "read": list(self.read),
            "program": self.program,
            "harness": self.harness,
        }


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
        said = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailableError(f"{found} does not start: {error}") from error
    variables = dict(line.rstrip(";").split("=", 1) for line in said.splitlines() if "=" in line)
    home = variables.get("PLBASE", "").strip('"')
    program = os.path.realpath(found)
    if not Path(home).is_dir():
        raise SandboxUnavailableError(f"{found} does not say where its library is (PLBASE is {home!r})")
    read = tuple(path for path in (home, program, *_LOADER_FOLDERS, *_libraries()) if Path(path).exists())
    harness = (INSIDE / "inside" / "harness.pl").read_text(encoding="utf-8")
    return Runtime("prolog", read=read, program=program, harness=harness)


def _libraries() -> tuple[str, ...]:
    """Return where a program's shared libraries usually are: also those that Python itself does without."""
    multiarch = f"{platform.machine()}-linux-gnu"
    return tuple(path for path in (f"/usr/lib/{multiarch}", f"/lib/{multiarch}") if Path(path).is_dir())
