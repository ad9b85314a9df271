"""What tests of experiments in other processes look at and start: the files of a run, and processes."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows(folder):
    """The rows without what the clock says."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in lines(folder / "rows.jsonl")]


def places(folder, kind):
    """How often each try is in the journal, or each lesson."""
    found = [line for line in lines(folder / "journal.jsonl") if line["kind"] == kind]
    return Counter((line["arm"], line["split"], line["task_id"], line["trial"]) for line in found)


def count(path):
    return path.read_text().count("\n")


async def pid_of(path):
    """The process that wrote its number to a file, once it has."""
    await until(lambda: path.exists() and path.read_text().endswith(" "))
    return int(path.read_text())


async def gone(pid):
    with anyio.fail_after(60):
        await until(lambda: not alive(pid))


def alive(pid):
    return Path(f"/proc/{pid}").exists()


async def until(done):
    while not done():  # noqa: ASYNC110 - it happens in other processes
        await anyio.sleep(0.01)


def engines():
    """The engines that worker processes of this program's node have started, each with its worker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"benchmarks.alfworld.worker" in path.read_bytes():
                line = ancestors(int(path.parent.name))
                if os.getpid() in line[2:]:
                    found.append((line[0], line[1]))
        except OSError:
            continue  # it ended meanwhile
    return found


def ancestors(pid):
    """A process, its parent, and so on."""
    found = []
    while pid:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def marked(mark):
    """The processes that were started with a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_bytes().replace(b"\0", b" ")[:80])
        except OSError:
            continue  # it ended, or is somebody else's
    return found


AGENT = """
import sys

CAPITALS = {"Peru": "Lima", "France": "Paris", "Italy": "Rome", "Kenya": "Nairobi"}

def answer(task, session):
    if "ray" in sys.modules:
        print("this is the worker's own output")
    land = task.prompt.split()[-1]
    return CAPITALS[land] if f"of {land} is" in session.blocks["reflexion_lessons"] else "Lima"

def teach(task, trials):
    land = task.prompt.split()[-1]
    return f"The capital of {land} is {CAPITALS[land]}."
"""


def pair(mark):
    return dict([mark.split("=")])


def bench(folder, env):
    program = [sys.executable, "-c", "from jeeves_reflexion.cli import main; main()", "bench", "tasks.jsonl"]
    program += ["--agent", "capital_agent:answer", "--reflector", "capital_agent:teach", "--out", "far"]
    program += ["--arms", "retry,reflexion", "--trials", "2", "--workers", "1", "--executor", "ray"]
    program += ["--embedder", "hashing", "--json"]
    done = subprocess.run(
        program, check=False, cwd=folder, capture_output=True, text=True, timeout=150, env=env
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
