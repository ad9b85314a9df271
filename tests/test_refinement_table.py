"""The table of seed 001 in docs/coverage.md: a line for each requirement, and the tests that it names are there."""

import ast
import re
from functools import cache
from pathlib import Path

from tables import table

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^([A-Z]\d\d) \| (.+)$", PAGE.partition("## Seed 002")[0], re.MULTILINE)

# The requirements of seed 001: how many there are of each kind, from loop and configuration to open questions.
COUNTS = {"L": 7, "C": 18, "T": 6, "E": 13, "R": 5, "V": 5, "H": 9, "K": 5, "F": 5, "S": 5, "Q": 4}


@cache
def functions_in(file: str) -> set[str]:
    """Return the test functions of every file of this name below ``tests/``: files may move between folders."""
    return {
        node.name
        for path in (ROOT / "tests").rglob(file)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_requirement_has_one_line_and_the_lines_are_in_order():
    expected = [f"{kind}{number:02}" for kind, count in COUNTS.items() for number in range(1, count + 1)]
    assert [row[0] for row in ROWS] == expected


@table(("requirement", "tests"), ROWS)
def test_the_tests_that_a_line_names_are_there(requirement, tests):
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
    assert named, "no test is named"
    for file, function in named:
        assert function in functions_in(file), f"{requirement}: {function} is in no {file} below tests/"
    assert not re.sub(r"`test_\w+\.py::test_\w+`", "", tests).strip(), (
        "the cell says something that is not looked at"
    )
