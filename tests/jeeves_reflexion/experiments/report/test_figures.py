"""The figures of a report, held against what the results say themselves and against cases small enough to count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_results import a_task, a_trial, results

from jeeves_reflexion import Evaluation
from jeeves_reflexion.experiments import ARMS, Results, Tried
from jeeves_reflexion.experiments.comparisons import PairedDifference
from jeeves_reflexion.experiments.report import make_report, markdown
from jeeves_reflexion.experiments.report.analysis import comparison_words, holm


class Certain:
    """Stands for a random number generator that has made up its mind."""

    def __init__(self, passes):
        self.passes = passes

    def random(self):
        return 0.0 if self.passes else 1.0

    def randrange(self, _):
        return 0


def verdicts(table, *, seeds=(0,), trials=1, **trial):
    """Results of which each arm's verdicts are given: a list of seeds, each a list of tasks, each a list of tries."""
    tasks = tuple(a_task(i) for i in range(len(next(iter(table.values()))[0])))
    found = Results(tasks, tuple(table), seeds, trials)
    for arm, of_seeds in table.items():
        for seed, of_tasks in zip(seeds, of_seeds, strict=False):
            for task, of_tries in zip(tasks, of_tasks, strict=True):
                for number, passed in enumerate(of_tries, 1):
                    made = a_trial(Certain(passed), task, number, steps=1, **trial)
                    found.rows.append(Tried(arm, seed, task, made))
    return found


@pytest.mark.parametrize("judged_by", ["oracle", "self"])
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), scored=st.booleans())
def test_success_is_what_the_results_say_themselves(judged_by, seed, scored):
    arms = ("react", "retry", "selective@2")
    made = results(4, arms, (0, 1), 3, 2, scored=scored, judged_by=judged_by, seed=seed, steps=1)
    report = make_report(made)
    assert {part.judge for part in report.parts} == (
        {"self", "oracle"} if scored and judged_by == "self" else {judged_by}
    )
    for part in report.parts:
        for each in part.success:
            if part.split == "learning":
                assert each.points == made.curve(each.arm, by=part.judge).points
            else:
                (point,) = each.points
                assert point.share == made.transfer(each.arm, by=part.judge)


def test_an_unfinished_seed_counts_in_no_share_and_in_no_comparison():
    made = verdicts({"retry": [[[True]] * 3, [[False]] * 3], "selective": [[[True]] * 3]}, seeds=(0, 1))
    made.rows.append(Tried("selective", 1, made.tasks[0], made.rows[0].trial))
    (part,) = make_report(made).parts
    assert [(each.arm, each.seeds, each.points[0].share.n) for each in part.success] == [
        ("retry", 2, 6),
        ("selective", 1, 3),
    ]
    (compared,) = part.compared
    assert (compared.seeds, compared.difference.value) == (1, 0.0)
    nothing = make_report(verdicts({"retry": [[[True]]], "selective": []}))
    assert nothing.parts[0].success[1].points == ()
    assert nothing.parts[0].compared == ()


def test_arms_are_compared_in_pairs_of_tasks_at_the_second_and_the_last_trial():
    better = {
        "retry": [[[False] * 4] * 8 + [[True]] * 2],
        "selective": [[[False, False, True]] * 8 + [[True]] * 2],
    }
    (part,) = make_report(verdicts(better, trials=4)).parts
    second, last = part.compared
    assert (second.trial, second.difference.value, second.difference.p) == (2, 0.0, 1.0)
    assert second.words.startswith("no difference that 10 tasks can show")
    assert (last.trial, last.difference.value) == (4, 0.8)
    assert (last.difference.only_first, last.difference.only_second) == (0, 8)
    assert last.difference.p == pytest.approx(2 / 2**8)
    assert last.p_holm == pytest.approx(4 / 2**8)
    assert last.words.startswith("success is higher: +80 points")
    assert len(make_report(verdicts({"retry": [[[True]]], "own": [[[True]]]})).parts[0].compared) == 1


def test_three_tasks_gained_are_no_proof():
    (part,) = make_report(verdicts({"retry": [[[False]] * 3], "selective": [[[True]] * 3]})).parts
    assert part.compared[0].words.startswith(
        "no difference that 3 tasks can show: +100 points (-100 to +100)"
    )


@pytest.mark.parametrize(("n", "shown"), [(5, False), (6, True)])
def test_fewer_than_six_tasks_show_nothing(n, shown):
    (part,) = make_report(verdicts({"retry": [[[False]] * n], "selective": [[[True]] * n]})).parts
    assert part.compared[0].words.startswith("success is higher: +100 points") is shown
    assert ("hardly show any" in part.compared[0].words) is not shown


