"""When the inner loop stops by itself, and which draft it calls the best."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refinement_parts import text
from tables import table

from jeeves_reflexion import ConfigurationError, ConvergenceReason, Draft, Evaluation, EvaluationError
from jeeves_reflexion.refinement.convergence import Convergence, select

REASON = ConvergenceReason
SCORES = st.lists(st.none() | st.sampled_from([n / 20 for n in range(21)]), min_size=1, max_size=8)


def drafts(*scores, texts=None, satisfactory=0.8):
    made = []
    for number, score in enumerate(scores, 1):
        output = texts[number - 1] if texts else text(number)
        passed = score is not None and score >= satisfactory
        made.append(Draft(number, output, Evaluation(score), passed, base=number - 1 or None))
    return made


def reason(*scores, texts=None, **limits):
    return Convergence(**limits).reason(drafts(*scores, texts=texts))


@table(
    ("scores", "limits", "expected"),
    [
        # V01: none of the last N revisions improved on the best before
        ((0.6, 0.6), {}, None),
        ((0.6, 0.6, 0.6), {}, REASON.PLATEAU),
        ((0.6, 0.6, 0.6), {"plateau_iterations": 3}, None),
        ((0.6, 0.6, 0.6, 0.6), {"plateau_iterations": 3}, REASON.PLATEAU),
        ((0.2, 0.6, 0.604, 0.6), {}, REASON.PLATEAU),
        ((0.6, 0.6), {"plateau_iterations": 1}, REASON.PLATEAU),
        ((0.6, 0.55, 0.5), {}, REASON.PLATEAU),
        ((0.6, 0.1, 0.5), {}, REASON.PLATEAU),
        ((0.6, 0.1, 0.5), {"plateau_iterations": 3}, None),
        ((0.6, 0.1, 0.61), {}, None),
        ((0.6, 0.7, 0.5), {}, None),
        # V02: alternating without trend
        ((0.4, 0.6, 0.4), {}, None),
        ((0.4, 0.6, 0.4, 0.6), {}, REASON.OSCILLATION),
        ((0.4, 0.6, 0.4, 0.6), {"detect_oscillation": False}, REASON.PLATEAU),
        ((0.4, 0.6, 0.4, 0.6), {"detect_oscillation": False, "plateau_iterations": 3}, None),
        ((0.6, 0.4, 0.6, 0.4), {}, REASON.OSCILLATION),
        ((0.4, 0.6, 0.5, 0.7), {}, None),
        # V03, C14: two gains above zero and below the threshold
        ((0.60, 0.61, 0.62), {}, REASON.DIMINISHING_RETURNS),
        ((0.60, 0.64, 0.68), {}, REASON.DIMINISHING_RETURNS),
        ((0.60, 0.65, 0.70), {}, None),
        ((0.60, 0.66, 0.72), {}, None),
        ((0.60, 0.66, 0.67), {}, None),
        ((0.60, 0.59, 0.60), {}, REASON.PLATEAU),
        # what has no score is passed over
        ((0.6, None, 0.6, None, 0.6), {}, REASON.PLATEAU),
        ((None, None, None), {}, None),
    ],
)
def test_reasons_by_score(scores, limits, expected):
    assert reason(*scores, **limits) is expected


def test_the_checks_are_made_in_the_documented_order():
    def first(*scores, texts=("same",) * 5, **limits):
        """Return the reason for drafts that name the same issue, and so meet the last check at least."""
        verdicts = [Evaluation(score, passed=False, issues=("too long",)) for score in scores]
        made = drafts(*scores, texts=texts)
        made = [replace(each, evaluation=verdict) for each, verdict in zip(made, verdicts, strict=True)]
        return Convergence(**limits, repeated_issues=2).reason(made)

    assert first(0.5, 0.6, 0.5, 0.6, 0.5) is REASON.OSCILLATION
    assert first(0.5, 0.6, 0.5, 0.6, 0.5, detect_oscillation=False) is REASON.PLATEAU
    slow = {"epsilon": 0.02}  # the gains below do not count as a rise
    assert first(0.60, 0.61, 0.62, **slow) is REASON.PLATEAU
    slow["plateau_iterations"] = 3
    assert first(0.60, 0.61, 0.62, **slow) is REASON.DIMINISHING_RETURNS
    slow["improvement_threshold"] = 0.0
    assert first(0.60, 0.61, 0.62, **slow) is REASON.SEMANTIC_STABILITY
    assert first(0.60, 0.61, 0.62, texts="abc", **slow) is REASON.REPEATED_ISSUES

    same = ["the same words", "The same words.", "the same, words"]
    assert reason(0.6, 0.6, 0.6, texts=same) is REASON.PLATEAU


CODE = (
    "def count(items):\n    n = 0\n    for x in items:\n        if x < 3:\n            n += 1\n    return n\n"
)
WIDE = {"plateau_iterations": 9}


@table(
    ("scores", "texts", "expected"),
    [
        ((0.5, 0.5, 0.5), [CODE] * 3, REASON.SEMANTIC_STABILITY),
        ((0.5, 0.4, 0.3), [CODE] * 3, REASON.SEMANTIC_STABILITY),
        ((None, None, None), [CODE] * 3, REASON.SEMANTIC_STABILITY),
        ((0.5, 0.5), [CODE] * 2, None),
        # white space at the ends of lines, of whatever kind
        ((0.5, 0.5, 0.5), [CODE, CODE.replace("\n", " \r\n"), f"{CODE}\n\n"], REASON.SEMANTIC_STABILITY),
        # anything else is a change
        ((0.5, 0.5, 0.5), [CODE, CODE.replace("<", "<="), CODE], None),
        ((0.5, 0.5, 0.5), [CODE, CODE.replace("    return", "        return"), CODE], None),
        ((0.5, 0.5, 0.5), [CODE, CODE.replace("x", "X"), CODE], None),
        # scores that rise are a reason to go on, whatever the drafts
        ((0.2, 0.4, 0.6), [CODE] * 3, None),
        ((0.5, 0.4, 0.5), [CODE] * 3, None),
        ((0.5, 0.504, 0.5), [CODE] * 3, REASON.SEMANTIC_STABILITY),
    ],
)
def test_v04_drafts_that_stay_the_same(scores, texts, expected):
    assert reason(*scores, texts=texts, **WIDE) is expected


def test_v04_a_draft_is_held_against_the_one_that_it_was_revised_from():
    made = [
        Draft(number, output, Evaluation(0.5), base=base)
        for number, (output, base) in enumerate([("a", None), ("b", 1), ("a", 1), ("a", 1)], 1)
    ]
    assert Convergence(**WIDE).reason(made) is REASON.SEMANTIC_STABILITY
    assert Convergence(**WIDE).reason(made[:3]) is None


def named(*issues, scores=None):
    return [
        Draft(n, text(n), Evaluation(score, passed=False, issues=said), base=n - 1 or None)
        for n, (score, said) in enumerate(zip(scores or [0.3] * len(issues), issues, strict=True), 1)
    ]


def test_f01_issues_are_the_same_in_any_order_case_and_spacing():
    made = named(
        ("too long", "no ending"),
        ("No ending", "too  long"),
        ("too long\n", "no ending"),
        ("no ending", "too long"),
    )
    assert Convergence(**WIDE).reason(made) is REASON.REPEATED_ISSUES
    assert Convergence(**WIDE, repeated_issues=5).reason(made) is None


@table(
    "issues",
    [
        [(f"{failing} of 20 tests fail",) for failing in (18, 9, 8, 7)],
        [("line 3: x < 3 is wrong",), ("line 3: x <= 3 is wrong",)] * 2,
        [("a", "b"), ("a",), ("a", "b"), ("a", "b")],
        [()] * 4,
        [("a",), (), ("a",), ("a",)],
    ],
)
def test_f01_other_words_numbers_or_none_are_not_the_same_issues(issues):
    assert Convergence(**WIDE).reason(named(*issues)) is None


@given(
    scores=st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=8),
    output=st.sampled_from([None, "the same"]),
    epsilon=st.sampled_from([0.0, 0.005, 0.1]),
)
def test_a_run_whose_scores_rise_is_never_ended_for_its_texts(scores, output, epsilon):
    made = [
        Draft(n, output or text(n), Evaluation(score, passed=False, issues=("weak",)), base=n - 1 or None)
        for n, score in enumerate(scores, 1)
    ]
    found = Convergence(epsilon=epsilon, **WIDE).reason(made)
    recent = [score for score in scores[-3:] if score is not None]
    if any(after - before > epsilon + 1e-9 for before, after in pairwise(recent)):
        assert found not in {REASON.SEMANTIC_STABILITY, REASON.REPEATED_ISSUES}


@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=12), n=st.integers(1, 4))
def test_v01_plateau_is_no_improvement_on_the_best_for_n_revisions(scores, n):
    found = reason(*scores, plateau_iterations=n, detect_oscillation=False, improvement_threshold=0.0)
    stuck = len(scores) > n and max(scores[-n:]) <= max(scores[:-n]) + 0.005 + 1e-12
    assert (found is REASON.PLATEAU) is stuck


@table(
    ("limits", "said"),
    [
        ({"plateau_iterations": 0}, "plateau_iterations"),
        ({"repeated_issues": 1}, "repeated_issues"),
        ({"improvement_threshold": 1.5}, "improvement_threshold"),
        ({"epsilon": -0.1}, "epsilon"),
    ],
)
def test_limits_out_of_range_are_named(limits, said):
    with pytest.raises(ConfigurationError, match=said):
        Convergence(**limits)


@table(
    ("selection", "scores", "best"),
    [
        ("highest_score", (0.4, 0.75, 0.55), 2),  # H03
        ("highest_score", (0.5, 0.7, 0.7), 2),  # ties go to the earlier
        ("latest", (0.4, 0.75, 0.55), 3),  # H04
        ("first_satisfactory", (0.4, 0.82, 0.95), 2),  # H05
        ("first_satisfactory", (0.4, 0.75, 0.55), 2),  # falls back to the highest score
        ("weighted_recency", (0.70, 0.5, 0.69), 3),  # H06: a recent near-best over an old best
        ("weighted_recency", (0.99, 0.5, 0.6), 1),
        ("highest_score", (None, 0.1), 2),
        ("weighted_recency", (None, None), 2),
    ],
)
def test_selection(selection, scores, best):
    assert select(drafts(*scores), selection).number == best


def test_a_vetoed_draft_is_not_better_for_its_high_mean():
    vetoed = Draft(1, "a", Evaluation(0.95, passed=False), satisfactory=False)
    passing = Draft(2, "b", Evaluation(0.85, passed=True), satisfactory=True)
    assert select([vetoed, passing], "highest_score") is passing


@given(
    verdicts=st.lists(st.tuples(st.none() | st.floats(0, 1), st.booleans()), min_size=1, max_size=8),
    selection=st.sampled_from(["highest_score", "first_satisfactory", "weighted_recency"]),
)
def test_no_selection_but_the_latest_prefers_a_vetoed_draft_to_a_satisfactory_one(verdicts, selection):
    made = [
        Draft(n, text(n), Evaluation(score, passed=passed), passed)
        for n, (score, passed) in enumerate(verdicts, 1)
    ]
    assert select(made, selection).satisfactory is any(passed for _, passed in verdicts)


def test_of_equal_scores_the_draft_with_fewer_errors_is_the_best():
    made = [
        Draft(
            n, text(n), Evaluation(0.0, errors=tuple(EvaluationError(str(e), "wrong") for e in range(count)))
        )
        for n, count in enumerate((3, 1, 2, 1), 1)
    ]
    assert select(made, "highest_score").number == 2


@given(
    scores=SCORES,
    selection=st.sampled_from(["highest_score", "latest", "first_satisfactory", "weighted_recency"]),
)
def test_the_best_is_one_of_the_drafts_and_no_scored_one_loses_to_an_unscored_one(scores, selection):
    made = drafts(*scores)
    best = select(made, selection)
    assert best in made
    if selection != "latest" and any(score is not None for score in scores):
        assert best.evaluation.score is not None


@given(scores=SCORES)
def test_nothing_converges_before_three_drafts(scores):
    assert reason(*scores[:2]) is None
