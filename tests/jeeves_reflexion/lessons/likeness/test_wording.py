"""Stems, and what is a word: a slip of the fingers is told from another word by that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion.lessons.likeness.comparing import compare, one_letter_apart
from jeeves_reflexion.lessons.likeness.wording import SAME_AS, forms, is_word, stem

FAMILIES = [
    "plan plans planned planning",
    "plane planes planed",
    "rate rates rated rating",
    "write writes writing wrote written",
    "file files filed filing",
    "fill fills filled filling",
    "compute computes computed computing",
    "retry retries retried retrying",
    "proceed proceeds proceeded proceeding",
    "stop stops stopped stopping",
    "size sizes sized",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_forms_of_a_word_have_one_stem(family):
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("plan", "plane"),
        ("rat", "rate"),
        ("http", "https"),
        ("new", "news"),
        ("hard", "hardly"),
        ("fil", "fill"),
    ],
)
def test_other_words_have_other_stems(one, other):
    assert stem(one) != stem(other)


def test_forms_and_rare_words_are_words_and_slips_are_none():
    words = "walked buildings quickly committed fridge timestamp dessert easily"
    assert all(is_word(word) for word in words.split())
    assert not any(is_word(slip) for slip in ("wlaked", "anythhing", "handding", "frigde", "mongod"))
    assert is_word("fjord")
    assert not is_word("fjord", common=True)


@given(st.sampled_from(sorted(SAME_AS)))
def test_the_stems_of_the_tables_are_among_their_own_forms(root):
    assert root in forms(root)


@pytest.mark.parametrize(
    "slip",
    ["lisging", "listign", "liated", "losted", "lited", "lissted"],
)
def test_a_slip_in_any_form_of_a_word_is_read_as_the_word(slip):
    seen = compare(f"The issues must be {slip} by page.", "List the issues by page.")
    assert (seen.replaced, seen.added) == (0, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("desert", "dessert"),
        ("massage", "message"),
        ("caller", "callee"),
        ("mongod", "mongos"),
        ("fore", "rear"),
        ("plan", "plane"),
        ("causal", "casual"),
    ],
)
def test_two_words_are_no_slip_of_one_another(one, other):
    assert compare(f"Look at the {one} again.", f"Look at the {other} again.").replaced == 1


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("Heat the egg in the pan.", "The egg must be hated in the pan.", True),
        ("Heat the egg in the pan.", "Hear the egg in the pan.", False),  # an ending carries meaning
        ("Heat the egg in the pan.", "Peel the egg in the pan.", False),
        ("Heat egg 1 in the pan.", "Hate egg 2 in the pan.", False),
        ("Heat the egg in the pan.", "Heat the egg in the pan.", False),
    ],
)
def test_a_slip_that_is_a_word_is_known_as_one_letter(one, other, apart):
    assert one_letter_apart(one, other) is apart
    assert one_letter_apart(other, one) is apart


def test_a_slip_that_may_be_two_words_is_read_as_the_one_that_is_wanted():
    plate = "Place the plate in the cabinet."
    assert compare("Put the plae in the cabinet.", plate).replaced == 0
    assert compare("Put the plae in the cabinet.", plate.replace("plate", "cup")).replaced == 1


def test_a_mistyped_contraction_negates_once():
    assert (
        compare("The request musttn't be repeated.", "The request must be repeated.").conflict == "negation"
    )
    assert compare("The request musttn't be repeated.", "Don't repeat the request.").conflict == ""
