"""What another policy would have scored: on logs whose truth is known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jeeves_reflexion import ConfigurationError, LessonStoreError
from jeeves_reflexion.lessons.credit.policies import LoggedLesson, LoggedRecall, Policy, policy_value

SHARE = 0.4
scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def found(similarity: float, *, withheld: bool = False, share: float = SHARE) -> LoggedLesson:
    return LoggedLesson(f"at {similarity}", similarity, share, withheld)


def log_of(number: int, seed: int) -> list[LoggedRecall]:
    """Three lessons a recall: the nearest helps by 30 points, the next harms by 20, the farthest does nothing."""
    rng = random.Random(seed)
    log = []
    for _ in range(number):
        whole = rng.random() < 0.05
        held = [whole or rng.random() < SHARE for _ in range(3)]
        chance = 0.4 + 0.3 * (not held[0]) - 0.2 * (not held[1])
        lessons = tuple(
            found(at, withheld=is_held) for at, is_held in zip((0.9, 0.7, 0.5), held, strict=True)
        )
        log.append(LoggedRecall(float(rng.random() < chance), lessons, whole))
    return log


recalls = st.builds(
    LoggedRecall,
    scores,
    st.lists(st.booleans(), max_size=3).map(
        lambda held: tuple(found(0.9 - n / 10, withheld=each) for n, each in enumerate(held))
    ),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(recalls, min_size=1, max_size=20))
def test_of_the_policy_that_was_logged_the_estimate_is_what_was_observed(log):
    same = Policy(k=max((len(each.found) for each in log), default=1) or None)
    for policy in (Policy(), same):
        value = policy_value(log, policy)
        assert value.value == value.observed == pytest.approx(sum(each.score for each in log) / len(log))
        assert (value.gain.low, value.gain.high, value.changed) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("policy", "truth"),
    [
        (Policy(k=1), 0.2 * (1 - SHARE)),  # without the harm of the second, which was offered so often
        (Policy(floor=0.6), 0.0),
    ],
)
def test_the_interval_of_the_gain_holds_the_truth(policy, truth):
    truth *= 0.95  # whole recalls stay withheld
    held = 0
    for seed in range(30):
        value = policy_value(log_of(600, seed), policy)
        held += value.gain.low <= truth <= value.gain.high
        assert value.effective >= 30
    assert held >= 25


@pytest.mark.parametrize(
    ("log", "policy", "said"),
    [
        ([], Policy(), "no recall"),
        (log_of(40, 1), Policy(k=1), "are needed"),
        (log_of(400, 1), Policy(k=4), "more than 3 lessons"),
        (log_of(400, 1), Policy(floor=0.4), "or one below 0.50"),
        ([LoggedRecall(1.0, (found(0.9), found(0.8, share=0.0)))] * 99, Policy(k=1), "99 of 99 recalls"),
    ],
)
def test_what_the_log_can_not_tell_is_refused(log, policy, said):
    with pytest.raises(LessonStoreError, match=said):
        policy_value(log, policy)


def test_no_lessons_at_all_is_no_policy():
    with pytest.raises(ConfigurationError, match="at least 1"):
        policy_value(log_of(5, 1), Policy(k=0))


def test_equally_near_lessons_are_not_told_apart_by_what_the_draw_did():
    """What was offered stands before what was withheld in the log: that order would say what the draw did."""
    log = [
        replace(
            each,
            found=tuple(sorted((replace(x, similarity=0.9) for x in each.found), key=lambda x: x.withheld)),
        )
        for each in log_of(600, 3)
    ]
    value = policy_value(log, Policy(k=1))
    assert value.gain.low < (-0.3 + 0.2) * (1 - SHARE) * 0.95 < value.gain.high  # "at 0.5" is kept
