"""What is shown of lessons that were selected for it, what it takes to tell them apart, and who gets the credit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.lessons import credit_companions, credit_coverage, credit_power
from benchmarks.lessons.credit_companions import CAUSE, EASY, IDLE, attempts, counters, lifts
from benchmarks.lessons.credit_coverage import Job, columns, play, told
from benchmarks.lessons.credit_power import RULES, until_half
from jeeves_reflexion.statistics import wilson
from jeeves_reflexion.types import Lift


@pytest.mark.parametrize("library", ["all +10", "+20, 0 and -20"])
def test_the_shown_intervals_of_lessons_that_are_shown_to_help_hold(library):
    judged = play(Job(library, "alike", 0.1, 400, 200, seed=5))
    seen, shown, *_ = columns(judged, selected=True)
    assert shown.n >= 15
    assert wilson(shown.held, shown.n).high >= 0.95
    assert abs(shown.shown - shown.true) < 0.08 < seen.shown - seen.true
    everything = columns(judged, selected=False)[3]
    assert everything.held / everything.n > 0.9


def test_what_harms_is_mostly_retired_and_what_helps_never():
    judged = play(Job("+20, 0 and -20", "alike", 0.2, 800, 50, seed=1))
    gone = {effect: [each.retired for each in judged if each.effect == effect] for effect in (0.2, 0.0, -0.2)}
    assert not any(gone[0.2])
    assert wilson(sum(gone[0.0]), len(gone[0.0])).low <= 0.05
    assert sum(gone[-0.2]) / len(gone[-0.2]) > 0.5


def test_only_what_has_a_value_is_told():
    assert told([(0.1, Lift())]) is None
    found = told([(0.1, Lift()), (0.1, Lift(0.2, 0.05, 0.35, 9, 9)), (0.3, Lift(0.1, 0.0, 0.2, 9, 9))])
    assert (found.n, found.held) == (2, 1)
    assert (found.true, found.shown) == (pytest.approx(0.2), pytest.approx(0.15))


def test_scores_of_earlier_attempts_tell_an_effect_from_fewer_recalls_at_the_same_error():
    helps, nothing = (
        credit_power.play(credit_power.Job(effect, "apart", 0.2, None, 1200, 50, 0)) for effect in (0.1, 0.0)
    )
    apart, tasks = RULES
    alone, by_tasks = (np.median(helps.at[rule]) for rule in RULES)
    assert by_tasks < 0.7 * alone
    assert (nothing.at[tasks] <= 1200).mean() <= (nothing.at[apart] <= 1200).mean() + 0.05
    assert until_half(np.array([1201] * 60), 1200) == "over 1,200"


def test_withholding_tells_the_cause_from_its_companion_and_tasks_from_lessons():
    rng = np.random.default_rng(0)
    plain, drawn = (attempts(rng, 30, 400, share) for share in (0.0, 0.2))
    by_lift, _ = lifts(drawn, 400)
    by_count = counters(plain, 400)
    assert (by_lift[:, CAUSE] > by_lift[:, IDLE]).mean() > 0.9
    assert (by_lift[:, CAUSE] > by_lift[:, EASY]).mean() > 0.9
    assert (by_count[:, CAUSE] == by_count[:, IDLE]).all()
    assert (by_count[:, CAUSE] < by_count[:, EASY]).all()


@pytest.mark.parametrize(
    ("main", "options", "page"),
    [
        (credit_coverage.main, ("--lessons", "10", "--workers", "1"), "lessons_credit_coverage"),
        (credit_power.main, ("--lessons", "10", "--workers", "1", "--most", "100"), "lessons_credit_power"),
        (credit_companions.main, ("--libraries", "10"), "lessons_credit_companions"),
    ],
)
def test_the_commands_write_their_pages(tmp_path, monkeypatch, main, options, page):
    monkeypatch.setattr(credit_coverage, "RECALLS", (20, 40))
    monkeypatch.setattr(credit_power, "EFFECTS", (0.2,))
    monkeypatch.setattr(credit_power, "NULL_RECALLS", 40)
    shares = {"no lesson": [0.5, 1.0], "planted": [0.0, 0.5]}
    (tmp_path / credit_power.GAMES).write_text(json.dumps(shares))
    result = CliRunner().invoke(main, [*options, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = (tmp_path / f"{page}.md").read_text()
    assert f"python -m {main.callback.__module__} {' '.join(options[:2])}" in text
    assert page != "lessons_credit_power" or "| planted (-50) | 5% | ALFWorld |" in text
