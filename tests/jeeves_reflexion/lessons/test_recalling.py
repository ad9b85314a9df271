"""Which lessons are picked of those that were found, and the reason for each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import ConfigurationError, Lesson, Provenance, Task
from jeeves_reflexion.lessons.likeness.comparing import alike
from jeeves_reflexion.lessons.recalling import STRATEGIES, Candidate, Picking, Ranked, hybrid, pick
from jeeves_reflexion.types import Lift

TASK = Task("clean a mug", kind="clean", tools=("sink", "Search"))


def found(name, similarity=0.5, *, kind=None, tools=(), at=0.0, text=None, words=0.0, utility=0.0, lift=None):
    text = f"lesson {name} says {name}" if text is None else text
    lesson = Lesson(name, text, "t", "t", Provenance("r", 1, 0.0, created_at=at), task_kind=kind, tools=tools)
    return Candidate(lesson, similarity, words, lift, utility)


def names(items):
    return [item.lesson.id for item in items]


def picked(candidates, k=10, **picking):
    return pick(TASK, candidates, k=k, picking=Picking(**picking), alike=alike)


def test_nearest_goes_by_similarity_and_says_so():
    offered, left_out = picked([found("far", 0.4), found("near", 0.91), found("mid", 0.6)], k=2)
    assert names(offered) == ["near", "mid"]
    assert offered[0].reason == "near the task (0.91)"
    assert [(item.lesson.id, item.reason) for item in left_out] == [("far", "2 better ones")]


def test_seed002_goes_by_type_of_task_then_tool_then_the_newest():
    candidates = [
        found("neither, new", at=9.0, similarity=0.99),
        found("tool, old", tools=("search",), at=1.0),
        found("tool, new", tools=("sink",), at=2.0),
        found("type, old", kind="clean", at=1.0),
        found("type and tool", kind="clean", tools=("sink",), at=0.0),
        found("type, new", kind="clean", at=3.0),
    ]
    offered, _ = picked(candidates, strategy="structured_reflections")
    assert names(offered) == [
        "type and tool",
        "type, new",
        "type, old",
        "tool, new",
        "tool, old",
        "neither, new",
    ]
    assert [item.reason for item in offered[:4:3]] == ["same type of task, same tool", "same tool"]


def test_seed002_knows_a_type_in_other_letters_and_an_endpoint_that_texts_name():
    task = Task(
        "GET https://api.example.com/v1/users", kind="Web Scraping", tools=("https://pay.example.net/",)
    )
    candidates = [
        found("newest", at=9.0),
        found("named", text="The API at api.example.com/v1/users wants a page size.", at=1.0),
        found("scheme", tools=("pay.example.net",), at=2.0),
        found("type", kind="web scraping", at=0.0),
    ]
    offered, _ = pick(task, candidates, k=9, picking=Picking(strategy="structured_reflections"), alike=alike)
    assert names(offered) == ["type", "scheme", "named", "newest"]


def test_hybrid_fuses_the_ranks_by_meaning_and_by_words():
    candidates = [
        found("meaning", 0.9),
        found("both", 0.8, words=3.0),
        found("words", 0.1, words=9.0),
        found("none", 0.2),
    ]
    ranked = hybrid(TASK, candidates)
    assert [item.candidate.lesson.id for item in ranked] == ["both", "words", "meaning", "none"]
    assert ranked[0].why == "2nd by meaning (0.80), 2nd by its words"
    assert ranked[0].relevance == pytest.approx((2 / 62) / (2 / 61))
    assert max(item.relevance for item in ranked) <= 1.0


def test_what_helped_before_moves_up_and_what_harmed_moves_down():
    lift = Lift(0.3, 0.1, 0.5, 20, 20)
    candidates = [
        found("harmed", 0.8, utility=-0.2, lift=lift),
        found("plain", 0.7),
        found("helped", 0.6, utility=0.2),
    ]
    assert names(picked(candidates)[0]) == ["helped", "plain", "harmed"]
    assert names(picked(candidates, utility_weight=0.0)[0]) == ["harmed", "plain", "helped"]
    harmed = picked(candidates)[0][-1]
    assert (harmed.lift, harmed.reason) == (lift, "near the task (0.80), worth -0.20 so far")


def test_near_copies_of_what_is_picked_are_passed_over():
    candidates = [
        found("one", 0.9, text="Wash the mug in the sink first."),
        found("copy", 0.8, text="First wash the mug in the sink."),
        found("other", 0.7, text="Open the fridge before you look for eggs."),
    ]
    offered, left_out = picked(candidates, k=2)
    assert names(offered) == ["one", "other"]
    assert [item.reason for item in left_out] == ["says what one says"]
    assert names(picked(candidates, max_likeness=1.0, k=2)[0]) == ["one", "copy"]


def test_a_strategy_may_be_any_callable():
    def backwards(task, candidates):
        return [Ranked(each, -n, "as I like") for n, each in enumerate(reversed(candidates))]

    offered, _ = picked([found("a"), found("b")], strategy=backwards)
    assert [(item.lesson.id, item.reason) for item in offered] == [("b", "as I like"), ("a", "as I like")]


@given(
    st.lists(
        st.builds(
            found,
            st.uuids().map(str),
            st.floats(-1, 1),
            kind=st.sampled_from(["clean", "heat", None]),
            at=st.floats(0, 9),
            text=st.text(min_size=1, max_size=60),
            words=st.floats(0, 9),
            utility=st.floats(-1, 1),
        ),
        max_size=12,
        unique_by=lambda candidate: candidate.lesson.id,
    ),
    st.integers(1, 6),
    st.integers(1, 40),
    st.sampled_from(sorted(STRATEGIES)),
)
def test_every_candidate_is_offered_or_left_out_with_a_reason(candidates, k, max_tokens, strategy):
    offered, left_out = picked(candidates, k=k, max_tokens=max_tokens, strategy=strategy)
    assert sorted(names([*offered, *left_out])) == sorted(c.lesson.id for c in candidates)
    assert all(item.reason for item in [*offered, *left_out])
    assert len(offered) <= k
    assert sum(-(-len(item.lesson.text) // 4) for item in offered) <= max_tokens


@pytest.mark.parametrize(
    "wrong", [{"strategy": "best"}, {"utility_weight": -1.0}, {"max_likeness": 0.0}, {"max_tokens": 0}]
)
def test_wrong_numbers_are_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Picking(**wrong)
