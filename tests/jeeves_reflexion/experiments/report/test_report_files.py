"""Files of a report: what is written, and what is said where something can't be."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from synthetic_results import results

from jeeves_reflexion import ExperimentError
from jeeves_reflexion.experiments.report import make_report, markdown, write_report


def test_a_report_is_a_page_a_table_and_pictures(tmp_path):
    made = results(6, ("react", "retry", "selective"), (0, 1), 3, 3, lift=True)
    found = write_report(made, tmp_path / "new" / "folder", title="A $run$ <of> mine")
    assert found.html.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert found.markdown.read_text(encoding="utf-8").startswith("# A $run$ <of> mine\n")
    assert [path.name for path in found.pictures] == [
        "curves-learning-oracle-judged.svg",
        "curves-held-out-oracle-judged.svg",
    ]
    for path in found.pictures:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")}
        assert set(made.arms) <= texts, "whose marks are whose is in the picture"


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(ExperimentError, match=r"report can't be written to .*file"):
        write_report(results(2), tmp_path / "file")


def test_tables_in_markdown_have_a_cell_for_each_head():
    made = results(
        5, ("react", "retry", "selective@2"), (0, 1), 3, 2, scored=True, judged_by="self", tokens=False
    )
    told = markdown(make_report(made))
    blocks = [block.splitlines() for block in told.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 12
    for block in blocks:
        assert len({line.count("|") for line in block}) == 1
        assert set(block[1]) <= set("|- ")
    assert told.count("## 5 tasks that were learned from; judged by an oracle") == 1
    assert told.count("## 5 tasks that were learned from; judged by the agent's own side") == 1
    assert "tokens and cost are unknown" in told
    assert not re.search(r"\| 0(\.0+)? \|$", told, re.MULTILINE), "an unknown cost is no cost of 0"


def test_as_many_tasks_as_alfworld_has_stay_a_page_of_some_megabytes(tmp_path):
    made = results(
        100, ("react", "retry", "last-attempt", "reflexion", "selective"), (0, 1, 2), 4, 34, steps=30
    )
    found = write_report(made, tmp_path)
    assert found.html.stat().st_size < 16_000_000
