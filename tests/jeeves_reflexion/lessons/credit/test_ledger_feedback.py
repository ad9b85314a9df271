"""Feedback: what someone says of a run when it is over, and what counts then."""

from __future__ import annotations

import pytest
from ledger_parts import DRAWN, figures, note, recall, verdicts

from jeeves_reflexion import ConfigurationError, Evaluation, LessonStoreError
from jeeves_reflexion.lessons.credit.ledger import Ledger
from vectorstores import HashingEmbedder, InMemoryVectorStore, VectorStoreError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ledger():
    async with InMemoryVectorStore(HashingEmbedder(), namespace="tests") as records:
        yield Ledger(records)


async def of(ledger: Ledger, lesson_id: str):
    return figures(await ledger.credits(max_age=0), lesson_id)


async def test_feedback_is_for_the_last_attempt_and_replaces_the_verdict(ledger):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    await note(ledger, "r2", ["a"], run_id="run", attempt=2)
    await ledger.note_outcome("r1", Evaluation(0.5))
    await ledger.note_outcome("r2", Evaluation(1.0))
    found = await ledger.note_feedback("run", 0.0, by="user", reason="it was wrong")
    assert (found.recall_id, found.attempt, found.before, found.score) == ("r2", 2, 1.0, 0.0)
    assert await of(ledger, "a") == (2, 0.5, 0, 0)


async def test_later_feedback_replaces_earlier_and_all_is_kept(ledger):
    await note(ledger, "r1", ["a"], ["b"], run_id="run", attempt=1)
    await ledger.note_outcome("r1", Evaluation(1.0))
    await ledger.credits(max_age=0)
    await ledger.note_feedback("run", 0.0, by="ann")
    assert await of(ledger, "b") == (0, 0, 1, 0.0)
    assert (await ledger.note_feedback("run", 0.75, by="bob", reason="better than that")).before == 0.0
    assert await of(ledger, "a") == (1, 0.75, 0, 0)
    said = await verdicts(ledger, "r1")
    assert [(v.kind, v.score, v.by, v.reason) for v in said] == [
        ("evaluator", 1.0, "", ""),
        ("feedback", 0.0, "ann", ""),
        ("feedback", 0.75, "bob", "better than that"),
    ]


async def test_feedback_that_comes_first_stays_in_force(ledger):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    assert (await ledger.note_feedback("run", 0.0, by="ann")).before is None
    assert await ledger.note_outcome("r1", Evaluation(1.0)) is True
    assert await ledger.note_outcome("r1", Evaluation(1.0)) is False
    assert await of(ledger, "a") == (1, 0.0, 0, 0)
    await ledger.note_feedback("run", 0.5, by="ann")
    assert await of(ledger, "a") == (1, 0.5, 0, 0)


async def test_feedback_for_an_attempt_that_is_named(ledger):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    await note(ledger, "r2", ["b"], run_id="run", attempt=2)
    await ledger.note_feedback("run", 1.0, by="user", attempt=1)
    assert await of(ledger, "a") == (1, 1.0, 0, 0)
    assert await of(ledger, "b") == (0, 0, 0, 0)


async def test_an_attempt_that_was_repeated_after_a_crash_is_judged_by_its_later_recall(ledger):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    await note(ledger, "r2", ["a"], run_id="run", attempt=1)
    assert (await ledger.note_feedback("run", 1.0, by="user")).recall_id == "r2"


async def test_the_recall_of_a_repeated_attempt_is_the_later_one_though_it_is_written_first(ledger):
    clock = iter(range(1000, 2000))
    ledger = Ledger(ledger.records, lambda: next(clock))
    await note(ledger, "r1", ["b"], run_id="run", attempt=1)  # broken off: its note waits
    await note(ledger, "r2", ["a"], run_id="run", attempt=1)
    await ledger.note_outcome("r2", Evaluation(1.0))
    noted = await ledger.note_feedback("run", 0.0, by="user")
    assert (noted.recall_id, noted.before) == ("r2", 1.0)
    assert await of(ledger, "a") == (1, 0.0, 0, 0)
    assert await of(ledger, "b") == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("run_id", "more", "message"),
    [
        ("unknown", {}, "no run 'unknown'"),
        ("", {}, "no run ''"),
        ("run", {"attempt": 7}, "no such attempt; it has attempt 1 at task task, attempt 2 at"),
        ("run", {"task_id": "other"}, "no such attempt; it has attempt 1 at task"),
    ],
)
async def test_feedback_for_what_is_not_known_is_an_error(ledger, run_id, more, message):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    await note(ledger, "r2", ["a"], run_id="run", attempt=2)
    with pytest.raises(LessonStoreError, match=message):
        await ledger.note_feedback(run_id, 1.0, by="user", **more)


async def test_a_run_of_several_tasks_needs_the_task(ledger):
    await note(ledger, "r1", ["a"], run_id="run", attempt=1)
    other = recall("r2", ["b"])
    other = type(other)("r2", "task2", other.offered)
    await ledger.note_recall(other, run_id="run", attempt=1, draw=DRAWN)
    with pytest.raises(LessonStoreError, match="did 2 tasks: name one of task, task2"):
        await ledger.note_feedback("run", 1.0, by="user")
    assert (await ledger.note_feedback("run", 1.0, by="user", task_id="task2")).recall_id == "r2"


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
async def test_a_score_that_is_none_is_refused(ledger, score):
    with pytest.raises(ConfigurationError, match="score must lie in"):
        await ledger.note_feedback("run", score, by="user")


async def test_feedback_that_can_not_be_written_is_not_called_a_run_that_can_not_be_read(monkeypatch):
    async def refuse(*_, **__):
        raise VectorStoreError("the disk is full")

    async with InMemoryVectorStore(embedder=HashingEmbedder(), namespace="lessons") as records:
        ledger = Ledger(records)
        await ledger.note_recall(recall("r1", offered=("a",)), run_id="run", attempt=1)
        with monkeypatch.context() as patch:
            patch.setattr(records, "add", refuse)
            with pytest.raises(LessonStoreError, match="could not note feedback: the disk is full"):
                await ledger.note_feedback("run", 0.0, by="ann")
