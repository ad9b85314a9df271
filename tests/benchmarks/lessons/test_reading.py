"""Lessons in other wordings: each says what was found out, in one sentence."""

from __future__ import annotations

from benchmarks.alfworld.observations import things_in
from benchmarks.alfworld.rules_reflector import Findings
from benchmarks.lessons.reading import other_wordings, ratio, say

OPENING = "You see a desk 1, a shelf 1, a shelf 2.\n\nYour task is to: put two mug in desk."
STEPS = [
    ("", "go to shelf 1", "On the shelf 1, you see a mug 1."),
    ("", "go to shelf 2", "On the shelf 2, you see nothing."),
]


def test_every_wording_is_one_sentence_that_names_what_was_found_where_and_what_was_not():
    found = Findings.of(OPENING, STEPS)
    for words in other_wordings():
        text = say(found, words, won=False)
        named = {str(thing) for thing in things_in(text.replace("(", "").replace("shelves", "shelf"))}
        assert named == {"mug 1", "shelf 1", "shelf 2"}
        assert "other mug" in text
        assert text.count(".") == 1
        assert "shelf 2" not in say(found, words, won=True)


def test_a_ratio_over_clusters_is_drawn_anew_by_cluster():
    sure = ratio([(1, 2)] * 10)
    assert (sure.value, sure.low, sure.high) == (0.5, 0.5, 0.5)
    mixed = ratio([(0, 2), (2, 2)] * 5)
    assert mixed.low < mixed.value == 0.5 < mixed.high
