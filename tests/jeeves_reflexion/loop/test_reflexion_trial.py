"""One turn at a time, for callers that decide when lessons become visible; and what happens when storing fails."""

from __future__ import annotations

import anyio
import pytest
from loop_parts import BLOCK, Grader, Player, Writer, heard, lesson_store

from jeeves_reflexion import (
    LessonStoreError,
    Reflexion,
    Task,
    TransientMemory,
)

pytestmark = pytest.mark.anyio


def loop(agent=None, grader=None, **settings) -> Reflexion:
    return Reflexion(agent or Player("a"), evaluator=grader or Grader(0.0), reflector=Writer(), **settings)


async def test_a_trial_commits_by_itself_unless_told_otherwise():
    store = lesson_store()
    reflexion = loop(lesson_store=store)
    task, session = Task("find the key"), reflexion.session()
    first = await reflexion.trial(task, [], session)
    assert (first.pending, first.lesson.text) == (False, "lesson 1 says look left")
    second = await reflexion.trial(task, [first], session, commit=False)
    assert (second.pending, second.lesson, second.number) == (True, None, 2)
    assert await store.count() == 1
    third = await reflexion.commit(task, second, session)
    assert (third.pending, third.lesson.text) == (False, "lesson 2 says look left")
    assert (await store.list()).lessons == (first.lesson, third.lesson)


async def test_committing_what_is_committed_changes_nothing():
    store = lesson_store()
    reflexion = loop(lesson_store=store)
    task, session = Task("find the key"), reflexion.session()
    trial = await reflexion.trial(task, [], session)
    assert await reflexion.commit(task, trial, session) is trial
    assert await store.count() == 1


async def test_lessons_held_back_become_visible_in_the_order_of_their_commits():
    store = lesson_store()
    tasks = [Task(f"find the {colour} key") for colour in ("red", "blue", "green")]

    async def reflect(task, trials):
        return f"the way to {task.prompt}"

    agent = Player("a")
    reflexion = Reflexion(agent, evaluator=Grader(0.0), reflector=reflect, lesson_store=store)
    session = reflexion.session()
    trials = {}

    async def one(task: Task, wait: float) -> None:
        await anyio.sleep(wait)
        trials[task.id] = await reflexion.trial(task, [], session, commit=False)

    async with anyio.create_task_group() as group:
        for place, task in enumerate(tasks):
            group.start_soon(one, task, 0.02 * (3 - place))  # the last finishes first
    assert agent.blocks == ["", "", ""], "nothing is visible before it is committed"
    for task in tasks:
        await reflexion.commit(task, trials[task.id], session)
    assert [lesson.text for lesson in (await store.list()).lessons] == [
        f"the way to {t.prompt}" for t in tasks
    ]


async def test_provenance_says_where_a_lesson_came_from():
    reflexion = loop(grader=Grader(0.25), lesson_store=lesson_store())
    session, ear = heard(reflexion)
    result = await reflexion.run(Task("find the key", kind="search", tools=("look",)), session=session)
    lesson = result.lessons[1]
    assert (lesson.task_kind, lesson.tools, lesson.task_id) == ("search", ("look",), result.task.id)
    source = lesson.provenance
    assert (source.run_id, source.attempt, source.score, source.agent) == (session.id, 2, 0.25, "player")
    assert ear.events[0].at <= source.created_at <= ear.events[-1].at


async def test_outcomes_of_recalls_are_noted():
    store = lesson_store()
    result = await loop(grader=Grader(0.0, None, 1.0), lesson_store=store).run("find the key")
    recalls = [trial.recall.id for trial in result.trials]
    noted = [await store.outcome(recall, result.trials[0].evaluation) for recall in recalls]
    assert noted == [False, True, False], "an attempt without a verdict has no outcome"


async def test_a_store_that_cannot_recall_is_an_error_and_never_an_empty_recall():
    store = lesson_store()
    await store.close()
    agent = Player("a")
    with pytest.raises(LessonStoreError, match="could not recall lessons"):
        await loop(agent, lesson_store=store).run("find the key")
    assert agent.tasks == []


class Full(TransientMemory):
    """A memory whose disk is full."""

    async def append(self, name: str, line: str) -> None:
        raise LessonStoreError("no space left")


async def test_a_lesson_that_cannot_be_stored_does_not_lose_the_run():
    session, ear = heard(reflexion := loop(grader=Grader(0.0, 1.0), memory=Full()))
    result = await reflexion.run("x", session=session)
    assert result.stop_reason == "passed"
    first = result.trials[0]
    assert (first.problems, first.pending) == (("the lesson was not stored: no space left",), False)
    assert first.reflection.lesson == "lesson 1 says look left"
    assert ear.kinds.count("warned") == ear.kinds.count("lesson_dropped") == 1


async def test_a_commit_that_fails_says_so_and_can_be_repeated():
    reflexion = loop(memory=Full())
    task, session = Task("x"), reflexion.session()
    trial = await reflexion.trial(task, [], session, commit=False)
    with pytest.raises(LessonStoreError, match="no space left"):
        await reflexion.commit(task, trial, session)
    reflexion.memory = TransientMemory()
    assert not (await reflexion.commit(task, trial, session)).pending
    assert await reflexion.memory.read(BLOCK) == "- lesson 1 says look left"


async def test_stop_reason_of_no_trials_is_none():
    assert loop().stop_reason([]) is None
