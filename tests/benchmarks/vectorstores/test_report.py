"""Bounds are judged as they are written, and the page and its JSON hold all that was found."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.timing import Stall, median
from benchmarks.vectorstores.lines import Amount, Bound, Line, Run, Settings, single
from benchmarks.vectorstores.report import figures, page
from benchmarks.vectorstores.search import beyond_raw


def test_a_bound_holds_on_its_own_side():
    for kind, below, at, above in [
        ("at most", True, True, False),
        ("at least", False, True, True),
    ]:
        bound = Bound(kind, 2.0)
        assert (bound.holds(1.9), bound.holds(2.0), bound.holds(2.1)) == (below, at, above)


def test_a_line_without_a_bound_is_neither_met_nor_not() -> None:
    line = Line("FAISS", "load", single(5.0, "s"))
    assert line.met is None
    assert replace(line, bound=Bound("at most", 4.9)).met is False


def test_amounts_are_printed_in_their_unit_and_bounds_too() -> None:
    assert str(Amount(median([0.001, 0.002, 0.003]), "ms")).startswith("2 ms (1")
    assert str(single(0.00031, "ms")) == "0.31 ms"
    assert str(single(0.99, "share")) == "0.9900"
    assert str(single(1234.0, "per s")) == "1,234 per s"
    assert Bound("at most", 0.0003).text("ms") == "at most 0.3 ms"
    assert Bound("at least", 0.99).text("share") == "at least 0.99"


def test_memory_beyond_the_vectors_wherever_they_lie() -> None:
    # In private memory; mapped; mapped and hardly read, for which there is no credit.
    assert beyond_raw(1000, {"private": 1300, "file": 50}) == 350
    assert beyond_raw(1000, {"private": 300, "file": 1100}) == 400
    assert beyond_raw(1000, {"private": 300, "file": 20}) == 300


def test_the_page_and_its_json_hold_every_line(tmp_path: Path) -> None:
    run = Run(Settings(), tmp_path, lambda line: None)
    run.add(Line("FAISS", "search", single(0.1, "times"), Bound("at least", 5.0), note="slow"))
    run.add(Line("FAISS", "filter", single(0.001, "ms"), Bound("at most", 0.005)))
    run.stalled(Stall("search", 0.03, 0.001, 0.04))
    run.left_out.append("the moon")
    run.versions["other"] = "1.2"
    text = page(run, "python -m benchmarks.vectorstores")
    assert "1 of 3 bounds are met" in text
    assert "| FAISS | search |  |  | 0.1 times; slow | at least 5 times | **no** |" in text
    assert "| FAISS | filter |  |  | 1 ms | at most 5 ms | yes |" in text
    assert "| search | 30.00 | 1.00 | 29.00 | 40.0 | **no** |" in text
    assert "- the moon" in text
    found = json.loads(json.dumps(figures(run, "python -m benchmarks.vectorstores")))
    assert [line["met"] for line in found["lines"]] == [False, True]
    assert found["lines"][0]["found"] == {
        "median": 0.1,
        "low": 0.1,
        "high": 0.1,
        "each": [0.1],
        "unit": "times",
    }
    assert found["event_loop"][0]["met"] is False
    assert found["versions"] == {"other": "1.2"}
