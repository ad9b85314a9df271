"""Reading advice: the sentences of the offline reflector, and none in other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.alfworld.lesson_words import read_advice
from benchmarks.alfworld.observations import Thing
from benchmarks.alfworld.place_words import plural, read_places, singular, write_places

KINDS = ("cabinet", "countertop", "drawer", "fridge", "microwave", "sinkbasin", "shelf", "desk", "dresser")


def read(text, *wanted):
    return [
        (piece.thing, piece.stance, *(f"{kind} {number}" for kind, number in piece.places))
        for piece in read_advice(text, wanted=wanted or ("mug",))
    ]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("To put a mug in the safe, take mug 1 from desk 2 and put it.", [("mug", "seen", "desk 2")]),
        (
            "To put two mugs in the safe, take mug 1 from desk 2 and mug 2 from shelf 1 and put both.",
            [("mug", "seen", "desk 2"), ("mug", "seen", "shelf 1")],
        ),
        ("To ..., remember that mug 1 is in drawer 3 already and put both.", [("mug", "seen", "drawer 3")]),
        (
            (
                "To put a mug in the safe, begin with the places I did not reach, because there was no mug in cabinets"
                " 1 to 3 and 7, drawer 2 and fridge 1; 4 commands changed nothing."
            ),
            [("mug", "absent", *(f"cabinet {n}" for n in (1, 2, 3, 7)), "drawer 2", "fridge 1")],
        ),
        (
            (
                "To put a mug in the desk, look for the mug in shelves 1 and 2 and bed 1, because there was no mug in"
                " drawer 1."
            ),
            [("mug", "search", "shelf 1", "shelf 2", "bed 1"), ("mug", "absent", "drawer 1")],
        ),
        ("To put an apple in the desk, take apple 1 from fridge 1 and put it in the desk.", []),
        ("Never repeat a command that changed nothing.", []),
        ("I thought the mug was on countertop 2, but it wasn't.", []),
        ("There is no point in looking for the mug in drawer 1.", []),
    ],
)
def test_what_the_reflector_says_is_read_and_other_words_are_not(text, advice):
    assert read(text) == advice


def test_two_things_wanted_are_kept_apart():
    text = "To see it, take bowl 1 from shelf 3 and use desklamp 1, which is on desk 2."
    assert read(text, "bowl", "desklamp") == [("bowl", "seen", "shelf 3"), ("desklamp", "seen", "desk 2")]


@given(st.text(max_size=300))
def test_any_text_can_be_read(text):
    assert {stance for _, stance, *_ in read(text)} <= {"seen", "absent", "search"}


_THINGS = st.builds(Thing, st.sampled_from(KINDS), st.integers(1, 40))


@given(st.sets(_THINGS, min_size=1, max_size=20))
def test_a_written_list_of_places_is_read_back(places):
    ((_, stance, *named),) = read(f"To go, begin, because there was no mug in {write_places(places)}.")
    assert stance == "absent"
    assert sorted(named) == sorted(map(str, places))


def test_lists_are_written_as_a_person_would():
    places = [Thing("cabinet", n) for n in (1, 2, 3, 4, 7)] + [Thing("drawer", 2), Thing("shelf", 1)]
    assert write_places(places) == "cabinets 1 to 4 and 7, drawer 2 and shelf 1"
    with pytest.raises(ValueError, match="no places"):
        write_places([])


def test_plurals_come_back():
    for noun in [*KINDS, "box", "watch", "vase", "knife", "butterknife", "cd", "safe"]:
        assert singular(plural(noun)) == noun == singular(noun)


def test_a_range_no_room_has_does_not_blow_up():
    assert read_places("drawers 1 to 999999") == (("drawer", 1), ("drawer", 999999))
