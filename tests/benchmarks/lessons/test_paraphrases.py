"""The benchmark of paraphrases at a tiny size: its corpus, its counting and its page."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.lessons.lexicon import stems
from benchmarks.lessons.near_pairs import (
    HELD_OUT_PAIRS,
    bridges,
    merged_by_rules,
    merged_by_way,
    merged_by_wordings,
    merged_on_writing,
    near_pairs,
)
from benchmarks.lessons.paraphrase_play import Vectors, play
from benchmarks.lessons.paraphrases import HELD_OUT, main
from benchmarks.lessons.paraphrasing import Noise, base_lessons, sayings
from benchmarks.lessons.synonyms import contrasts
from benchmarks.lessons.synonyms import pairs as synonym_pairs
from jeeves_reflexion.lessons.merging import MergeSettings
from vectorstores import HashingEmbedder

QUIET = Noise(before=0, after=0, typo=0, casing=0, short=0)


def test_the_corpus_has_fifty_lessons_most_of_them_near_pairs():
    bases = base_lessons()
    assert len({base.name for base in bases}) == len(bases) == 50
    groups = [base.group for base in bases]
    assert sum(groups.count(group) > 1 for group in groups) >= 30
    assert all(
        len(base.wordings) >= 3
        for base in (*bases, *(base for corpus in HELD_OUT.values() for base in base_lessons(corpus)))
    )


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


@pytest.mark.anyio
@pytest.mark.parametrize(("corpus", "many", "fields"), [("near_pairs", 240, 15), (HELD_OUT_PAIRS, 36, 6)])
async def test_no_near_pair_is_merged_whatever_the_embedder_says(corpus, many, fields):
    pairs = near_pairs(corpus)
    assert len({frozenset((each.one, each.other)) for each in pairs}) == len(pairs) >= many
    assert len({each.field for each in pairs}) >= fields
    assert all(each.one != each.other for each in pairs)
    assert merged_on_writing(pairs) == []
    assert await merged_by_rules(pairs) == []


def test_no_near_pair_is_merged_by_way_of_a_third():
    pairs = near_pairs()
    assert sum(len(bridges(each)) for each in pairs) >= 480
    assert merged_by_way(pairs) == []
    assert len(merged_by_way(pairs, vague_first=True)) < 100
    assert merged_by_way(near_pairs(HELD_OUT_PAIRS)) == []


@pytest.mark.parametrize("corpus", ["near_pairs", HELD_OUT_PAIRS])
def test_no_near_pair_is_one_by_wordings_that_lack_the_difference(corpus):
    assert merged_by_wordings(near_pairs(corpus)) == []


def test_near_pairs_are_merged_once_an_unknown_word_may_stand_for_another():
    pairs = near_pairs()
    assert len(merged_on_writing(pairs, MergeSettings(sure_similarity=0.7))) > len(pairs) / 4


def test_the_lexicon_holds_stems_of_words_in_lower_case_with_four_letters_or_more():
    assert stems(["cat", "walked", "walks", "Paris", "don't", "rates"]) == {"walk", "rate"}


def test_synonyms_are_common_words_whose_usual_sense_is_the_same():
    senses = """
    buy%2:40:00:: 01 1 90
    purchase%2:40:00:: 01 1 30
    board%1:06:00:: 02 1 5
    plank%1:06:00:: 02 1 5
    board%1:14:00:: 03 2 95
    open%2:35:00:: 04 1 9
    close%2:35:00:: 04 1 9
    aardvark%1:05:00:: 05 1 1
    anteater%1:05:00:: 05 1 1
    """.strip().splitlines()
    assert synonym_pairs(senses) == {("buy", "purchase")}
    assert synonym_pairs(senses, least_share=0.01) == {("buy", "purchase"), ("board", "plank")}
    assert synonym_pairs(senses, left_out=[frozenset(("buy", "purchase"))]) == set()


def test_contrasting_adjectives_have_an_opposite_or_are_in_use_near_one():
    adjectives = """
      1 the licence
    00000001 00 a 01 dry 0 002 ! 00000002 a 0101 & 00000003 a 0000 | free of water
    00000002 00 a 01 wet(p) 0 001 ! 00000001 a 0101 | full of water
    00000003 00 s 02 arid 0 waterless 0 001 & 00000001 a 0000 | very dry
    00000004 00 a 01 wooden 0 000 | of wood
    """
    lines = [line.removeprefix("    ") for line in adjectives.splitlines() if line.strip()]
    senses = ["arid%5:00:00:dry:00 00000003 1 2", "waterless%5:00:00:dry:00 00000003 1 0"]
    assert contrasts(lines, senses) == {"dry", "wet", "arid"}


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
    assert "all stayed distinct" in done.stdout
    assert not any(text in page for text in texts)
    assert "| hashing | on writing, sure_similarity 1.0 | 246 | 0 |" in page
    assert "| hashing | by consolidation | 246 | 0 |" in page
    assert str(tmp_path) not in page
    figures = json.loads((tmp_path / "lessons_paraphrases.json").read_text(encoding="utf-8"))
    logged = [row for row in figures["rows"] if row["what"] == "logged reflections"]
    assert [(row["n"], row["mended"]["left"]) for row in logged] == [(2, 2)]
