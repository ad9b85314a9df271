"""Files of a report: what is written, and what is said where something can't be."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from synthetic_results import results

from jeeves_reflexion import ExperimentError, MissingDependencyError
from jeeves_reflexion.experiments.report import make_report, markdown, pictures, write_report, writing


def test_a_report_is_a_page_a_table_and_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    made = results(6, ("react", "retry", "selective"), (0, 1), 3, 3, lift=True)
    found = write_report(made, tmp_path / "new" / "folder", title="A $run$ <of> mine")
    assert found.html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert found.markdown.read_text(encoding="utf-8").startswith("# A $run$ <of> mine\n")
    assert [path.name for path in found.pictures] == [
        "curves-learning-oracle-judged.png",
        "tokens-learning-oracle-judged.png",
        "lifts.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in found.pictures)
    assert found.not_drawn == ""
    assert write_report(made, tmp_path / "new" / "folder", pictures=False).pictures == ()


def test_without_matplotlib_the_report_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "drawable", lambda: False)
    found = write_report(results(3), tmp_path)
    assert found.html.exists()
    assert found.pictures == ()
    assert 'pip install "jeeves-reflexion[plot]"' in found.not_drawn
    assert write_report(results(3), tmp_path, pictures=False).not_drawn == ""
    with pytest.raises(MissingDependencyError, match=re.escape("jeeves-reflexion[plot]")):
        write_report(results(3), tmp_path / "not", pictures=True)
    assert not (tmp_path / "not").exists()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=re.escape("jeeves-reflexion[plot]")):
        pictures.draw(make_report(results(3)), tmp_path)


def test_matplotlib_is_not_loaded_for_a_page(tmp_path):
    code = (
        "import sys; import jeeves_reflexion.experiments.report as r; r.writing.drawable();"
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(ExperimentError, match=r"report can't be written to .*file"):
        write_report(results(2), tmp_path / "file", pictures=False)


def test_tables_in_markdown_have_a_cell_for_each_head():
    made = results(
        5, ("react", "retry", "selective@2"), (0, 1), 3, 2, scored=True, judged_by="self", tokens=False
    )
    told = markdown(make_report(made))
    blocks = [block.splitlines() for block in told.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 16
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1
        assert set(block[1]) <= set("|- ")
    assert told.count("## 5 tasks that were learned from; judged by an oracle") == 1
    assert told.count("## 5 tasks that were learned from; judged by the agent's own side") == 1
    assert "unknown" in told
    assert not re.search(r"\| 0(\.0+)? \|$", told, re.MULTILINE), "an unknown cost is no cost of 0"


def test_as_many_tasks_as_alfworld_has_stay_a_page_of_some_megabytes(tmp_path):
    made = results(
        100, ("react", "retry", "last-attempt", "reflexion", "selective"), (0, 1, 2), 4, 34, steps=30
    )
    begun = time.monotonic()
    found = write_report(made, tmp_path, pictures=False)
    assert time.monotonic() - begun < 60
    assert found.html.stat().st_size < 16_000_000
