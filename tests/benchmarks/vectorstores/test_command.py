"""A quick run measures every line, and writes the page and its JSON."""

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.vectorstores.command import main

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="FAISS is not installed"),
    pytest.mark.usefixtures("cheap_collections"),
]


def _run(tmp_path: Path, *options: str) -> dict[str, list[dict[str, object]]]:
    words = [
        "--quick",
        "--folder",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
        *options,
    ]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "vectorstores.md").read_text() in done.output
    # The stores that were made are gone.
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    figures: dict[str, list[dict[str, object]]] = json.loads(
        (tmp_path / "out" / "vectorstores.json").read_text()
    )
    return figures


def test_every_line_of_the_faiss_store_is_measured(tmp_path: Path) -> None:
    figures = _run(tmp_path, "--store", "folder")
    found = {str(line["what"]): line for line in figures["lines"]}
    assert list(found) == [
        "search 300",
        "search 300, recall@5",
        "durable single add, 300 rows there",
        "32 concurrent writers",
        "load 6,000",
        "search 6,000",
        "search 6,000, recall@5",
        *(f"search 6,000, filter {share}{what}" for share in ("1%", "10%") for what in ("", ", recall@5")),
        "open 6,000 with a snapshot, first search answered",
        "memory per lesson at 6,000, beyond its raw vector",
        "delete one of 6,000, searches going on",
    ]
    for what, line in found.items():
        if what.endswith("recall@5"):
            assert line["met"], what


@pytest.mark.skipif(importlib.util.find_spec("pgvector") is None, reason="pgvector is not installed")
def test_every_line_of_the_postgres_store_is_measured(tmp_path: Path, postgres_dsn: str) -> None:
    figures = _run(tmp_path, "--store", "postgres", "--dsn", postgres_dsn)
    searches = [
        f"search 600{where}, {what}"
        for where in ("", ", filter 1%", ", filter 10%")
        for what in ("1 at a time", "32 at a time", "recall@5")
    ]
    assert [line["what"] for line in figures["lines"]] == [
        "load 600 without its index",
        *searches,
    ]
    assert all(line["met"] for line in figures["lines"] if str(line["what"]).endswith("recall@5"))
