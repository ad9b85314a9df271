"""``python -m benchmarks.sandbox.matrix``: every attack, by both ways that isolate the sandbox, as root and as nobody.

The tests run each attack once, in the way that the machine supports. Run this matrix after a change to the sandbox.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import click

import jeeves_reflexion
from benchmarks.report import machine, out_option, table, write_result
from jeeves_reflexion.sandbox.inside import walls

_NOBODY = "65534"
_AS_NOBODY = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
_PACKAGES = [str(Path(module.__file__ or "").parent.parent) for module in (jeeves_reflexion, anyio)]
_ENVIRONMENT = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(_PACKAGES), "PYTHONDONTWRITEBYTECODE": "1"}
_SECONDS = 300

Wrong = dict[str, str]
"""What is wrong with each attack (empty if it ended as it must), and under ``host`` the harm that was done."""


@click.command()
@out_option("sandbox-attacks.json and sandbox-attacks.md")
def main(out: Path) -> None:
    """Run every attack by both ways and users, and write which got through. Exits with 1 if any did."""
    sides: dict[str, Wrong | str] = {}
    for way in ("namespaces", "landlock"):
        for user in ("root", "nobody") if os.geteuid() == 0 else ("ordinary user",):
            sides[f"{way}, {user}"] = attacked(way, nobody=user == "nobody")
    page = _page(sides)
    write_result(out, "sandbox-attacks", sides, page)
    click.echo(page)
    if any(isinstance(side, dict) and any(side.values()) for side in sides.values()):
        raise SystemExit(1)


def _languages() -> list[str]:
    lua = ["lua"] if importlib.util.find_spec("lupa") else []
    return ["python", *lua, *(["prolog"] if shutil.which("swipl") else [])]


def attacked(way: str, *, nobody: bool = False) -> Wrong | str:
    """Run all attacks in a process of a user; return what is wrong with each, or why they can't run."""
    python = sys.executable
    if os.geteuid() == 0 and (nobody or way == "landlock"):
        python = _python_of_others()  # with Landlock, root gives up its rights and so its folders
        if not python:
            return "no interpreter with our packages that an ordinary user may run"
    if way == "landlock" and not walls.landlock_version():
        return "this kernel has no Landlock"
    command = [*(_AS_NOBODY if nobody else []), python, "-m", "benchmarks.sandbox.host", way, *_languages()]
    done = subprocess.run(  # noqa: S603
        command, env=_ENVIRONMENT, cwd="/", capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise click.ClickException(done.stderr[-3000:])
    wrong: Wrong = json.loads(done.stdout)
    return wrong


@functools.cache
def _python_of_others() -> str:
    """Return an interpreter of our version, with our packages, that another user may run; empty if there is none."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        # A second process, because the first one still has root's rights when it starts.
        again = "subprocess.run([sys.executable, '-c', ''], check=True)"
        code = f"import subprocess, sys, jeeves_reflexion.sandbox; {again}"
        command = [*_AS_NOBODY, candidate, "-c", code]
        try:
            done = subprocess.run(  # noqa: S603
                command, env=_ENVIRONMENT, cwd="/", capture_output=True, timeout=60, check=False
            )
        except OSError:
            continue
        if not done.returncode:
            return candidate
    return ""


def _page(sides: dict[str, Wrong | str]) -> str:
    intro = (
        f"Measured by `python -m benchmarks.sandbox.matrix` on {machine()}, Linux {platform.release()}. An attack"
        " (`benchmarks/sandbox/attacks.toml`) is *held* if it ends as it must (at a limit, as an error or with a"
        " harmless value), touches and reaches nothing of the host, and leaves no process and no scratch folder."
        " The JSON beside this page lists each attack by name."
    )
    rows = []
    for name, side in sides.items():
        wrong = {} if isinstance(side, str) else {each: why for each, why in side.items() if why}
        held = side if isinstance(side, str) else f"{len(side) - len(wrong)} of {len(side)}"
        rows.append((name, held, "; ".join(f"**{each}**: {why}" for each, why in wrong.items())))
    heads = ["way, user", "held, the host itself included", "got through"]
    return "\n\n".join(["# Attacks on the sandbox", intro, table(heads, rows)]) + "\n"


if __name__ == "__main__":
    main()
