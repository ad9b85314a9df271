"""Wrong programs that are not empty: mutants of canonical solutions, and what own tests say of them."""

import ast
import json

import pytest
from click.testing import CliRunner

from benchmarks.humaneval.__main__ import main
from benchmarks.humaneval.mutants import mutants

SOURCE = """def f(xs, n=2):
    \"\"\"Say 1 + 1.\"\"\"
    total = 0
    for x in xs:
        if x > n and x not in (7, 9):
            total += x * n
    return total
"""


def test_mutants_are_one_change_away_and_of_every_operator():
    found = mutants(SOURCE)
    assert {each.operator for each in found} == {
        "arithmetic",
        "relational",
        "logical",
        "constant",
        "deletion",
    }
    texts = [each.source for each in found]
    assert len(set(texts)) == len(texts)
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    assert found == mutants(SOURCE)
    for text in texts:
        function = ast.parse(text).body[0]
        assert ast.get_docstring(function) == "Say 1 + 1."
        assert ast.unparse(function.args) == "xs, n=2"
    for line in ("if x >= n and", "if x > n or", "x in (7", "total -= x", "x + n", "total = 1", "not (x > n"):
        assert any(line in text for text in texts), line
    assert mutants("def f(:") == []


@pytest.mark.usefixtures("shut_in")
def test_own_tests_are_held_against_wrong_and_right_programs(write, tmp_path):
    """The docstring's one example can't tell n + 2 and n * n from 2 * n; of the second problem there is no example."""
    prompt = 'def {}(n):\n    """Return twice n.\n{}    """\n'
    check = "def check(candidate):\n    assert candidate(21) == 42\n    assert candidate(2) == 4\n"
    rows = [
        {
            "task_id": name,
            "prompt": prompt.format(name, example),
            "entry_point": name,
            "canonical_solution": "    return n * 2\n",
            "test": check,
        }
        for name, example in (("twice", "\n    >>> twice(2)\n    4\n"), ("untold", ""))
    ]
    right = write("more.jsonl", {"task_id": "twice", "solution": "    return n + n\n"})
    out = tmp_path / "out"
    asked = ["judge", "--data", write("data.jsonl", *rows), "--right", right, "--mutants", "99", "--out", out]
    done = CliRunner().invoke(main, [str(each) for each in asked])
    assert done.exit_code == 0, done.output
    page = (out / "humaneval_verdicts.md").read_text()
    assert "judge --data data.jsonl --right more.jsonl --mutants 99 --seed 0`" in page
    groups = json.loads((out / "humaneval_verdicts.json").read_text())["groups"]
    told, arithmetic = groups["mutants"], groups["mutants, arithmetic"]
    assert told["untested_wrong"] == told["false_positive"] + told["true_negative"] > 6
    assert (arithmetic["false_positive"], arithmetic["true_negative"], arithmetic["untested_wrong"]) == (
        2,
        4,
        6,
    )
    canonical = {"true_positive": 1, "untested_right": 1, "false_negative": 0}
    assert canonical.items() <= groups["canonical solutions"].items()
    assert groups["logged solutions"]["true_positive"] == 1
    assert "| mutants, arithmetic | 0 | 2 | 0 | 4 | 0, 6 |" in done.output
