"""What a benchmark with a model says of its cost, and where a spending limit leaves it, over a real endpoint."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks.hotpotqa.command import hotpotqa
from benchmarks.humaneval.command import humaneval
from jeeves_reflexion.sandbox import probe

PARAGRAPHS = [["Tamsin", ["Tamsin is a town on a lake.", " Its mayor is Bram Holt."]]]
QUESTIONS = [
    {
        "_id": f"q{n}",
        "question": f"Who is mayor number {n} of Tamsin?",
        "answer": "Bram Holt" if n == 1 else "nobody",
    }
    | {"type": "bridge", "level": "hard", "supporting_facts": [["Tamsin", 1]], "context": PARAGRAPHS}
    for n in (1, 2, 3)
]
PROBLEMS = [
    {
        "task_id": f"Tiny/{n}",
        "prompt": f'def add{n}(x):\n    """Return x plus {n}.\n\n    >>> add{n}(1)\n    {n + 1}\n    """\n',
        "entry_point": f"add{n}",
        "test": f"def check(candidate):\n    assert candidate(5) == {n + 5}\n",
    }
    for n in (1, 2, 3)
]
USD_A_CALL = 0.05  # 40 tokens in and 10 out, at 1,000 dollars the million
PRICES = ("--price-in", "1000", "--price-out", "1000", "--expected-tokens", "80,20")


def called(command, *arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.fixture
def given(request, tmp_path, endpoint):
    """A command with three tasks, one of which the model solves."""
    url, _ = endpoint
    data = tmp_path / "data.jsonl"
    rows = QUESTIONS if request.param is hotpotqa else PROBLEMS
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shared = ["--data", data, "--model", "tiny", "--base-url", url, "--embedder", "hashing", "--workers", "1"]
    shared += ["--arms", "retry,reflexion", "--trials", "2", *PRICES]
    if request.param is humaneval:
        if not probe().complete:
            pytest.skip("this machine can't isolate code")
        shared += ["--tests", "docstring"]
    return request.param, shared


@pytest.mark.parametrize("given", [hotpotqa, humaneval], indirect=True, ids=["hotpotqa", "humaneval"])
def test_the_cost_is_told_before_and_after_and_a_limit_leaves_a_run_to_go_on_with(given, endpoint, tmp_path):
    command, shared = given
    _, asked = endpoint
    out = tmp_path / "run"
    stopped = called(command, *shared, "--out", out, "--max-cost", 4 * USD_A_CALL)
    assert stopped.exit_code == 1, stopped.output
    assert "at most 12 tries, about 1,200 tokens, about 1.20 USD" in stopped.stderr
    assert "the spending limit of 0.2 USD is reached" in stopped.stdout
    assert "--resume" in stopped.stdout
    assert len(asked) == 4
    refused = called(command, *shared, "--out", out)
    assert "holds a run already" in str(refused.exception)

    done = called(command, *shared, "--out", out, "--resume", "--max-cost", 9, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    costs = found["costs"]
    assert {arm: cost["solved"] for arm, cost in costs.items()} == {"retry": 1, "reflexion": 1}
    # Two of three tasks are tried twice; only the arm that reflects asks for a lesson after each failure.
    assert {arm: cost["calls"] for arm, cost in costs.items()} == {"retry": 5, "reflexion": 9}
    assert len(asked) == 14, "no reply is paid for twice"
    assert costs["reflexion"]["cost_usd"] == pytest.approx(9 * USD_A_CALL)
    assert costs["reflexion"]["cost_usd_per_solved"] == pytest.approx(9 * USD_A_CALL)
    assert costs["retry"]["tokens_per_solved"] == 5 * 50

    shown = called(command, *shared, "--out", out, "--resume").stdout
    assert "| retry | 5 | 1 | 5 | 250 | 0.2500 |" in shown
    assert "| reflexion | 5 | 1 | 9 | 450 | 0.4500 |" in shown
    assert len(asked) == 14
    reports = list(out.rglob("report.html"))
    assert len(reports) == 1
    page = reports[0].read_text(encoding="utf-8")
    assert "USD / solved" in page
    assert "0.4500" in page
