"""What is shown of lessons that were selected for it: the figures of the simulation, under the rule that acts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.lessons.credit_coverage import Job, columns, main, play, told
from jeeves_reflexion.lessons.credit.effects import prior_of
from jeeves_reflexion.statistics import wilson
from jeeves_reflexion.types import Lift


@pytest.mark.parametrize("library", ["all +10", "+20, 0 and -20"])
def test_the_shown_intervals_of_lessons_that_are_shown_to_help_hold(library):
    now = play(Job(library, 0.1, 400, 300, seed=5, floor=True))
    earlier = play(Job(library, 0.1, 400, 300, seed=5, floor=False))
    helps = [[each for each in lessons if each.helps] for lessons in (earlier, now)]
    before, seen, _, shown, _ = columns(helps[0], helps[1], prior_of(each.seen for each in now))
    assert shown.n >= 15
    assert wilson(shown.held, shown.n).high >= 0.95
    assert before.shown - before.true > 0.1, "a lift that is measured no more stays too high"
    assert abs(shown.shown - shown.true) < 0.06 < seen.shown - seen.true
    everything = columns(earlier, now, prior_of(each.seen for each in now))[3]
    assert everything.held / everything.n > 0.9


def test_a_lesson_that_is_shown_to_help_is_measured_on():
    jobs = [Job("+20, 0 and -20", 0.2, 800, 20, seed=1, floor=floor) for floor in (True, False)]
    on, off = ([each for each in play(job) if each.helps] for job in jobs)
    assert on
    assert all(each.after.n_with + each.after.n_without > 0 for each in on)
    assert all(each.after == Lift() for each in off)


def test_only_what_has_a_value_is_told():
    assert told([(0.1, Lift())]) is None
    found = told([(0.1, Lift()), (0.1, Lift(0.2, 0.05, 0.35, 9, 9)), (0.3, Lift(0.1, 0.0, 0.2, 9, 9))])
    assert (found.n, found.held) == (2, 1)
    assert (found.true, found.shown) == (pytest.approx(0.2), pytest.approx(0.15))


def test_the_command_writes_the_page(tmp_path):
    result = CliRunner().invoke(main, ["--lessons", "10", "--workers", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "lessons_credit_coverage.md").read_text()
    assert "python -m benchmarks.lessons.credit_coverage --lessons 10 --seed 0" in page
    assert page.count("| all +10 | 5% | 1600 |") == 2
    assert page.count("| all |") == 2


def test_what_does_nothing_is_hardly_ever_retired_and_what_harms_often():
    judged = play(Job("+20, 0 and -20", 0.2, 1600, 200, seed=1, floor=True))
    gone = {effect: [each.retired for each in judged if each.effect == effect] for effect in (0.2, 0.0, -0.2)}
    assert not any(gone[0.2])
    assert wilson(sum(gone[0.0]), len(gone[0.0])).low <= 0.05
    assert sum(gone[-0.2]) / len(gone[-0.2]) > 0.5
