"""What becomes of the versions of a task's notes: their scores, going back to one, and their JSON."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from noting import noted

from jeeves_reflexion.tasknotes import NoteHistory
from jeeves_reflexion.tasknotes.evolution import (
    MOST_SCORES,
    MOST_VERSIONS,
    document_of,
    history_of,
    rolled_back,
    with_reflection,
    with_score,
)
from jeeves_reflexion.tasknotes.strategy import failed_reflection
from jeeves_reflexion.tasknotes.values import ReflectionInput, ReflectionStoreError
from jeeves_reflexion.types import Task

EMPTY = NoteHistory("key")


def scored(history, version, *scores):
    for score in scores:
        history = with_score(history, version, score)
    return history


def two_versions():
    return with_reflection(with_reflection(EMPTY, noted("one")), noted("two"))


def test_what_was_taken_back_is_not_proposed_again():
    history = rolled_back(two_versions(), 1, "bad")
    again = with_reflection(history, noted("two"))
    assert (again.current, len(again.versions), again.run_count) == (1, 2, 3)
    other = with_reflection(again, noted("three"))
    assert (other.current, other.version(3).base) == (3, 1)


def test_a_roll_forward_by_hand_makes_a_version_good_again():
    history = rolled_back(rolled_back(two_versions(), 1, "bad"), 2, "it was right")
    assert (history.current, history.version(2).withdrawn) == (2, False)


def test_saying_the_same_again_counts_and_makes_no_version():
    history = with_reflection(with_reflection(EMPTY, noted("one")), noted("one"))
    assert (history.run_count, len(history.versions), history.reflection.run_count) == (2, 1, 2)


def test_a_failed_reflection_takes_the_place_of_nothing_good():
    failed = failed_reflection(ReflectionInput(Task("Do."), "out"), "no")
    good = with_reflection(EMPTY, noted())
    assert with_reflection(good, failed) == good
    first = with_reflection(EMPTY, failed)
    assert (first.current, first.run_count, first.versions, first.reflection) == (0, 0, (), failed)
    assert history_of("key", document_of(first)) == first
    assert with_reflection(first, noted()).reflection.complete


def test_the_score_of_a_version_no_longer_kept_is_passed_over():
    history = two_versions()
    assert with_score(history, 99, 1.0) == history


def test_a_history_does_not_grow_without_end():
    history = EMPTY
    for number in range(MOST_VERSIONS + 4):
        history = scored(with_reflection(history, noted(f"{number}")), number + 1, 1.0)
    history = with_reflection(history, noted("x " * 7000, *["y"] * 100))
    history = scored(history, history.current, *[1.0] * 500)
    assert [version.number for version in history.versions] == [*range(6, MOST_VERSIONS + 6)]
    assert history.run_count == history.current == MOST_VERSIONS + 5
    assert len(history.version(history.current).scores) == MOST_SCORES
    assert len(history.reflection.refined_description) == 12_000
    assert len(history.reflection.observations) == 20


def test_characters_that_no_store_holds_are_taken_out():
    found = with_reflection(EMPTY, noted("a\0b\ud800c")).reflection
    assert found.refined_description == "ab?c"


_STEPS = st.lists(
    st.tuples(st.sampled_from("srb"), st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0])), max_size=40
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_STEPS)
def test_whatever_happens_the_history_is_whole_and_reads_back(steps):
    history, reflections = EMPTY, 0
    for what, number, score in steps:
        if what == "s":
            history = with_score(history, history.current, score)
        elif what == "r":
            history = with_reflection(history, noted(f"text {number}"))
            reflections += 1
        elif history.version(number) is not None or number == 0:
            history = rolled_back(history, number, "by hand")
        assert history.current == 0 or history.version(history.current) is not None
        assert history.run_count == reflections
        assert len({version.number for version in history.versions}) == len(history.versions)
        assert all(version.base < version.number for version in history.versions)
    assert history_of("key", document_of(history)) == history


def test_what_is_no_history_is_said_to_be_none():
    good = document_of(two_versions())
    half = {**good, "versions": [{**good["versions"][0], "number": "one"}]}
    for document in (None, [], {}, {"format": 1}, {"format": 2}, "text", half):
        with pytest.raises(ReflectionStoreError, match="task key"):
            history_of("key", document)


def test_no_secret_is_kept_in_a_reason():
    history = rolled_back(two_versions(), 1, "it printed password=hunter2secret")
    assert "hunter2secret" not in repr(history)
