"""``docs/coverage.md``: a line for every requirement of the seeds, and the files and tests that it names are there."""

import re
from functools import cache
from pathlib import Path

from tables import table

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## Seed (\d{3}).*$", PAGE, flags=re.MULTILINE)
SEEDS = dict(zip(SECTIONS[1::2], SECTIONS[2::2], strict=True))
ROWS = re.findall(r"^([A-Z]\d\d) \| (.+)$", SEEDS["001"], re.MULTILINE)

# How many requirements there are of each kind; of seed 001 from loop and configuration to open questions.
COUNTS = {
    "000": {"N": 67},
    "001": {"L": 7, "C": 18, "T": 6, "E": 13, "R": 5, "V": 5, "H": 9, "K": 5, "F": 5, "S": 5, "Q": 4},
    "002": {"X": 39},
    "003": {"B": 37},
    "004": {"A": 16},
}
NAMED = {
    "000": {"": "jeeves_reflexion/tasknotes"},
    "001": {kind.lower(): "jeeves_reflexion" for kind in COUNTS["001"]},
    "002": {"x": "jeeves_reflexion/reflections"},
}
"""How the tests of a seed are named by ids, and the folder where they lie."""


@cache
def functions_in(file: str, below: str = "") -> set[str]:
    """Return the test functions of every file of this name below a folder: files may move between folders."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests" / below).rglob(file))
    return {name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}


def numbers(ids: str, kind: str = "") -> list[int]:
    """Return the numbers of "X01 to X03, X05", or of "x01_to_x03_x05" in a test's name."""
    one = rf"{kind}(\d\d)(?!\d)"
    spans = re.findall(rf"(?<![A-Za-z0-9]){one}(?:(?: to |_to_){one})?", ids)
    return [number for first, last in spans for number in range(int(first), int(last or first) + 1)]


@table("seed", COUNTS)
def test_every_requirement_has_one_line(seed):
    cells = re.findall(r"^((?:[A-Z]\d\d(?: to |, )?)+) \|", SEEDS[seed], re.MULTILINE)
    for kind, count in COUNTS[seed].items():
        found = [number for cell in cells if cell[0] == kind for number in numbers(cell, kind)]
        assert sorted(found) == list(range(1, count + 1)), kind


def test_the_files_that_the_page_names_are_there():
    for path in re.findall(r"`([\w/]+/[\w.]+\.\w+)`", PAGE):
        assert (ROOT / path).exists(), path
    for file in re.findall(r"`(test_\w+\.py)`", PAGE):
        assert functions_in(file), f"there is no {file} with a test below tests/"


@table("seed", NAMED)
def test_every_requirement_whose_tests_are_not_named_has_one_of_its_name(seed):
    cells = re.findall(r"^([^|\n]+) \| [^|\n]+ \| [^|\n]+ \| `test_", SEEDS[seed], re.MULTILINE)
    cells += re.findall(r"^([^|\n]+) \| [^|\n]+ \| `test_", SEEDS[seed], re.MULTILINE)
    assert cells
    for kind, folder in NAMED[seed].items():
        found = functions_in("test_*.py", folder)
        held = {number for name in found for number in numbers(name, kind)}
        wanted = {number for cell in cells for number in numbers(cell, kind.upper() or "N")}
        assert wanted <= held, (kind, wanted - held)


@table(("requirement", "tests"), ROWS)
def test_the_tests_that_a_line_names_are_there(requirement, tests):
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
    assert named, "no test is named"
    for file, function in named:
        assert function in functions_in(file), f"{requirement}: {function} is in no {file} below tests/"
    assert not re.sub(r"`test_\w+\.py::test_\w+`", "", tests).strip(), (
        "the cell says something that is not looked at"
    )
