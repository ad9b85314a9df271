"""Slips that are words, judged by what a lesson learned often says and keeps."""

from dataclasses import replace

import pytest

from jeeves_reflexion.lessons.deciding import decide
from jeeves_reflexion.lessons.merging import COPIES, WORDINGS
from jeeves_reflexion.lessons.sameness import Neighbour, slip_of
from jeeves_reflexion.lessons.slips import SLIP_IN, mended, settled
from jeeves_reflexion.types import Lesson, Provenance

CUP = "Place the cup in the cabinet after washing it."
KEPT = ("The cup belongs in the cabinet once it is clean.", "Once it is clean, put the cup into the cabinet.")


def lesson(id, text, *, support=1, kept=(), noted=()):
    notes = [{"text": each, "run_id": f"r{n}", "attempt": 1, "task_id": "t"} for n, each in enumerate(noted)]
    metadata = {WORDINGS: list(kept), COPIES: notes}
    source = Provenance(f"run {id}", 1, 0.0, created_at=1.0)
    return Lesson(id, text, "t", "a task", source, support=support, metadata=metadata)


KNOWN = lesson("a", CUP, support=90, kept=KEPT)


@pytest.mark.parametrize(
    "text",
    [
        "Pace the cup in the cabinet after washing it.",
        "Once it is clan, put the cup into the cabinet.",
        "The cup belongs in the cabinet once it is clan.",
        "Next time, the cup belongs in the cabinet oce it is clean.",
    ],
)
def test_a_word_that_a_lesson_learned_often_never_says_is_a_slip_of_one_that_it_says_there(text):
    assert decide(lesson("b", text), [Neighbour(KNOWN, 0.9, 1.0)]).kind == "merge"


@pytest.mark.parametrize(
    "text",
    [
        "Put the plate in the cabinet after washing it.",
        "The plate belongs in the cabinet once it is clean.",
        "Pack the cup in the cabinet after washing it.",
        "Never place the cup in the cabinet after washing it.",
        "Pace the plate in the cabinet after washing it.",
        "Pace the cup in the cabinet 2 after washing it.",
    ],
)
def test_another_word_in_another_place_is_no_slip(text):
    assert not slip_of(lesson("b", text), KNOWN)
    assert decide(lesson("b", text), [Neighbour(KNOWN, 0.9, 1.0)]).kind != "merge"


def test_a_slip_is_one_by_how_often_it_can_have_been_said():
    clan = "Once it is clan, put the cup into the cabinet."
    assert slip_of(lesson("b", clan), replace(KNOWN, support=SLIP_IN))
    assert not slip_of(lesson("b", clan), replace(KNOWN, support=SLIP_IN - 1))
    assert not slip_of(lesson("b", clan, support=2), KNOWN)
    assert slip_of(lesson("b", clan, support=2, noted=(KEPT[1],)), KNOWN)
    assert not slip_of(lesson("b", clan, support=2, noted=(clan.upper(),)), KNOWN)


def test_words_that_turn_or_count_and_names_are_never_read_into_a_text_or_out_of_it():
    never = lesson("a", "Never place the cup in the cabinet in five days.", support=900)
    for text in (
        "Newer place the cup in the cabinet in five days.",
        "Never place the cup in the cabinet in fine days.",
        "Never place the cup in the Cabined in five days.",
    ):
        assert list(mended(lesson("b", text), never)) == []


def test_a_slip_of_a_word_that_says_nothing_excuses_nothing_else():
    known = lesson("a", "Convert the miles to metres before giving the distance.", support=80)
    slip = "Pleaes convert the miles to metres before giving the distance."
    assert slip_of(lesson("b", slip), known)
    assert not slip_of(lesson("b", slip.replace("convert", "write")), known)


def test_a_few_slips_among_the_wordings_are_mended_and_nothing_else():
    odd = lesson("a", CUP, support=60, kept=(*KEPT, "The cup goes in the cabinet once it is clan."))
    assert settled(odd).metadata[WORDINGS][-1] == "The cup goes in the cabinet once it is clean."
    assert settled(odd).metadata[WORDINGS][:-1] == list(KEPT)
    assert settled(replace(odd, support=SLIP_IN - 1)) == replace(odd, support=SLIP_IN - 1)
    assert settled(KNOWN) == KNOWN
