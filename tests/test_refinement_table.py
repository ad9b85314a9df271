"""The table of docs/refinement.md: a line for each requirement of the seed, and what it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "refinement.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z]\d\d) \| ([^|\n]+) \| ([^|\n]+) \| ([^|\n]+) \|$", PAGE, re.MULTILINE)

# The requirements of seed 001: how many there are of each kind, from loop and configuration to open questions.
COUNTS = {"L": 7, "C": 18, "T": 6, "E": 13, "R": 5, "V": 5, "H": 9, "K": 5, "F": 5, "S": 5, "Q": 4}


@cache
def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_requirement_has_one_line_and_the_lines_are_in_order():
    expected = [f"{kind}{number:02}" for kind, count in COUNTS.items() for number in range(1, count + 1)]
    assert [row[0] for row in ROWS] == expected


@pytest.mark.parametrize(("requirement", "_", "where", "tests"), ROWS, ids=[row[0] for row in ROWS])
def test_what_a_line_names_is_there(requirement, _, where, tests):
    modules = named(where)
    assert modules, "no module is named"
    for module in modules:
        folder = ROOT if module.startswith("benchmarks/") else ROOT / "jeeves_reflexion"
        assert (folder / module).is_file(), module
    file, found = None, []
    for name in named(tests):
        if name.endswith(".py"):
            file = (ROOT if name.startswith("tests/") else ROOT / "tests" / "jeeves_reflexion") / name
            assert file.is_file(), name
        else:
            assert file is not None, f"{name} stands before any file"
            assert name in functions_in(file), f"{name} is not in {file}"
            found.append(name)
    assert found, "no test is named"
    assert tests.count("`") == 2 * len(named(tests)), "a backtick has no other"
    assert not re.sub(r"`[^`]+`|[:;, ]", "", tests), "the cell says something that is not looked at here"
