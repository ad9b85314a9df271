"""Reading advice by names of places and negation, whatever the wording."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.alfworld.goal import parse_goal
from benchmarks.alfworld.lesson_words import read_advice
from benchmarks.alfworld.observations import Thing
from benchmarks.alfworld.place_words import plural, read_places, singular, write_places

KINDS = (
    "cabinet",
    "countertop",
    "drawer",
    "fridge",
    "microwave",
    "sinkbasin",
    "shelf",
    "desk",
    "dresser",
    "bed",
    "safe",
)


MUG, LAMP = parse_goal("put a mug in safe"), parse_goal("look at bowl under the desklamp")


def read(text, goal=MUG):
    return [
        (piece.thing, "absent" if piece.absent else "seen", *map(str, piece.places))
        for piece in read_advice(text, goal, KINDS)
    ]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "To put two mugs in the safe, take mug 1 from desk 2 and mug 2 from shelf 1 and put both.",
            [("mug", "seen", "desk 2"), ("mug", "seen", "shelf 1")],
        ),
        (
            "Begin elsewhere, because there was no mug in cabinets 1 to 3, beds 1 and 2 and fridge 1; do.",
            [("mug", "absent", *(f"cabinet {n}" for n in (1, 2, 3)), "bed 1", "bed 2", "fridge 1")],
        ),
        (
            "I will check cabinet (1-2), desk (1) for a mug.",
            [("mug", "seen", "cabinet 1", "cabinet 2", "desk 1")],
        ),
        ("Go to desk 1, find the mug, take it.", [("mug", "seen", "desk 1")]),
        (
            "Neither shelf 1 nor desk 2 had a mug.",
            [("mug", "absent", "shelf 1"), ("mug", "absent", "desk 2")],
        ),
        (
            "It wasn\u2019t in desk 1: no mug, and mug 2 is in drawer 1.",
            [("mug", "absent", "desk 1"), ("mug", "seen", "drawer 1")],
        ),
        ("I took mug 1 from shelf 1 without success.", [("mug", "seen", "shelf 1")]),
        ("Put mug 1 in safe 1.", [("mug", "seen")]),
        ("Take apple 1 from fridge 1 and put it on desk 1.", []),
        ("Never repeat a command that changed nothing.", []),
    ],
)
def test_names_of_places_and_negations_are_read_in_any_wording(text, advice):
    assert read(text) == advice


def test_two_things_wanted_are_kept_apart():
    text = "To see it, take bowl 1 from shelf 3 and use desklamp 1, which is on desk 2."
    assert read(text, LAMP) == [("bowl", "seen", "shelf 3"), ("desklamp", "seen", "desk 2")]


@given(st.text(max_size=300) | st.text("mug desk 1\x00,-().:;no", max_size=200))
def test_any_text_can_be_read(text):
    assert {thing for thing, *_ in read(text)} <= {"mug"}


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
