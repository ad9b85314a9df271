"""A benchmark that is killed in the middle and gone on with comes to what one comes to that was left alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from benchmarks.alfworld.agent import GameAgent
from benchmarks.alfworld.command import alfworld
from vectorstores import FaissVectorStore, HashingEmbedder

pytestmark = pytest.mark.engine

COMMAND = [sys.executable, "-c", "from benchmarks.alfworld.command import alfworld; alfworld()"]
BEFORE_THE_KILL = 3  # in the second trial of the first arm, when lessons are stored already


def options(made_folder: Path, out: Path, *more: str) -> list[str]:
    few = [
        "--limit",
        "2",
        "--arms",
        "selective,retry",
        "--trials",
        "3",
        "--step-limit",
        "8",
        "--workers",
        "1",
    ]
    return [*few, "--made-games", str(made_folder), "--embedder", "hashing", "--out", str(out), *more]


def finished_tries(out: Path) -> list[str]:
    """The journal's lines of tries; a last line may be unfinished."""
    journal = out / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True) if journal.is_file() else []
    return [line for line in lines if line.endswith("\n") and json.loads(line)["kind"] == "try"]


def killed_in_the_middle(arguments: list[str], out: Path) -> None:
    """Start the command and kill it, and it alone, as soon as some tries are finished."""
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while len(finished_tries(out)) < BEFORE_THE_KILL:
            assert time.monotonic() < deadline, "the benchmark did not get going"
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)


def results(out: Path) -> dict:
    """The figures of a run, but for the seconds, which no two runs have in common."""
    found = json.loads((out / "results.json").read_text())
    for cost in found["costs"].values():
        for name in [name for name in cost if name.startswith("seconds")]:
            del cost[name]
    return found


def lessons(out: Path) -> Counter[str]:
    async def texts() -> Counter[str]:
        place = out / "lessons"
        async with FaissVectorStore(place, embedder=HashingEmbedder(), namespace="alfworld") as store:
            return Counter(chunk.content for chunk in (await store.scan(limit=1000)).chunks)

    return anyio.run(texts)


def test_a_killed_run_goes_on_and_comes_to_the_same(made_games, made_folder, tmp_path, monkeypatch):
    out, whole = tmp_path / "killed", tmp_path / "whole"
    killed_in_the_middle(options(made_folder, out), out)
    before = finished_tries(out)
    assert not (out / "results.json").exists(), "it was killed before its end"

    played: list[tuple[str, str, int]] = []
    real = GameAgent.__call__

    async def counted(self, task, session):
        played.append((session.id, task.id, session.attempt))
        return await real(self, task, session)

    monkeypatch.setattr(GameAgent, "__call__", counted)
    resumed = CliRunner().invoke(alfworld, options(made_folder, out, "--resume"))
    assert resumed.exit_code == 0, resumed.output
    assert f"{len(before)} finished tries are in the log and are not made again" in resumed.stderr
    after = finished_tries(out)
    assert after[: len(before)] == before
    assert len(played) == len(set(played)) == len(after) - len(before) > 0, "nothing was played twice"

    left_alone = CliRunner().invoke(alfworld, options(made_folder, whole))
    assert left_alone.exit_code == 0, left_alone.output
    assert results(out) == results(whole)
    assert lessons(out) == lessons(whole) != Counter()
    assert len(after) == len(finished_tries(whole))