def test_gains_in_a_minority_of_the_seeds_are_seen():
    """Of three seeds one gains on each of 12 tasks: no task is solved by most seeds, and the difference is plain."""
    one = [[True]] * 4 + [[False]] * 36
    table = {
        "retry": [[[False]] * 40] * 3,
        "selective": [[*one[-4 * k :], *one[: -4 * k]] if k else one for k in range(3)],
    }
    (part,) = make_report(verdicts(table, seeds=(0, 1, 2))).parts
    (found,) = part.compared
    assert found.difference.value == pytest.approx(0.1)
    assert found.words.startswith("success is higher: +10 points (+2 to +18), p = ")


def test_what_holds_alone_but_not_among_many_is_said():
    table = {"retry": [[[False]] * 20], "own": [[[True]] * 6 + [[False]] * 14]}
    alone = make_report(verdicts(table)).parts[0].compared[0]
    assert alone.words.startswith("success is higher")
    assert "Holm" not in alone.words
    many = make_report(verdicts({**table, "monotonic": table["retry"], "selective": table["retry"]})).parts[0]
    assert "as one of 3 comparisons it is not settled (Holm p = 0.09)" in many.compared[0].words


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_adjusts_upwards_and_keeps_the_order(ps):
    adjusted = holm(ps)
    assert all(p <= a <= 1.0 for p, a in zip(ps, adjusted, strict=True))
    assert all(adjusted[i] <= adjusted[j] for i in range(len(ps)) for j in range(len(ps)) if ps[i] < ps[j])


def test_holm_is_the_example_worked_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_no_difference_tells_what_these_n_could_show():
    none = PairedDifference(0.0, -0.02, 0.02, 1.0, 0.0107, 100, 3, 3, 100)
    told = "no difference that 100 tasks can show: +0 points (-2 to +2), p = 1"
    assert comparison_words(none) == f"{told}; about 3 points would be needed for 80 % power"
    assert "so few tasks would hardly show any" in comparison_words(replace(none, clusters=2))
    assert "so few tasks would hardly show any" in comparison_words(replace(none, standard_error=0.3))
    assert "all tasks differ alike" in comparison_words(replace(none, standard_error=0.0))


def test_what_was_not_reported_is_unknown():
    known, unknown = (
        make_report(verdicts({"retry": [[[True], [False]]]}, tokens=tokens)).parts[0].costs["retry"]
        for tokens in (True, False)
    )
    assert known.per_solved(known.known.tokens) == known.known.tokens == 860
    assert known.per_solved(known.seconds) == pytest.approx(6.0, abs=2.1)
    assert unknown.known is None
    told = markdown(make_report(verdicts({"retry": [[[True]]]}, tokens=False)))
    assert "No model call was reported: tokens and cost are unknown." in told
    nothing = make_report(verdicts({"retry": [[[False]]]})).parts[0].costs["retry"]
    assert nothing.per_solved(nothing.known.tokens) is None


def test_judges_and_held_out_tasks_stand_apart():
    report = make_report(results(6, held_out=3, scored=True, judged_by="self"))
    assert [(part.judge, part.split) for part in report.parts] == [
        ("self", "learning"),
        ("self", "held-out"),
        ("oracle", "learning"),
        ("oracle", "held-out"),
    ]
    for part in report.parts:
        assert {each.points[0].share.n for each in part.success} == {6 if part.split == "learning" else 3}
        assert {each.solved for each in part.costs.values()} == {
            each.points[-1].share.successes for each in part.success
        }


def test_lessons_tell_how_often_they_were_offered_and_their_lift_where_known():
    uses = make_report(results(6, ("selective",), lift=True)).lessons
    rows = [row for row in results(6, ("selective",), lift=True).rows if row.trial.recall]
    assert sum(use.offered for use in uses) == 3 * len(rows)
    assert all(use.lift is not None and (use.lift.low, use.lift.high) == (-0.1, 0.4) for use in uses)
    assert {use.lift for use in make_report(results(6, ("selective",))).lessons} == {None}


def test_errors_and_what_could_not_be_scored_are_counted():
    made = results(3, ("retry",), trials=1)
    row = made.rows[0]
    broken = Tried(
        row.arm, 0, row.task, type(row.trial)(1, type(row.trial.attempt)(error="no"), Evaluation(None))
    )
    made.rows[0] = broken
    told = markdown(make_report(made))
    assert "1 of 3 tries ended in an error" in told
    assert "1 of 3 tries could not be scored" in told


def test_the_baseline_is_further_tries_without_memory():
    for arms, baseline in (
        (tuple(ARMS), "retry"),
        (("own", "react"), "react"),
        (("own", "selective"), "own"),
    ):
        report = make_report(results(2, arms, trials=1))
        assert report.baseline == baseline
        assert baseline not in {each.arm for each in report.parts[0].compared}
