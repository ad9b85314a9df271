"""Slips of the fingers: mended where one word alone can be meant, left alone where two can."""

import pytest

from jeeves_reflexion.lessons.likeness.comparing import compare, one_letter_apart
from jeeves_reflexion.lessons.likeness.spelling import (
    contractions,
    corrected,
    mended,
    misspelt,
    phrases_mended,
)


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("decsending", "descending"),
        ("desccending", "descending"),
        ("drawwer", "drawer"),
        ("frigde", "fridge"),
        ("endpoont", "endpoint"),
        ("schea", "schema"),
    ],
)
def test_a_slip_of_one_word_is_read_as_that(slip, meant):
    assert corrected(slip) == meant


@pytest.mark.parametrize("word", ["fidge", "sare", "pla", "mongod", "numba", "drawer", "x86"])
def test_a_word_that_may_be_two_or_none_is_left_as_it_is(word):
    assert corrected(word) == word


def test_two_slips_of_one_word_are_that_word():
    slips = [
        "Sort the marks in dedcending order.",
        "Sort the marks in desccending order.",
    ]
    seen = compare(*slips)
    assert (seen.conflict, seen.replaced, seen.added) == ("", 0, 0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ranks are gven out", "ranks are given out"),
        ("cabinets in odrer", "cabinets in order"),
        ("the desk is gong", "the desk is gong"),
    ],
)
def test_a_slip_in_a_phrase_is_read_by_the_word_beside_it(written, meant):
    assert phrases_mended(written) == meant


def test_a_contraction_negates_whatever_was_mistyped_in_front_of_it():
    assert contractions("it mjstn't be, i can't, it isn't") == "it do not be, i ca not, it is not"


def test_a_word_is_no_slip_of_a_negation_by_another_letter():
    assert mended("shipping") == "shipping"
    assert mended("steps") == "steps"
    assert mended("noting") == "nothing"


def test_a_word_that_is_none_is_misspelt_where_it_is_near_one():
    assert misspelt("whlle")
    assert not misspelt("whale")
    assert not misspelt("qzxjv")


def test_an_odd_word_that_is_none_is_one_slip():
    assert one_letter_apart("Run the test suite.", "Run the sjare test suite.")
    assert not one_letter_apart("Run the test suite.", "Run the slow test suite.")
    assert one_letter_apart("Warm the egg in the pan.", "Hate the egg in the pan.")


def test_a_slip_does_not_hide_a_negation():
    told = "A request that timed out must {}be retried."
    slip = "A request that ran into a timeout must {}be retired."
    assert one_letter_apart(told.format(""), slip.format(""))
    assert one_letter_apart(told.format("not "), slip.format("not "))
    assert not one_letter_apart(told.format("not "), slip.format(""))
    assert not one_letter_apart(told.format(""), slip.format("not "))
