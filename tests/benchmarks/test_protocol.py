"""The protocol for a real model: its page, its power, and a dry run of all of it that is stopped and gone on with."""

import json
from pathlib import Path

import pytest
from chat_server import chat_server
from click.testing import CliRunner

from benchmarks.alfworld.requirements import require_engine
from benchmarks.protocol.__main__ import fixed_part, main
from benchmarks.protocol.plan import HYPOTHESES, RUNS, detectable, power
from jeeves_reflexion.errors import ConfigurationError, MissingDependencyError
from jeeves_reflexion.sandbox import probe

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
PROBLEMS = [
    {
        "task_id": "Tiny/1",
        "prompt": 'def add1(x):\n    """Return x plus 1."""\n',
        "entry_point": "add1",
        "test": "def check(candidate):\n    assert candidate(5) == 6\n",
    }
]
QUESTIONS = [
    {
        "_id": f"q{n}",
        "question": f"Who is mayor number {n} of Tamsin?",
        "answer": "Bram Holt" if n % 2 else "nobody",
        "type": "bridge" if n % 2 else "comparison",
        "supporting_facts": [["Tamsin", 0]],
        "context": [["Tamsin", ["Its mayor is Bram Holt."]]],
    }
    for n in (1, 2)
]


def test_the_page_has_what_the_code_fixes():
    """Where a prompt was changed on purpose: python -m benchmarks.protocol freeze docs/protocol.md."""
    assert fixed_part() in PAGE.read_text(encoding="utf-8")


def test_power_and_the_smallest_difference_agree():
    for n, differing in ((134, 0.1), (500, 0.3)):
        found = detectable(n, differing, level=0.01)
        assert power(n, (differing + found) / 2, (differing - found) / 2, level=0.01) == pytest.approx(0.8)
    assert power(300, 0.12, 0.04) > power(100, 0.12, 0.04) > power(100, 0.12, 0.04, level=0.01)


@pytest.fixture
def data(tmp_path, request):
    """The options that name data of two or three benchmarks: games where the engine can run."""
    if not probe().complete:
        pytest.skip("this machine can't isolate code")
    options = []
    for name, rows in (("humaneval", PROBLEMS), ("hotpotqa", QUESTIONS)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        options += [f"--{name}", str(path)]
    try:
        require_engine()
    except (ConfigurationError, MissingDependencyError):
        return options
    request.getfixturevalue("made_games")
    made = str(request.getfixturevalue("made_folder"))
    return [*options, "--alfworld", made, "--transfer", made]


def reply(body):
    system = body["messages"][0]["content"]
    if "unit tests" in system:
        return "assert add1(1) == 2"
    if "Python functions" in system:
        return "def add1(x):\n    return x + 1"
    return (
        "Read the page once more."
        if "lesson" in system[:40] or "learns" in system
        else "Action: Finish[Bram Holt]"
    )


def run(*options):
    return CliRunner().invoke(main, ["run", *map(str, options)])


@pytest.mark.timeout(300)
def test_all_of_it_can_be_tried_stopped_and_gone_on_with(data, tmp_path):
    asked = []
    pilot = [*data, "--limit", 2, "--trials", 2, "--seeds", "0", "--workers", 1, "--embedder", "hashing"]
    prices = ["--price-in", 1000, "--price-out", 1000]  # 0.05 dollars a call
    with chat_server(lambda body: asked.append(body) or reply(body)) as url:
        model = ["--model", "tiny", "--base-url", url, *prices, "--yes"]
        priced = run(*pilot, *prices, "--estimate")
        assert (priced.exit_code, asked) == (0, [])
        assert "| humaneval | 1 | 8 | 24 | 16,000 | 16.00 |" in priced.stdout
        whole = run(*pilot, *model, "--out", tmp_path / "whole")
        assert whole.exit_code == 0, whole.output
        calls = len(asked)
        stopped = run(*pilot, *model, "--out", tmp_path / "run", "--max-cost", 0.05 * (calls // 2) - 0.01)
        assert stopped.exit_code == 1, stopped.output
        assert len(asked) == calls + calls // 2
        refused = run(*pilot, *model, "--out", tmp_path / "run", "--resume", "--trials", 3)
        assert "- 2  + 3" in refused.stderr
        resumed = run(*pilot, *model, "--out", tmp_path / "run", "--resume")
        assert resumed.exit_code == 0, resumed.output
        assert len(asked) == 2 * calls
        assert "# The protocol with tiny: a pilot" in resumed.stdout
    first, second = (json.loads((tmp_path / name / "protocol.json").read_text()) for name in ("whole", "run"))
    assert first == second
    played = [run.benchmark for run in RUNS if f"--{run.benchmark}" in data]
    assert len(first["answers"]) == len(HYPOTHESES)
    for answer in first["answers"]:
        assert answer["answer"] == ("not shown" if answer["benchmark"] in played else "not played to the end")


def test_without_data_a_model_or_prices_nothing_is_played(tmp_path):
    assert "no data is named" in run().stderr
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    done = run("--hotpotqa", path)
    assert "humaneval: left out" in done.stderr
    assert "hotpotqa: a pilot" in done.stderr
    assert "name a --model" in done.stderr
    limited = run("--hotpotqa", path, "--model", "m", "--out", tmp_path / "out", "--max-cost", 1)
    assert "needs prices" in limited.stderr
    asked = run("--hotpotqa", path, "--model", "m", "--out", tmp_path / "out")
    assert (asked.exit_code, (tmp_path / "out").exists()) == (1, False)
