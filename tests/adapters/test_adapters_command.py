"""``run --agent`` and ``bench --agent`` take an agent of a framework as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import chat_server
from click.testing import CliRunner, Result

from jeeves_reflexion.cli.program import program

pytest.importorskip("pydantic_ai")

AGENT = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(custom_output_text="It is 40."), instructions="You are a careful accountant.")
"""


def reply(body: dict[str, Any]) -> str:
    return "score: 1.0"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory with an agent of pydantic-ai."""
    name = f"clerk_{abs(hash(str(tmp_path)))}"  # modules are imported once
    (tmp_path / f"{name}.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "nothing-secret")
    return f"{name}:agent"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


def test_run_takes_the_agent(module: str) -> None:
    with chat_server(reply) as address:
        given = ("--agent", module, "--model", "gpt", "--base-url", address, "--no-lessons", "--json")
        done = run("run", "What is in row 3?", *given)
    assert done.exit_code == 0, done.output
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
    done = run("bench", "tasks.jsonl", *given)
    assert done.exit_code == 0, done.output
    assert "3 tasks" in done.output
