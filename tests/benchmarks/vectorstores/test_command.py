"""A quick run measures every line, and writes the page and its JSON."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.vectorstores import command
from benchmarks.vectorstores.command import main

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="FAISS is not installed"),
    pytest.mark.usefixtures("cheap_collections"),
]


def _run(tmp_path: Path, *options: str) -> dict[str, list[dict[str, object]]]:
    page = tmp_path / "page.md"
    words = [
        "--quick",
        "--folder",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
        "--docs",
        str(page),
        *options,
    ]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert page.read_text() in done.output
    # The stores that were made are gone.
    assert {path.name for path in tmp_path.iterdir()} == {"out", "page.md"}
    figures: dict[str, list[dict[str, object]]] = json.loads(
        (tmp_path / "out" / "vectorstores.json").read_text()
    )
    return figures


def test_every_line_of_the_faiss_store_is_measured(tmp_path: Path) -> None:
    figures = _run(tmp_path, "--postgres", "none")
    found = {str(line["what"]): line for line in figures["lines"]}
    assert list(found) == [
        "search 300, whole call",
        "search 300, recall@5",
        "durable single add, 300 rows there",
        "a call to a worker thread and back, nothing done in it",
        "32 concurrent writers",
        "load 6,000",
        "from the end of the load to the last slow search, 6,000",
        "search 6,000, whole call",
        "search 6,000, recall@5",
        *(
            f"search 6,000, filter {share} on a key that is {key}{what}"
            for key in ("declared", "undeclared")
            for share in ("1%", "10%")
            for what in ("", ", recall@5")
        ),
        "open 6,000 with a snapshot, first search answered",
        "memory per lesson at 6,000, beyond its raw vector",
        "delete one of 6,000, searches going on",
        "search 6,000 while rows are deleted",
    ]
    for what, line in found.items():
        if what.endswith("recall@5"):
            assert line["met"], what
    assert len(figures["event_loop"]) == 12
    assert "PostgreSQL" in figures["left_out"]


@pytest.mark.skipif(importlib.util.find_spec("pgvector") is None, reason="pgvector is not installed")
def test_every_line_of_the_postgres_store_is_measured(tmp_path: Path, postgres_dsn: str) -> None:
    figures = _run(tmp_path, "--no-faiss", "--postgres", postgres_dsn)
    searches = [
        f"search 600{where}, {what}"
        for where in ("", ", filter 1%", ", filter 10%")
        for what in ("1 at a time", "32 at a time", "recall@5")
    ]
    assert [line["what"] for line in figures["lines"]] == [
        "load 600 without its index",
        *searches,
        "bulk load of 50 rows into 600",
    ]
    assert all(line["met"] for line in figures["lines"] if str(line["what"]).endswith("recall@5"))


def test_the_command_is_told_without_the_places_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ["--quick", "--out", "/secret/a", "--docs=/secret/b"]
    monkeypatch.setattr(
        sys, "argv", ["x", *said, "--postgres=postgresql://me:secret@host/db", "--calls", "3"]
    )
    told = command._command()
    assert told == ("python -m benchmarks.vectorstores --quick --postgres POSTGRES --calls 3")
