"""Judges that are never, or always, content (F03, F04)."""

from tables import table

from jeeves_reflexion import Draft, Evaluation
from jeeves_reflexion.refinement.judge_watch import RUNS, JudgeWatch


def run(*scores, issues=("an issue",), criteria=(), threshold=0.8):
    return [
        Draft(
            n,
            "text",
            Evaluation(score, issues=issues, criteria_scores=dict(criteria)),
            score is not None and score >= threshold,
        )
        for n, score in enumerate(scores, 1)
    ]


@table(
    ("drafts", "flags"),
    [
        (run(0.7, 0.75), ("overcritical",)),
        (run(0.2, 0.3), ()),
        (run(0.7), ()),
        (run(0.2, 0.3, issues=()), ("overcritical",)),
        (run(0.0, 0.0, issues=(), criteria={"it compiles": 0.0}), ()),
        (run(0.7, 0.9), ()),
        (run(None, None), ()),
    ],
)
def test_one_run(drafts, flags):
    assert JudgeWatch().flags(drafts, 0.8) == flags


def test_many_runs_that_never_pass():
    watch = JudgeWatch()
    found = [watch.flags(run(0.1, 0.2), 0.8) for _ in range(RUNS)]
    assert found == [()] * (RUNS - 1) + [("overcritical",)]
    watch.flags(run(0.9), 0.8)
    assert watch.flags(run(0.1, 0.2), 0.8) == ()


def test_f04_many_runs_that_always_pass_at_once():
    watch = JudgeWatch()
    found = [watch.flags(run(1.0, issues=()), 0.8) for _ in range(RUNS)]
    assert found == [()] * (RUNS - 1) + [("undercritical",)]
    assert watch.flags(run(0.3, 0.9, issues=()), 0.8) == ()
