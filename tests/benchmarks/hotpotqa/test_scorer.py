"""The official scores of an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hotpotqa.scorer import ExactMatch, exact_match, f1_score, normalize_answer
from jeeves_reflexion import Attempt, Task


def test_normalisation():
    for text, normal in [
        ("The  Beatles!", "beatles"),
        ("An apple a day", "apple day"),
        (' Jonny" Craig', "jonny craig"),
        ("U.S.A.", "usa"),
        ("a-ha", "aha"),  # punctuation goes first, so that no article is left to take out
        ("theatre", "theatre"),
        ("Müller\u2013Straße", "müller\u2013straße"),  # the official list has ASCII punctuation alone
        ("1,000", "1000"),
        ("the", ""),
    ]:
        assert normalize_answer(text) == normal


def test_f1():
    for answer, gold, f1 in [
        ("Paris", "the Paris", 1.0),
        ("Paris in France", "Paris", 0.5),
        ("b b c", "b c c", 2 / 3),
        ("Rome", "Paris", 0.0),
        ("yes", "yes it is", 0.0),
        ("yes it is", "yes", 0.0),
        ("No.", "no", 1.0),
        ("noanswer", "no", 0.0),
        ("the", "an", 0.0),
    ]:
        assert f1_score(answer, gold).f1 == pytest.approx(f1)


def test_precision_is_of_the_answer_and_recall_of_the_gold():
    found = f1_score("Paris in France", "Paris")
    assert (found.precision, found.recall) == (pytest.approx(1 / 3), 1.0)


@given(st.text(max_size=30), st.text(max_size=30))
def test_rules(one, other):
    assert normalize_answer(normalize_answer(one)) == normalize_answer(one)
    assert exact_match(one, one)
    assert exact_match(one, other) == exact_match(other, one)
    assert f1_score(one, other).f1 == pytest.approx(f1_score(other, one).f1)
    if exact_match(one, other) and normalize_answer(one):
        assert f1_score(one, other).f1 == 1.0


@pytest.mark.anyio
async def test_the_evaluator_quotes_no_gold_and_counts_what_did_not_end_as_wrong():
    task, judge = Task("Which city?", reference="Paris"), ExactMatch()
    right = await judge(task, Attempt("the Paris"))
    assert (right.passed, right.score, right.criteria_scores) == (True, 1.0, {"f1": 1.0})
    wrong = await judge(task, Attempt("Paris in France"))
    assert (wrong.passed, wrong.score, wrong.criteria_scores) == (False, 0.0, {"f1": 0.5})
    for cut in (Attempt("Paris", interrupted="max_turns"), Attempt("Paris", error="ModelError: gone")):
        assert (await judge(task, cut)).passed is False
    assert not any("paris" in each.rationale.lower() for each in (right, wrong))
    assert not (await judge(Task("Which city?"), Attempt("Paris"))).scored
