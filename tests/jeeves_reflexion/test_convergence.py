"""When the inner loop stops by itself, and which draft it calls the best."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refining import text

from jeeves_reflexion import ConfigurationError, ConvergenceReason, Draft, Evaluation
from jeeves_reflexion.convergence import ORDER, Convergence, select

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
    return anyio.run(Convergence(**limits).reason, drafts(*scores, texts=texts))


@pytest.mark.parametrize(
    ("scores", "limits", "expected"),
    [
        # V01: the last N + 1 scores lie within epsilon
        ((0.6, 0.6), {}, None),
        ((0.6, 0.6, 0.6), {}, REASON.PLATEAU),
        ((0.6, 0.6, 0.6), {"plateau_iterations": 3}, None),
        ((0.6, 0.6, 0.6, 0.6), {"plateau_iterations": 3}, REASON.PLATEAU),
        ((0.2, 0.6, 0.604, 0.6), {}, REASON.PLATEAU),
        ((0.6, 0.6), {"plateau_iterations": 1}, REASON.PLATEAU),
        # V02: alternating without trend
        ((0.4, 0.6, 0.4), {}, None),
        ((0.4, 0.6, 0.4, 0.6), {}, REASON.OSCILLATION),
        ((0.4, 0.6, 0.4, 0.6), {"detect_oscillation": False}, None),
        ((0.6, 0.4, 0.6, 0.4), {}, REASON.OSCILLATION),
        ((0.4, 0.6, 0.5, 0.7), {}, None),
        # V03, C14: two gains above zero and below the threshold
        ((0.60, 0.61, 0.62), {}, REASON.DIMINISHING_RETURNS),
        ((0.60, 0.64, 0.68), {}, REASON.DIMINISHING_RETURNS),
        ((0.60, 0.65, 0.70), {}, None),
        ((0.60, 0.66, 0.72), {}, None),
        ((0.60, 0.66, 0.67), {}, None),
        ((0.60, 0.59, 0.60), {}, None),
        # what has no score is passed over
        ((0.6, None, 0.6, None, 0.6), {}, REASON.PLATEAU),
        ((None, None, None), {}, None),
    ],
)
def test_reasons_by_score(scores, limits, expected):
    assert reason(*scores, **limits) is expected


def test_the_checks_are_made_in_the_documented_order():
    assert [each for each, _ in ORDER] == [
        REASON.OSCILLATION,
        REASON.PLATEAU,
        REASON.DIMINISHING_RETURNS,
        REASON.SEMANTIC_STABILITY,
        REASON.REPEATED_ISSUES,
    ]
    same = ["the same words", "The same words.", "the same, words"]
    assert reason(0.6, 0.6, 0.6, texts=same) is REASON.PLATEAU


LONG = " ".join(f"sentence {n} says that river {n * 37} flows south." for n in range(120))


@pytest.mark.parametrize(
    ("scores", "texts", "expected"),
    [
        ((0.2, 0.4, 0.6), ["same text"] * 3, REASON.SEMANTIC_STABILITY),
        ((0.2, 0.4), ["same text"] * 2, None),
        # a word changed in a long text: nothing gained, or much
        ((0.5, 0.5, 0.52), [LONG, LONG + " Indeed.", LONG + " Indeed so."], REASON.SEMANTIC_STABILITY),
        ((0.2, 0.4, 0.6), [LONG, LONG + " Indeed.", LONG + " Indeed so."], None),
    ],
)
def test_v04_drafts_that_say_the_same(scores, texts, expected):
    assert reason(*scores, texts=texts) is expected


def test_meaning_is_compared_by_the_embedder():
    import numpy as np

    class Constant:
        id, dim = "constant", 2

        async def embed(self, texts):
            return np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (len(texts), 1))

    texts = ["a brook runs", "water flows", "the stream goes"]
    assert reason(0.2, 0.4, 0.6, texts=texts, embedder=Constant()) is REASON.SEMANTIC_STABILITY
    assert reason(0.2, 0.4, 0.6, texts=texts) is None


def test_f01_issues_are_the_same_in_any_order():
    issues = [
        ("too long", "no ending"),
        ("No ending.", "too long"),
        ("too long", "no ending"),
        ("no ending", "too long"),
    ]
    made = [
        Draft(n, text(n), Evaluation(score, issues=said), base=n - 1 or None)
        for n, (score, said) in enumerate(zip((0.1, 0.3, 0.2, 0.4), issues, strict=True), 1)
    ]
    assert anyio.run(Convergence().reason, made) is REASON.REPEATED_ISSUES
    assert anyio.run(Convergence(repeated_issues=5).reason, made) is None


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"plateau_iterations": 0}, "plateau_iterations"),
        ({"repeated_issues": 1}, "repeated_issues"),
        ({"improvement_threshold": 1.5}, "improvement_threshold"),
        ({"stability": -0.1}, "stability"),
    ],
)
def test_limits_out_of_range_are_named(limits, said):
    with pytest.raises(ConfigurationError, match=said):
        Convergence(**limits)


@pytest.mark.parametrize(
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
