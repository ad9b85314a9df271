"""The offline reflector on trajectories written by hand."""

import pytest

from benchmarks.alfworld.rules_reflector import distil, reflect

ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, "
    "a countertop 1, a desk 1, a fridge 1, a microwave 1, a shelf 1, and a safe 1.\n\nYour task is to: {}."
)
NOTHING_IN = {
    "cabinet 1": "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing.",
    "cabinet 2": "You open the cabinet 2. The cabinet 2 is open. In it, you see a fork 1.",
}
LOOKED = [("", f"open {place}", text) for place, text in NOTHING_IN.items()]
MUG_SEEN = (
    "",
    "go to countertop 1",
    "You arrive at loc 4. On the countertop 1, you see a mug 1, and a fork 2.",
)
MUG_TAKEN = ("", "take mug 1 from countertop 1", "You pick up the mug 1 from the countertop 1.")
LAMP_SEEN = ("", "go to desk 1", "You arrive at loc 5. On the desk 1, you see a desklamp 1.")


def lesson(goal, steps):
    return reflect(ROOM.format(goal), steps, won=False)


def test_nothing_found():
    assert lesson("put a hot mug in cabinet", LOOKED) == (
        "To put a hot mug in the cabinet, begin with the places I did not reach, because there was no mug in "
        "cabinets 1 and 2."
    )


def test_found_too_late():
    assert lesson("heat some mug and put it in cabinet", [*LOOKED, MUG_SEEN, MUG_TAKEN]) == (
        "To put a hot mug in the cabinet, take mug 1 from countertop 1, heat it with the microwave and put "
        "it in the cabinet, because there was no other mug in cabinets 1 and 2."
    )


def test_the_thing_that_was_put_down_again_is_told_where_it_was_at_first():
    put = ("", "put mug 1 in/on desk 1", "You put the mug 1 in/on the desk 1.")

    assert "take mug 1 from countertop 1" in lesson(
        "put a clean mug in safe", [MUG_SEEN, MUG_TAKEN, LAMP_SEEN, put]
    )


def test_one_of_two_found():
    text = lesson("put two mug in safe", [*LOOKED, MUG_SEEN, MUG_TAKEN])

    assert "take mug 1 from countertop 1, begin the search for a second one where I did not reach" in text
    assert text.endswith("put both in the safe, because there was no other mug in cabinets 1 and 2.")


def test_one_of_two_waits_where_it_belongs():
    assert "remember that mug 1 is in countertop 1 already" in lesson("put two mug in countertop", [MUG_SEEN])


def test_lamp_found_and_thing_not():
    assert lesson("look at mug under the desklamp", [LAMP_SEEN]) == (
        "To look at the mug under the desklamp, begin with the places I did not reach and then use desklamp "
        "1, which is on desk 1, because there was no mug in desk 1."
    )


def test_thing_found_and_lamp_not():
    assert lesson("look at mug under the desklamp", [*LOOKED, MUG_SEEN]) == (
        "To look at the mug under the desklamp, take mug 1 from countertop 1 and begin the search for the "
        "desklamp where I did not reach, because there was no desklamp in cabinets 1 and 2 and countertop 1."
    )


def test_commands_that_did_nothing_are_told():
    stuck = [("", "open safe 1", "Nothing happens.")] * 4

    assert lesson("put a mug in safe", stuck) == (
        "To put a mug in the safe, begin with the places I did not reach; 4 commands changed nothing, so "
        "never repeat one that did."
    )


def test_a_model_s_odd_commands_are_survived():
    odd = [
        ("", command, "You do something.")
        for command in ("", "take", "put mug", "go", "think: hm", "put 1 in 2")
    ]

    assert (
        lesson("put a mug in safe", odd) == "To put a mug in the safe, begin with the places I did not reach."
    )


def test_success_is_distilled():
    opening = ROOM.format("put a mug in safe")

    text = distil(opening, [MUG_SEEN, MUG_TAKEN])

    assert (
        text
        == "To put a mug in the safe, take mug 1 from countertop 1 and put it in the safe: that took 2 steps."
    )
    assert reflect(opening, [MUG_SEEN, MUG_TAKEN], won=True) == text


def test_no_steps_no_lesson():
    with pytest.raises(ValueError, match="without steps"):
        lesson("put a mug in safe", [])
    with pytest.raises(ValueError, match="six task types"):
        lesson("dance", LOOKED)
