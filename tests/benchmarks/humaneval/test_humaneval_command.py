"""The commands, and the logged run that has to come out as it is logged."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.humaneval.__main__ import main
from benchmarks.humaneval.command import humaneval
from benchmarks.humaneval.figures import Confusion, Pair, confusion_table
from jeeves_reflexion import ConfigurationError

pytestmark = pytest.mark.usefixtures("shut_in")


def call(*arguments, command=main):
    return CliRunner().invoke(command, [str(one) for one in arguments])


def test_scores_and_the_log_agree_or_the_exit_status_says_not(tiny, write):
    good = {"task_id": "Tiny/double", "solution": "    return 2 * n\n", "is_solved": True}
    bad = {"task_id": "Tiny/shout", "solution": "    return words\n", "is_solved": False}
    done = call("score", write("log.jsonl", good, bad), "--data", tiny)
    assert done.exit_code == 0, done.output
    assert "2 of 2 agree (1 logged as solved)" in done.output
    assert "pass@1: 1/2 = 50.0% (9.5% to 90.5%)" in done.output
    wrong = call("score", write("log.jsonl", good, {**bad, "is_solved": True}), "--data", tiny)
    assert wrong.exit_code == 1
    assert "| Tiny/shout | solved | failed **disagrees** | AssertionError" in wrong.output
    lines = call("score", write("log.jsonl", good, {**bad, "is_solved": True}), "--data", tiny, "--json")
    assert lines.exit_code == 1
    assert [json.loads(line)["status"] for line in lines.output.splitlines()] == ["passed", "failed"]


def test_several_samples_of_a_problem_give_pass_at_k(tiny, write):
    rows = [{"task_id": "Tiny/double", "completion": f"    return {n} * n\n"} for n in (2, 3)]
    done = call("score", write("samples.jsonl", *rows), "--data", tiny)
    assert done.exit_code == 0, done.output
    assert "| 1 | 50.0% |" in done.output
    assert "| 2 | 100.0% |" in done.output


def test_errors_are_messages(tiny, write):
    done = call("score", write("bad.jsonl", {"task_id": "Tiny/double"}), "--data", tiny)
    assert done.exit_code == 1
    assert "line 1: completion: Field required; expected a solution" in done.output
    assert "Traceback" not in done.output


def test_a_run_by_the_command(tiny, tmp_path, endpoint):
    url, _ = endpoint
    options = ["--data", tiny, "--model", "tiny", "--base-url", url, "--embedder", "hashing", "--trials", "2"]
    done = call(*options, "--tests", "docstring", "--out", tmp_path / "run", command=humaneval)
    assert done.exit_code == 0, done.output
    assert "Self-judged" in done.output
    assert (tmp_path / "run" / "results.json").exists()
    few = ("--arms", "retry", "--trials", "1")
    oracle = call(*options, *few, "--judge", "oracle", "--out", tmp_path / "oracle", command=humaneval)
    assert "Oracle-judged" in oracle.output
    assert "own tests pass" not in oracle.output
    unknown = call("--data", tiny, "--arms", "irrelevant", command=humaneval)
    assert unknown.exit_code == 2
    assert "choose from" in unknown.output
    for refused, said in (
        (["--data", tiny], "--model"),
        (["--data", "gone", "--model", "m"], "can't be read"),
    ):
        error = call(*refused, "--out", tmp_path / "no", command=humaneval).exception
        assert isinstance(error, ConfigurationError)
        assert said in str(error)


def test_the_log_of_a_published_run_comes_out_as_it_is_logged(shared, tmp_path):
    """Every tenth problem of it; ``score`` with the whole log comes to 134 of 164, as it is logged."""
    data, logged = shared
    rows = logged.read_text().splitlines()[::10]
    (tmp_path / "log.jsonl").write_text("\n".join(rows))
    solved = sum(json.loads(row)["is_solved"] for row in rows)
    empty = sum(not json.loads(row)["solution"].strip() for row in rows)
    done = call("score", tmp_path / "log.jsonl", "--data", data, "--workers", "4")
    assert done.exit_code == 0, done.output
    assert 0 < solved < len(rows) == 17
    assert f"{solved} of 17 solutions pass the hidden tests; 0 timed out, {empty} are empty." in done.output
    assert f"17 of 17 agree ({solved} logged as solved)" in done.output


def test_shares_divide_as_the_paper_does():
    verdicts = [*[(True, True)] * 6, *[(True, False)] * 2, (False, True), (False, False), (None, True)]
    found = Confusion(tuple(Pair(str(task), *both) for task, both in enumerate(verdicts)))
    assert found.wrong_among_passed.value == 2 / 8
    assert found.right_among_failed.value == 1 / 2
    assert found.passed_among_wrong.value == 2 / 3
    assert found.failed_among_right.value == 1 / 7
    assert found.count(own=None, hidden=True) == 1
    # Two seeds of a task are not two tasks.
    once, twice = found.wrong_among_passed, Confusion(found.pairs * 2).wrong_among_passed
    assert twice.value == once.value
    assert twice.low <= once.low < once.high <= twice.high
    assert Confusion().wrong_among_passed is None
    assert "| retry | 0 | 0 | 0 | 0 | 0, 0 | none | none | none | none |" in confusion_table(
        {"retry": Confusion()}
    )
