"""Who attacks the sandbox, and by which way it is shut."""

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import filelock
import pytest

import jeeves_reflexion
from jeeves_reflexion.sandbox.inside import landlock

HERE = Path(__file__).parent
NOBODY = "65534"
PACKAGES = [str(Path(module.__file__ or "").parent.parent) for module in (jeeves_reflexion, anyio)]
ENVIRONMENT = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(PACKAGES), "PYTHONDONTWRITEBYTECODE": "1"}
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def languages() -> list[str]:
    found = ["python"]
    if importlib.util.find_spec("lupa"):
        found.append("lua")
    if shutil.which("swipl"):
        found.append("prolog")
    return found


@functools.cache
def python_of_others() -> str:
    """An interpreter of our version that another user may run, with our packages; empty if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        # twice, since the first one still has root's rights when it is started
        again = "subprocess.run([sys.executable, '-c', ''], check=True)"
        code = f"import subprocess, sys, jeeves_reflexion.sandbox; {again}"
        command = [*AS_NOBODY, candidate, "-c", code]
        try:
            if not subprocess.run(
                command, env=ENVIRONMENT, cwd="/", capture_output=True, timeout=60, check=False
            ).returncode:
                return candidate
        except OSError:
            continue
    return ""


Results = Callable[[str, str], dict[str, str]]


@pytest.fixture(scope="session")
def results(folder_of_all_workers: Path) -> Results:
    """Run all attacks in one process of a user, one of the two ways, once in the whole run; give what is wrong."""

    @functools.cache
    def found(user: str, way: str) -> dict[str, str]:
        file = folder_of_all_workers / f"attacks-{user}-{way}.json"
        with filelock.FileLock(file.with_suffix(".lock"), timeout=175):
            if not file.exists():
                file.write_text(json.dumps(attacked(user, way)))
        wrong: dict[str, str] = json.loads(file.read_text())
        return wrong

    return found


def attacked(user: str, way: str) -> dict[str, str]:
    """Run all attacks in one process of ``user``; return what is wrong with each."""
    python = sys.executable
    root = os.geteuid() == 0
    if user == "nobody" and not root:
        pytest.skip("another user can be played by root only")
    if root and (
        user == "nobody" or way == "landlock"
    ):  # there root gives up its rights, and with them its folders
        python = python_of_others()
        if not python:
            pytest.skip("no interpreter with our packages that an ordinary user may run")
    if way == "landlock" and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    command = [*(AS_NOBODY if user == "nobody" else []), python, str(HERE / "matrix.py"), way, *languages()]
    done = subprocess.run(
        command, env=ENVIRONMENT, cwd="/", capture_output=True, text=True, timeout=170, check=False
    )
    assert not done.returncode, done.stderr[-3000:]
    wrong: dict[str, str] = json.loads(done.stdout)
    return wrong
