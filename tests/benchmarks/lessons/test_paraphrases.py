"""The benchmark of paraphrases at a tiny size: its corpus, its counting and its page."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.lessons.paraphrase_play import Vectors, play
from benchmarks.lessons.paraphrases import HELD_OUT, main
from benchmarks.lessons.paraphrasing import Noise, base_lessons, sayings
from jeeves_reflexion.lessons.merging import MergeSettings
from vectorstores import HashingEmbedder

QUIET = Noise(before=0, after=0, typo=0, casing=0, short=0)


def test_the_corpus_has_fifty_lessons_most_of_them_near_pairs():
    bases = base_lessons()
    assert len({base.name for base in bases}) == len(bases) == 50
    groups = [base.group for base in bases]
    assert sum(groups.count(group) > 1 for group in groups) >= 30
    assert all(len(base.wordings) >= 3 for base in (*bases, *base_lessons(HELD_OUT)))


def test_sayings_are_distinct_shared_out_evenly_and_the_same_for_a_seed():
    said = sayings(200, seed=3)
    assert len({one.text for one in said}) == 200
    assert {sum(one.lesson == n for one in said) for n in range(50)} == {4}
    assert sayings(200, seed=3) == said
    assert sayings(200, seed=4) != said
    assert not any(mark in one.text + one.task for one in said for mark in "{}|")


def test_more_paraphrases_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="has fewer than"):
        sayings(5_000, seed=1, noise=QUIET)


@pytest.mark.anyio
@pytest.mark.parametrize("at_once", [1, 8])
async def test_paraphrases_merge_with_their_own_lesson_and_are_all_counted(at_once):
    said = sayings(300, seed=5)
    vectors = await Vectors.of(HashingEmbedder(), [text for one in said for text in (one.text, one.task)])
    played = await play(said, vectors, MergeSettings(), at_once=at_once)
    assert played.mended.pure >= 0.99
    assert played.mended.lost == 0
    assert 50 <= played.mended.left <= played.written.left < 150
    assert sum(sum(held.values()) for held in played.library.holds.values()) == 300


def test_the_command_writes_its_page_and_figures(tmp_path):
    log = tmp_path / "log.jsonl"
    texts = ["Open the drawer.", "Sell the old car.", "Open the drawer."]
    log.write_text(
        json.dumps({"run": "a", "env": "b", "reflections": [{"text": t} for t in texts]}), encoding="utf-8"
    )
    options = [
        "--n",
        "60",
        "--settings-n",
        "50",
        "--seeds",
        "1",
        "--embedders",
        "hashing",
        "--out",
        str(tmp_path),
    ]
    done = CliRunner().invoke(main, [*options, "--reflections", str(log)], catch_exceptions=False)
    assert done.exit_code == 0
    page = (tmp_path / "lessons_paraphrases.md").read_text(encoding="utf-8")
    assert "None: all stayed distinct." in page
    assert str(tmp_path) not in page
    figures = json.loads((tmp_path / "lessons_paraphrases.json").read_text(encoding="utf-8"))
    logged = [row for row in figures["rows"] if row["what"] == "logged reflections"]
    assert [(row["n"], row["mended"]["left"]) for row in logged] == [(2, 2)]
