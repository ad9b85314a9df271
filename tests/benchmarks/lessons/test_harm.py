"""Planted lessons: how they mislead, and what the tables say of them. One small run goes through the engine."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks.alfworld.lesson_words import read_advice
from benchmarks.lessons.harm import main
from benchmarks.lessons.harm_kept import Kept
from benchmarks.lessons.harm_lessons import Sentence, misleading, mixed
from benchmarks.lessons.harm_play import Library, Played
from benchmarks.lessons.harm_report import tables
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
    advice = read_advice(text, wanted=("mug",), kinds=("cabinet", "drawer", "fridge", "countertop"))
    absent = {place for each in advice if each.stance == "absent" for place in each.places}
    search = {place for each in advice if each.stance == "search" for place in each.places}
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
    won = {"clean": 10, "planted": 4, "credit": 8}
    played = [
        Played(arm, 0, number, f"game{n}", number < first)
        for arm, first in won.items()
        for n in range(5)
        for number in range(10)
    ]
    page = tables(played, [Library(0, 8, 2, 1, 0)])
    assert "50/50 = 100.0%" in page
    assert "+60.0 points (+60.0 to +60.0)" in page
    assert "33% (33% to 33%)" in page
    assert "| 0 | 8 | 0 | 2 | 1 |" in page


def test_attempts_are_kept_up_to_the_line_that_was_cut_short(tmp_path):
    won = replace(WON, metadata={"won": True})
    kept = Kept(tmp_path / "kept")
    kept.keep((1, "mug", "Look.\n"), won)
    kept.keep((2, "mug", ""), replace(won, error="EngineError: gone"))
    (file,) = (tmp_path / "kept").iterdir()
    file.write_text(file.read_text() + '[3, "mug", "", tr')
    again = Kept(tmp_path / "kept")
    assert again.attempts == {(1, "mug", "Look.\n"): replace(won, output="")}
    again.keep((3, "mug", ""), won)
    assert set(Kept(tmp_path / "kept").attempts) == {(1, "mug", "Look.\n"), (3, "mug", "")}


@pytest.mark.engine
@pytest.mark.timeout(400)
def test_the_command_plays_all_arms(made_games, made_folder, tmp_path):
    out = tmp_path / "page.md"
    options = ["--count", "6", "--rounds", "1", "--seeds", "0", "--workers", "1", "--embedder", "hashing"]
    options += ["--made-games", str(made_folder), "--keep", str(tmp_path / "kept"), "--out", str(out)]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert "planted lessons, credit" in page
    assert "| 0 | 12 | 0 | 3 | 0 |" in page
    out.unlink()
    again = CliRunner().invoke(main, options)
    assert again.exit_code == 0, again.output
    assert "round 1 of 1" not in again.output
    assert out.read_text() == page
