"""Which lessons are recalled of those that were found, and the reason for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jeeves_reflexion import ConfigurationError, Lesson, Provenance, Task
from jeeves_reflexion.lessons.retrieval import Candidate, pick
from jeeves_reflexion.lessons.settings import Picking
from jeeves_reflexion.types import Lift

TASK = Task("clean a mug", kind="clean", tools=("sink", "Search"))


def found(
    name, similarity=0.5, *, kind=None, tools=(), at=0.0, text=None, utility=0.0, contradicts=(), lift=None
):
    text = f"lesson {name} says {name}" if text is None else text
    lesson = Lesson(
        name,
        text,
        "t",
        "t",
        Provenance("r", 1, 0.0, created_at=at),
        task_kind=kind,
        tools=tools,
        contradicts=contradicts,
    )
    return Candidate(lesson, similarity, lift, utility)


def names(items):
    return [item.lesson.id for item in items]


def alike(**pairs):
    """Cosine similarities of the words of lessons by their ids, written ``one_other=0.9``; 0 for all other pairs."""

    return lambda one, other: pairs.get(f"{one}_{other}", pairs.get(f"{other}_{one}", 0.0))


def picked(candidates, k=10, task=TASK, near=None, **picking):
    return pick(task, candidates, k=k, picking=Picking(**picking), likeness=near or alike())


def test_nearest_goes_by_similarity_and_says_so():
    offered, left_out = picked([found("far", 0.4), found("near", 0.91), found("mid", 0.6)], k=2)
    assert names(offered) == ["near", "mid"]
    assert offered[0].reason == "near the task (0.91)"
    assert [(item.lesson.id, item.reason) for item in left_out] == [("far", "2 better ones")]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("similarity", ["old_success", "other", "own_failure"]),
        ("own_first", ["own_failure", "old_success", "other"]),
        ("failures_first", ["other", "own_failure", "old_success"]),
        ("recency", ["own_failure", "other", "old_success"]),
    ],
)
def test_an_order_decides_who_comes_first_and_who_is_left_out(order, expected):
    kinds = {"old_success": ("t", "success"), "other": ("t", "failed"), "own_failure": (TASK.id, "failed")}
    candidates = [found(name, 0.9 - 0.1 * at, at=float(at)) for at, name in enumerate(kinds)]
    candidates = [
        replace(each, lesson=replace(each.lesson, task_id=task_id, outcome=outcome))
        for each, (task_id, outcome) in zip(candidates, kinds.values(), strict=True)
    ]
    for k in (1, 2, 3):
        offered, _ = pick(TASK, candidates, k=k, picking=Picking(), likeness=alike(), order=order)
        assert names(offered) == expected[:k]
    taught_again = replace(candidates[0].lesson, metadata={"tasks": [TASK.id]})
    candidates[0] = replace(candidates[0], lesson=taught_again)
    offered, _ = pick(TASK, candidates, k=1, picking=Picking(), likeness=alike(), order="own_first")
    assert names(offered) == ["old_success"]


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


def test_of_lessons_in_the_same_words_one_is_recalled_and_takes_room_once():
    candidates = [
        found("one", 0.9, text="Wash the mug in the sink first."),
        found("copy", 0.8, text="wash the mug, in the sink first"),
        found("other", 0.7, text="Open the fridge before you look for eggs."),
    ]
    offered, left_out = picked(candidates, k=2, max_likeness=0.95)
    assert names(offered) == ["one", "other"]
    assert [item.reason for item in left_out] == ["says what one says"]
    assert names(picked(candidates, k=2)[0]) == ["one", "copy"]
    room = sum(-(-len(each.lesson.text) // 4) for each in (candidates[0], candidates[2]))
    assert names(picked(candidates, max_tokens=room, max_likeness=0.95)[0]) == ["one", "other"]


@pytest.mark.parametrize(
    ("one", "two", "contradicts"),
    [
        ("Open drawer 3.", "Open drawer 4.", ()),
        ("Sort the rows ascending.", "Sort the rows descending.", ()),
        ("Wash it, then dry it.", "Dry it, then wash it.", ()),
        ("Open it.", "open it", ("one",)),
    ],
)
def test_what_an_embedder_takes_for_alike_stays_two(one, two, contradicts):
    candidates = [found("one", 0.9, text=one), found("two", 0.8, text=two, contradicts=contradicts)]
    assert names(picked(candidates, near=alike(one_two=0.99), max_likeness=0.95)[0]) == ["one", "two"]


def test_k_is_not_spent_on_one_piece_of_advice():
    candidates = [found("one", 0.9), found("much_the_same", 0.88), found("other", 0.87)]
    near = alike(one_much_the_same=0.9, one_other=0.3, much_the_same_other=0.3)
    assert names(picked(candidates, k=2, near=near, diversity=0.05)[0]) == ["one", "other"]
    assert names(picked(candidates, k=2, near=near)[0]) == ["one", "much_the_same"]
    # Where there is room for all, they stand in the order of their relevance.
    assert names(picked(candidates, k=3, near=near, diversity=0.05)[0]) == ["one", "much_the_same", "other"]


def test_of_equally_near_lessons_those_of_the_task_itself_come_first():
    own = found("own", 0.9)
    own = replace(own, lesson=replace(own.lesson, task_id=TASK.id))
    assert names(picked([found("twin", 0.9), own], k=1)[0]) == ["own"]


@given(
    st.lists(
        st.builds(
            found,
            st.uuids().map(str),
            st.floats(-1, 1),
            kind=st.sampled_from(["clean", "heat", None]),
            at=st.floats(0, 9),
            text=st.text(min_size=1, max_size=60),
            utility=st.floats(-1, 1),
        ),
        max_size=12,
        unique_by=lambda candidate: candidate.lesson.id,
    ),
    st.integers(1, 6),
    st.integers(1, 40),
)
def test_every_candidate_is_offered_or_left_out_with_a_reason(candidates, k, max_tokens):
    offered, left_out = picked(candidates, k=k, max_tokens=max_tokens)
    assert sorted(names([*offered, *left_out])) == sorted(c.lesson.id for c in candidates)
    assert all(item.reason for item in [*offered, *left_out])
    assert len(offered) <= k
    assert sum(-(-len(item.lesson.text) // 4) for item in offered) <= max_tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"utility_weight": -1.0},
        {"max_likeness": 0.0},
        {"max_tokens": 0},
        {"diversity": 1.1},
    ],
)
def test_wrong_numbers_are_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Picking(**wrong)
