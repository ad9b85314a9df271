"""R04: the way of revising is chosen by how much is wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from jeeves_reflexion import Evaluation
from jeeves_reflexion.drafts import Draft, RevisionRequest
from jeeves_reflexion.revisers import choose
from jeeves_reflexion.types import EvaluationError

PAGE = "Some words of a page. " * 50  # 275 tokens


def request(score, issues=0, *, text=PAGE, criteria=None, failed=None, max_tokens=None, suggestions=()):
    feedback = Evaluation(
        score,
        issues=tuple(f"issue {number}" for number in range(issues)),
        criteria_scores=criteria or {},
        suggestions=suggestions,
    )
    return RevisionRequest(Draft(1, text, feedback), feedback, failed=failed, max_tokens=max_tokens)


@table(
    ("asked", "way", "reason"),
    [
        (request(0.6, 3), "targeted_edit", "few issues"),
        (request(None, 1), "targeted_edit", "few issues"),
        (request(0.9, suggestions=("shorter",)), "targeted_edit", "few issues"),
        (request(0.6, 1, criteria={"a": 0.7, "b": 0.2}), "targeted_edit", "few issues"),
        (request(0.7, 4), "incremental", "too much for edits"),
        (request(0.59, 1), "incremental", "too much for edits"),
        (request(0.6, 1, criteria={"a": 0.69, "b": 0.2, "c": 1.0}), "incremental", "too much for edits"),
        (request(0.7, 1, text="x" * 196), "incremental", "short"),
        (request(0.7, 1, text="x" * 197), "targeted_edit", "few issues"),
        (request(0.7), "incremental", "nothing to mend is named"),
        (request(None), "incremental", "nothing to mend is named"),
        (request(0.9, 6), "full_rewrite", "many issues"),
        (request(0.9, 5), "incremental", "too much for edits"),
        (request(0.39, 1), "full_rewrite", "the score is low"),
        (request(0.4, 1), "incremental", "too much for edits"),
        (request(0.49, 1, criteria={"a": 0.6, "b": 0.5}), "full_rewrite", "most criteria fail"),
        (request(0.9, 6, text=PAGE * 11), "targeted_edit", "few issues"),
        (request(0.9, 12, text=PAGE * 11), "incremental", "too much for edits"),
        (request(0.9, 31, text=PAGE * 11), "full_rewrite", "many issues"),
        (request(0.9, 1, text=" \n"), "full_rewrite", "no text to keep"),
        (request(0.1, 20, max_tokens=274), "targeted_edit", "does not fit into 274 tokens"),
        (request(0.1, 20, max_tokens=275), "full_rewrite", "the score is low"),
    ],
)
def test_r04_the_scope_of_what_is_wrong_decides(asked, way, reason):
    chosen, why = choose(asked)
    assert (chosen, reason in why) == (way, True), why


def test_r04_the_reason_names_its_figures():
    _, why = choose(request(0.65, 2, criteria={"a": 0.9, "b": 0.5}))
    assert why == "few issues (2 issues, score 0.65, 50% of the criteria below 0.7, about 275 tokens)"


@table(
    ("asked", "way", "said"),
    [
        (request(0.7, 1, failed="targeted_edit"), "incremental", True),
        (request(0.7, 5, failed="incremental"), "full_rewrite", True),
        (request(0.1, 1, failed="full_rewrite"), "incremental", True),
        (request(0.1, 1, failed="targeted_edit"), "full_rewrite", False),
    ],
)
def test_f02_the_strategy_that_failed_is_not_chosen_again(asked, way, said):
    chosen, why = choose(asked)
    assert (chosen, "made it worse before" in why) == (way, said)


def test_errors_count_as_issues_and_the_same_words_once():
    errors = (EvaluationError("a", "no"), EvaluationError("", "bad JSON"))
    feedback = Evaluation(0.5, issues=("a: no",), errors=errors)
    assert "(2 issues, " in choose(RevisionRequest(Draft(1, PAGE, feedback), feedback))[1]


strategies = st.sampled_from([None, "full_rewrite", "targeted_edit", "incremental", "hybrid"])


@given(
    st.one_of(st.none(), st.floats(0, 1)),
    st.integers(0, 12),
    st.text(max_size=400),
    st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=4),
    strategies,
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_it_never_chooses_hybrid_nor_what_failed(score, issues, text, criteria, failed, limit):
    way, why = choose(request(score, issues, text=text, criteria=criteria, failed=failed, max_tokens=limit))
    assert way in {"full_rewrite", "targeted_edit", "incremental"}
    assert way != failed
    assert why
