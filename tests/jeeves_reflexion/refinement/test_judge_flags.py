"""Judges that are never content (F03)."""

from tables import table

from jeeves_reflexion import Draft, Evaluation
from jeeves_reflexion.refinement.convergence import judge_flags


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
    assert judge_flags(drafts, 0.8) == flags
