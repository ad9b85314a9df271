"""The command, from end to end."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.refinement.command import refinement
from benchmarks.refinement.figures import BOUNDS

TINY = ["--tasks", "3", "--seeds", "0", "--grid", "0,0.3/0.1"]


def invoke(out: Path, *arguments: str):
    return CliRunner().invoke(refinement, [*arguments, "--out", str(out)])


def test_a_tiny_measurement_writes_its_page_and_its_figures(tmp_path):
    done = invoke(tmp_path, *TINY, "--workers", "1")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "refinement.md").read_text()
    assert page in done.stdout
    assert "$" not in page
    assert "jeeves-reflexion bench refinement --tasks 3 --seeds 0 --grid 0,0.3/0.1" in page
    found = json.loads((tmp_path / "refinement.json").read_text())
    cells = found["cells"]
    assert [(cell["judge"], cell["reviser"]) for cell in cells] == [(0.0, 0.1), (0.3, 0.1)]
    assert all(cell["figures"][bound.figure]["n"] >= 3 for cell in cells for bound in BOUNDS)
    assert set(found["versions"]) == {"jeeves-reflexion", "machine"}
    assert "jobs: 19 of 19" in done.stderr


def test_the_figures_are_the_same_in_two_processes(tmp_path):
    for workers in ("1", "2"):
        assert invoke(tmp_path / workers, *TINY, "--workers", workers).exit_code == 0
    one, two = (json.loads((tmp_path / workers / "refinement.json").read_text()) for workers in ("1", "2"))
    for found in (one, two):
        del found["seconds"], found["setting"]["workers"]
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grid", "0,2"], "no list of errors"),
        (["--grid", "a"], "no list of errors"),
        (["--seeds", "x"], "not a list of whole numbers"),
        (["--tasks", "1"], "--tasks"),
    ],
)
def test_wrong_options_are_refused(tmp_path, arguments, said):
    done = invoke(tmp_path, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
