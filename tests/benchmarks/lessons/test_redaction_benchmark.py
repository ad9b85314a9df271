"""The benchmark of redaction at a tiny size."""

from __future__ import annotations

from click.testing import CliRunner

from benchmarks.lessons import redaction
from benchmarks.lessons.redaction_corpus import Labelled, load
from benchmarks.lessons.redaction_measures import read
from jeeves_reflexion import redact


def test_the_page_has_every_part(tmp_path, monkeypatch):
    monkeypatch.setattr(redaction, "_REFILLS", 1)
    done = CliRunner().invoke(redaction.main, ["--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    page = (tmp_path / "lessons_redaction.md").read_text()
    assert "| **all** |" in page


def test_a_part_of_a_value_that_survives_is_a_leak():
    row = Labelled("secret", "a hunter22 b c", ((2, 10),))
    assert read(row, lambda text: text.replace("hunter", "[REDACTED:x]")).leaked
    wide = read(row, lambda text: text.replace("hunter22 b", "[REDACTED:x]"))
    assert (wide.leaked, wide.wider, wide.hits, wide.beside) == (False, 2, 1, 0)


def test_a_seed_fills_the_corpus_the_same_way():
    assert load("dev", seed=3) == load("dev", seed=3) != load("dev", seed=4)
    assert all(row.text[start:end] for row in load("heldout") for start, end in row.spans)
    assert redact("nothing") == "nothing"
