"""Bounds are judged as they are written, and the page and its JSON hold all that was found."""

import json

import pytest

from benchmarks.timing import median
from benchmarks.vectorstores.lines import Line, Run, Settings, figures, page, text
from benchmarks.vectorstores.search import beyond_raw


@pytest.mark.parametrize(
    ("bound", "met"),
    [
        ({"at_most": 2.0}, [True, True, False]),
        ({"at_least": 2.0}, [False, True, True]),
        ({}, [None] * 3),
    ],
)
def test_a_bound_holds_on_its_own_side(bound, met):
    assert [Line("FAISS", "load", median([value]), **bound).met for value in (1.9, 2.0, 2.1)] == met


def test_figures_are_written_with_the_digits_that_are_worth_reading():
    assert text(median([1.0, 2.0, 3.0]), "ms").startswith("2 ms (1")
    assert text(median([0.99]), "") == "0.9900"
    assert text(median([1234.0]), "per s") == "1,234 per s"


def test_memory_beyond_the_vectors_wherever_they_lie() -> None:
    # In private memory; mapped; mapped and hardly read, for which there is no credit.
    assert beyond_raw(1000, {"private": 1300, "file": 50}) == 350
    assert beyond_raw(1000, {"private": 300, "file": 1100}) == 400
    assert beyond_raw(1000, {"private": 300, "file": 20}) == 300


def test_the_page_and_its_json_hold_every_line(tmp_path):
    run = Run(Settings(), tmp_path, "python -m benchmarks.vectorstores", lambda line: None)
    run.add(Line("FAISS", "search", median([0.1]), "times", note="slow", at_least=5.0))
    run.compare(("FAISS", "filter"), ([0.001], [0.002]), "a scan", "times", 1.0)
    run.versions["other"] = "1.2"
    said = page(run)
    assert "1 of 2 bounds are met" in said
    assert "| FAISS | search |  |  | 0.1 times; slow | at least 5 times | **no** |" in said
    assert "| FAISS | filter | 1 ms | 2 ms (a scan) | 0.5 times | at most 1 times | yes |" in said
    found = json.loads(json.dumps(figures(run)))
    assert [line["met"] for line in found["lines"]] == [False, True]
    assert found["lines"][0]["found"]["each"] == [0.1]
    assert found["versions"] == {"other": "1.2"}
