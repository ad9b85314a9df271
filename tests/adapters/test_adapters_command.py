"""``run --agent`` and ``bench --agent`` take an agent of a framework as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server

import jeeves_reflexion

pytest.importorskip("pydantic_ai")

AGENT = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(custom_output_text="It is 40."), instructions="You are a careful accountant.")
"""


def reply(body: dict[str, Any]) -> str:
    return "score: 1.0"


@pytest.fixture
def module(tmp_path: Path) -> str:
    """A module in the working directory with an agent of pydantic-ai."""
    (tmp_path / "clerk_module.py").write_text(AGENT, encoding="utf-8")
    return "clerk_module:agent"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from jeeves_reflexion.cli import main; main()", *arguments]
    # The package is found where this process found it, also from another working directory.
    found = os.pathsep.join(
        [str(Path(jeeves_reflexion.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    environment = {**os.environ, "OPENAI_API_KEY": "nothing-secret", "PYTHONPATH": found}
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_run_takes_the_agent(module: str, tmp_path: Path) -> None:
    with chat_server(reply) as address:
        given = ("--agent", module, "--model", "gpt", "--base-url", address, "--no-lessons", "--json")
        done = run(tmp_path, "run", "What is in row 3?", *given)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == "It is 40."


def test_bench_takes_the_agent(module: str, tmp_path: Path) -> None:
    tasks = [{"prompt": f"What is in row {row}?", "reference": "It is 40."} for row in range(3)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)), encoding="utf-8")
    given = (
        "--agent",
        module,
        "--evaluator",
        "exact",
        "--arms",
        "retry",
        "--trials",
        "1",
        "--out",
        "runs",
    )
    done = run(tmp_path, "bench", "tasks.jsonl", *given)
    assert done.returncode == 0, done.stderr
    assert "3 tasks" in done.stdout + done.stderr
