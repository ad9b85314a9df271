"""Planted lessons: how they mislead, and what the tables say of them. One small run goes through the engine."""

from __future__ import annotations

import random

import pytest
from click.testing import CliRunner

from benchmarks.alfworld.goal import parse_goal
from benchmarks.alfworld.lesson_words import read_advice
from benchmarks.alfworld.observations import read_opening
from benchmarks.lessons.harm import main
from benchmarks.lessons.harm_lessons import Sentence, misleading, mixed
from benchmarks.lessons.harm_tables import ARMS, Library, Played, retirement, tables
from jeeves_reflexion import Attempt, Step, Task

OPENING = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a countertop 1, "
    "a drawer 3, a drawer 2, a drawer 1, a fridge 1, a garbagecan 1, a microwave 1, a sinkbasin 1, and a stoveburner 1."
    "\n\nYour task is to: put some mug in cabinet."
)
TASK = Task(OPENING, id="mug")
WON = Attempt(
    "",
    (
        Step("", "go to drawer 2", "The drawer 2 is closed."),
        Step("", "open drawer 2", "You open the drawer 2. The drawer 2 is open. In it, you see a mug 1."),
        Step("", "take mug 1 from drawer 2", "You pick up the mug 1 from the drawer 2."),
    ),
)


def test_a_planted_lesson_calls_the_right_place_empty_and_names_others():
    text = misleading(TASK, WON, random.Random(1))
    advice = read_advice(text, parse_goal(OPENING), {place.kind for place in read_opening(OPENING)})
    absent = {place for each in advice if each.absent for place in each.places}
    search = {place for each in advice if not each.absent for place in each.places}
    assert ("drawer", 2) in absent
    assert search
    assert ("drawer", 2) not in search
    assert text.count(".") == 1


def test_without_a_right_place_or_another_there_is_nothing_to_plant():
    small = "You are in the middle of a room. Looking quickly around you, you see a desk 1, and a bed 1."
    assert misleading(TASK, Attempt(), random.Random(1)) is None
    assert (
        misleading(Task(small + "\n\nYour task is to: put some mug in desk."), WON, random.Random(1)) is None
    )


def test_a_fifth_of_the_library_is_planted_and_the_rest_keeps_its_order():
    tasks = [Task(OPENING, id=f"mug{n}") for n in range(8)]
    true = [Sentence(task, f"lesson {n}", planted=False) for n, task in enumerate(tasks)]
    clean, both = mixed(true, {task.id: WON for task in tasks}, random.Random(2))
    assert clean == true
    assert sum(each.planted for each in both) == 2
    assert [each for each in both if not each.planted] == true


def test_the_tables_say_what_it_cost():
    won = {**dict.fromkeys(ARMS, 10), "none": 2, "planted": 4, "credit": 8}
    played = [
        Played(arm, 0, number, f"game{n}", number < first)
        for arm, first in won.items()
        for n in range(5)
        for number in range(-1, 10)
    ]
    page = tables(played, [Library(0, "credit", True, 20, 12, 4, 3, 45.0)])
    assert "| true lessons only | 5/5 = 100.0%" in page
    costs = next(line for line in page.splitlines() if line.startswith("| planted ones cost |"))
    assert costs.endswith("+100.0 points (+100.0 to +100.0) |")
    assert costs.split("|")[2] == " +0.0 points (+0.0 to +0.0) "
    assert "| 0 | planted lessons, credit ranks and retires | 20 planted | 12 | 4 | 3 | 45 |" in page


def test_what_harms_more_is_retired_sooner_and_what_is_withheld_less_later():
    page = retirement(lessons=9, most=300)
    most, *_, least = (line.split("|")[2:-1] for line in page.splitlines()[2:])
    assert int(most[1].split("/")[0]) < int(most[0].split("/")[0])
    assert set(least[0].replace("/", " ").split()) == {"more"}


@pytest.mark.engine
@pytest.mark.timeout(400)
def test_the_command_plays_all_arms(made_games, made_folder, tmp_path):
    sizes = ["--teach", "2", "--practise", "2", "--hold-out", "2", "--rounds", "2", "--orders", "1"]
    sizes += ["--simulated", "2"]
    options = [*sizes, "--seeds", "0", "--workers", "1", "--embedder", "hashing", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, [*options, "--made-games", str(made_folder)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "lessons_harm.md").read_text()
    assert all(f"| {label} |" in page for label in ARMS.values())
    assert "| 0 | planted lessons, credit retires alone | 1 planted |" in page
    assert f"python -m benchmarks.lessons.harm {' '.join(sizes[:-2])} --share 0.05" in page
    assert "--embedder hashing --seeds 0\n" in page
