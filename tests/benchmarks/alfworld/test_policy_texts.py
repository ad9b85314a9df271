"""Reading the games' own texts: task sentences, openings, observations, and notes made from them."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from benchmarks.alfworld.goal import Goal, GoalNotUnderstoodError, parse_goal
from benchmarks.alfworld.notebook import Notebook
from benchmarks.alfworld.observations import (
    Reading,
    Thing,
    UnreadableOpeningError,
    read_observation,
    read_opening,
)

GAMES = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "valid_seen_140.tar.xz"

OPENING = """-= Welcome to TextWorld, ALFRED! =-

You are in the middle of a room. Looking quickly around you, you see a bed 1, a drawer 12, \
a drawer 1, and a safe 1.

Your task is to: put two cd in drawer.
"""


def test_task_sentences_of_the_six_types():
    for sentence, goal in [
        ("put a mug in desk", Goal("mug", "desk")),
        ("put some mug on desk.", Goal("mug", "desk")),
        ("put a clean mug in desk", Goal("mug", "desk", "clean")),
        ("clean some mug and put it in desk", Goal("mug", "desk", "clean")),
        ("put a hot egg in fridge", Goal("egg", "fridge", "heat")),
        ("heat some egg and put it in fridge", Goal("egg", "fridge", "heat")),
        ("put a cool pan in stoveburner", Goal("pan", "stoveburner", "cool")),
        ("cool some pan and put it in stoveburner", Goal("pan", "stoveburner", "cool")),
        ("put two cd in safe", Goal("cd", "safe", count=2)),
        ("find two cd and put them in safe", Goal("cd", "safe", count=2)),
        ("look at box under the desklamp", Goal("box", lamp="desklamp")),
        ("examine the box with the floorlamp", Goal("box", lamp="floorlamp")),
        ("Put a clean cloth in/on the bathtubbasin.", Goal("cloth", "bathtubbasin", "clean")),
    ]:
        assert parse_goal(sentence) == goal
        assert parse_goal(f"you see a desk 1.\n\nYour task is to: {sentence}\n\n") == goal


def test_other_tasks_are_refused_with_their_words():
    for sentence in [" ", "dance", "put a hot slice of bread in fridge", "put egg in a bowl in fridge"]:
        with pytest.raises(
            GoalNotUnderstoodError, match=re.escape(sentence.strip()[:20]) or "six task types"
        ):
            parse_goal(sentence)


def test_a_goal_prints_as_a_person_would_say_it():
    for sentence, words in [
        ("put some apple on countertop", "put an apple on the countertop"),
        ("heat some apple and put it in cabinet", "put a hot apple in the cabinet"),
        ("find two box and put them in desk", "put two boxes on the desk"),
        ("examine the cd with the desklamp", "look at the cd under the desklamp"),
    ]:
        assert str(parse_goal(sentence)) == words


def test_every_sentence_of_the_genuine_games_is_understood():
    if not GAMES.exists():
        pytest.skip(f"needs {GAMES}")
    types = {
        "look_at_obj_in_light": lambda goal: goal.lamp == "desklamp",
        "pick_and_place_simple": lambda goal: goal.treatment is None and goal.count == 1,
        "pick_clean_then_place_in_recep": lambda goal: goal.treatment == "clean",
        "pick_heat_then_place_in_recep": lambda goal: goal.treatment == "heat",
        "pick_cool_then_place_in_recep": lambda goal: goal.treatment == "cool",
        "pick_two_obj_and_place": lambda goal: goal.count == 2,
    }
    checked = 0
    with tarfile.open(GAMES) as archive:
        for member in archive:
            if not member.name.endswith("game.tw-pddl"):
                continue
            kind, target, _, destination, _ = member.name.split("/")[-3].split("-")
            grammar = json.load(archive.extractfile(member))["grammar"]
            goal = parse_goal(re.search(r'(Your task is to: [^"]*)"', grammar)[1])
            assert goal.target == target.lower()
            assert destination.lower() == (goal.lamp or goal.destination)
            assert types[kind](goal)
            checked += 1
    assert checked == 140


def test_openings_name_receptacles_in_their_order():
    assert list(map(str, read_opening(OPENING))) == ["bed 1", "drawer 12", "drawer 1", "safe 1"]
    with pytest.raises(UnreadableOpeningError, match="no list of receptacles"):
        read_opening("You are in a room.\n\nYour task is to: put two cd in drawer.")


def test_observations():
    for text, reading in [
        ("Nothing happens.", Reading(nothing_happened=True)),
        (
            "\nYou arrive at loc 3. The safe 1 is closed.",
            Reading(place=Thing("safe", 1), closed=True, says_move=False),
        ),
        (
            "You arrive at safe 1. The safe 1 is closed.",
            Reading(place=Thing("safe", 1), closed=True, says_move=True),
        ),
        (
            "You open the safe 1. The safe 1 is open. In it, you see a cd 2, and a watch 1.",
            Reading(place=Thing("safe", 1), contents=(Thing("cd", 2), Thing("watch", 1))),
        ),
        (
            "You arrive at bed 1. On the bed 1, you see nothing.",
            Reading(place=Thing("bed", 1), contents=(), says_move=True),
        ),
        ("On the bed 1, you see a cd 1.", Reading(place=Thing("bed", 1), contents=(Thing("cd", 1),))),
        ("You pick up the cd 1 from the bed 1.", Reading()),
        ("You are facing the bed 1. Next to it, you see nothing.", Reading()),
    ]:
        assert read_observation(text) == reading


def test_a_notebook_follows_what_was_done():
    book = Notebook()
    cd, bed, safe = Thing("cd", 1), Thing("bed", 1), Thing("safe", 1)

    book.note("go to bed 1", "You arrive at loc 2. On the bed 1, you see a cd 1.")
    assert (book.at, book.where("cd"), book.says_move) == (bed, [(cd, bed)], False)
    book.note("take cd 1 from bed 1", "You pick up the cd 1 from the bed 1.")
    assert (book.holding, book.where("cd")) == (cd, [])
    book.note("go to safe 1", "You arrive at loc 4. The safe 1 is closed.")
    assert book.closed == {safe}
    book.note("put cd 1 in/on safe 1", "Nothing happens.")
    assert (book.holding, book.wasted) == (cd, ["put cd 1 in/on safe 1"])
    book.note("open safe 1", "You open the safe 1. The safe 1 is open. In it, you see nothing.")
    book.note("put cd 1 in/on safe 1", "You put the cd 1 in/on the safe 1.")
    assert (book.holding, book.where("cd"), book.placed) == (None, [(cd, safe)], {cd: safe})
    book.note("examine safe 1", "The safe 1 is open. In it, you see a cd 1.")
    assert book.first_seen == {cd: bed}
