"""Reading advice: sentences of people, of models, and of the reflector's word lists."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.alfworld.lesson_words import read_advice
from benchmarks.alfworld.observations import Thing
from benchmarks.alfworld.place_words import plural, read_numbers, singular, write_places

DATA = Path(__file__).parents[4] / "shared" / "data" / "alfworld"
KINDS = ("cabinet", "countertop", "drawer", "fridge", "microwave", "sinkbasin", "shelf", "desk", "dresser")


def read(text, *wanted):
    found = read_advice(text, wanted=wanted or ("mug",), kinds=KINDS)
    return [
        (
            piece.thing,
            piece.stance,
            *(f"{kind} {number}" if number else kind for kind, number in piece.places),
        )
        for piece in found
    ]


SEEN = ("mug", "seen", "countertop 2")


@pytest.mark.parametrize(
    "text",
    [
        "Take the mug from countertop 2.",
        "The mug was on countertop 2.",
        "Mug 1 is on the countertop 2.",
        "I found a mug on countertop 2 too late.",
        "There was a mug on countertop 2.",
        "Countertop 2 had the mug.",
        "I should have taken mug 1 from countertop 2, then heated it with a microwave, then put it there.",
        "I noticed that the mug was found on countertop 2.",
        "To put a hot mug in the cabinet, pick up the mug from countertop 2, heat it and put it in there.",
    ],
)
def test_where_it_was_seen(text):
    assert read(text) == [SEEN]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            "There was no mug in cabinets 1 to 3, drawer 2 or the fridge.",
            ["cabinet 1", "cabinet 2", "cabinet 3", "drawer 2", "fridge"],
        ),
        ("Don't look for the mug in drawers 1, 2 and 4.", ["drawer 1", "drawer 2", "drawer 4"]),
        ("Do not waste steps on cabinets 1-3 when a mug is needed.", ["cabinet 1", "cabinet 2", "cabinet 3"]),
        ("I searched cabinets 1 and 2 for the mug in vain.", ["cabinet 1", "cabinet 2"]),
        ("I looked for the mug in shelves 1 to 3, which were empty.", ["shelf 1", "shelf 2", "shelf 3"]),
        ("Drawer 1 did not contain a mug.", ["drawer 1"]),
        ("Drawer 1 held no mug.", ["drawer 1"]),
        ("Avoid drawers when you look for mugs.", ["drawer"]),
        ("The mug is not in drawer 3.", ["drawer 3"]),
    ],
)
def test_where_it_is_not(text, places):
    assert read(text) == [("mug", "absent", *places)]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Next time I will check countertop 3 for a mug.", ["countertop 3"]),
        ("I did not check drawer 1 for the mug.", ["drawer 1"]),
        ("I should have searched shelves (1-3) for the mug first.", ["shelf 1", "shelf 2", "shelf 3"]),
        ("I forgot to look for the mug in cabinet 4 and drawer 1.", ["cabinet 4", "drawer 1"]),
        ("Search the shelves and drawers first for a mug.", ["shelf", "drawer"]),
        ("I will go to desk 1, find the mug, then go to sinkbasin 1 and clean it.", ["desk 1"]),
    ],
)
def test_where_to_search(text, places):
    assert read(text) == [("mug", "search", *places)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Take the apple from countertop 2.",
        "Take the apple from countertop 2 and put it next to the mug.",
        "To put a hot mug in the cabinet, heat it with microwave 1 before going to cabinet 3.",
        "I was stuck in a loop and should try another action with the mug.",
        "The mug took 3 steps.",
        "9" * 5000 + " mugs in drawer " + "9" * 5000,
    ],
)
def test_no_advice_about_where_it_is(text):
    assert all(stance == "search" for _, stance, *_ in read(text))


def test_two_things_wanted_are_kept_apart():
    text = (
        "To see the bowl under the desklamp, take bowl 1 from shelf 3 and use desklamp 1, which is on desk 2."
    )

    assert read(text, "bowl", "desklamp") == [("bowl", "seen", "shelf 3"), ("desklamp", "seen", "desk 2")]


def test_one_sentence_may_say_where_it_is_and_where_not():
    text = (
        "To put a hot mug in the cabinet in a kitchen like this one, take the mug from countertop 2 and "
        "don't spend steps on cabinets 1 to 3, which were empty."
    )

    assert read(text) == [SEEN, ("mug", "absent", "cabinet 1", "cabinet 2", "cabinet 3")]


def test_words_written_apart_are_the_game_s_one_word():
    assert read("The soap bar was on counter-top 1.", "soapbar") == [("soapbar", "seen", "countertop 1")]


@given(st.text(max_size=300))
def test_any_text_can_be_read(text):
    assert {verdict for _, verdict, _ in read(text)} <= {"seen", "absent", "search"}


_JUMBLE = "mug mugs take from no not in on cabinet cabinets 1 2 to , and . is was go check had"
_WORDS = st.sampled_from(sorted(_JUMBLE.split()))


@given(st.lists(_WORDS, max_size=40))
def test_any_jumble_of_known_words_can_be_read(words):
    for thing, stance, *places in read(" ".join(words)):
        assert thing == "mug"
        assert stance in {"seen", "absent", "search"}
        assert places


_THINGS = st.builds(Thing, st.sampled_from(KINDS), st.integers(1, 40))


@given(st.sets(_THINGS, min_size=1, max_size=20))
def test_a_written_list_of_places_is_read_back(places):
    ((_, stance, *named),) = read(f"There was no mug in {write_places(places)}.")

    assert stance == "absent"
    assert sorted(named) == sorted(map(str, places))


def test_lists_are_written_as_a_person_would():
    places = [Thing("cabinet", n) for n in (1, 2, 3, 4, 7)] + [
        Thing("drawer", 2),
        Thing("shelf", 1),
        Thing("shelf", 2),
    ]

    assert write_places(places) == "cabinets 1 to 4 and 7, drawer 2 and shelves 1 and 2"
    with pytest.raises(ValueError, match="no places"):
        write_places([])


@pytest.mark.parametrize(
    "noun", [*KINDS, "box", "watch", "vase", "knife", "butterknife", "glassbottle", "cd", "safe"]
)
def test_plurals_come_back(noun):
    assert singular(plural(noun)) == noun == singular(noun)


def test_a_range_no_room_has_does_not_blow_up():
    assert read_numbers(["1", "to", "999999"], 0) == ((1, 999999), 3)


def test_most_reflections_of_a_real_model_can_be_read():
    path = DATA / "logged_reflections.jsonl"
    if not path.exists():
        pytest.skip(f"needs {path}")
    objects = {
        "alarmclock",
        "apple",
        "book",
        "bowl",
        "box",
        "bread",
        "butterknife",
        "candle",
        "cd",
        "cellphone",
    }
    objects |= {
        "cloth",
        "creditcard",
        "cup",
        "dishsponge",
        "egg",
        "fork",
        "keychain",
        "kettle",
        "knife",
        "ladle",
    }
    objects |= {
        "lettuce",
        "mug",
        "newspaper",
        "pan",
        "pen",
        "pencil",
        "pillow",
        "plate",
        "pot",
        "potato",
        "saltshaker",
    }
    objects |= {
        "remotecontrol",
        "soapbar",
        "soapbottle",
        "spatula",
        "spoon",
        "spraybottle",
        "statue",
        "tissuebox",
    }
    objects |= {
        "toiletpaper",
        "tomato",
        "vase",
        "watch",
        "winebottle",
        "peppershaker",
        "desklamp",
        "handtowel",
    }
    texts = {
        reflection["text"]
        for line in path.read_text(encoding="utf-8").splitlines()
        for reflection in json.loads(line)["reflections"]
    }

    understood = sum(bool(read_advice(text, wanted=tuple(objects), kinds=KINDS)) for text in texts)

    assert len(texts) == 265
    assert understood / len(texts) > 0.7
