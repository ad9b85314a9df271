"""The benchmark of the sandbox, at its smallest: it measures what it says, and its page and figures agree."""

import json
import re

import pytest
from click.testing import CliRunner

from benchmarks.sandbox import matrix
from benchmarks.sandbox import measure as measuring
from benchmarks.sandbox.__main__ import main
from benchmarks.sandbox.measure import BARE, Side
from jeeves_reflexion.sandbox import probe


@pytest.fixture(scope="module", autouse=True)
def shut_in():
    if not probe().complete:
        pytest.skip("this machine can't isolate code")


def run(folder, *options):
    return CliRunner().invoke(main, ["--repetitions", "2", "--out", str(folder), *options])


def test_a_tiny_measurement_writes_its_page_and_its_figures(tmp_path):
    done = run(tmp_path / "new")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "new" / "sandbox.json").read_text())
    assert found["isolation"] == probe().way
    names = [side["name"] for side in found["sides"]]
    assert names[:3] == [BARE, "sandbox, cold", "sandbox, warm"]
    assert set(names[3:]) <= {"sandbox, cold, Lua", "sandbox, cold, Prolog"}
    for side in found["sides"]:
        assert len(side["seconds"]) == 2
        assert min(side["seconds"]) > 0
        assert side["median"] == sum(side["seconds"]) / 2
        assert side["ratio"] == side["median"] / found["sides"][0]["median"]
    page = (tmp_path / "new" / "sandbox.md").read_text()
    assert done.output == f"{page}\n"
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) \(([\d.]+) to ([\d.]+)\) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert [name for name, *_ in rows] == names
    for (_, median, _, _, ratio), side in zip(rows, found["sides"], strict=True):
        assert (median, ratio) == (f"{1000 * side['median']:.1f}", f"{side['ratio']:.2f}")
    assert "2 evaluations of each kind" in page


@pytest.mark.parametrize("broken", ["_EVALUATOR", "_OUTPUT"])
def test_an_evaluation_that_comes_to_something_else_is_no_measurement(tmp_path, monkeypatch, broken):
    changed = {
        "_EVALUATOR": "\nimport json\nresult = {'valid': False, 'score': 0.0}\n",
        "_OUTPUT": '{"name": "Ada"}',
    }
    monkeypatch.setattr(measuring, broken, changed[broken])
    done = run(tmp_path / "new")
    assert done.exit_code != 0
    assert isinstance(done.exception, AssertionError)
    assert not (tmp_path / "new").exists()


def test_the_median_of_a_side_is_that_of_its_seconds():
    assert Side("a", (3.0, 1.0, 2.0)).median == 2.0


def test_no_repetition_is_refused(tmp_path):
    assert run(tmp_path, "--repetitions", "0").exit_code == 2


def test_the_matrix_says_which_attack_got_through(tmp_path, monkeypatch):
    def attacked(way, *, nobody=False):
        if way == "landlock":
            return "this kernel has no Landlock"
        return {"endless": "", "sockets": "ended as value" if nobody else "", "host": ""}

    monkeypatch.setattr(matrix, "attacked", attacked)
    monkeypatch.setattr(matrix.os, "geteuid", lambda: 0)
    done = CliRunner().invoke(matrix.main, ["--out", str(tmp_path)])
    assert done.exit_code == 1
    page = (tmp_path / "sandbox-attacks.md").read_text()
    none = "this kernel has no Landlock"
    assert f"| sockets | held | **got through**: ended as value | {none} | {none} |" in page
    assert json.loads((tmp_path / "sandbox-attacks.json").read_text())["landlock, root"] == none
    monkeypatch.setattr(matrix, "attacked", lambda way, *, nobody=False: {"endless": "", "host": ""})
    assert CliRunner().invoke(matrix.main, ["--out", str(tmp_path)]).exit_code == 0
