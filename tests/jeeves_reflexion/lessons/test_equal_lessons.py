"""The same lesson recorded by many at once is one lesson, and nothing tells of its words once it is forgotten."""

from __future__ import annotations

import anyio
import pytest

from jeeves_reflexion import Provenance, Reflection, Task
from jeeves_reflexion.lessons.curation import Curator
from jeeves_reflexion.lessons.duplicates import EQUAL

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "faiss"])
def kind(request) -> str:
    return request.param


SAME = Reflection("Check that the cabinet is open before you take the mug.")


async def record_all(store, tasks, round_=0):
    async def one(number, task):
        await store.record(task, SAME, provenance=Provenance(f"run-{round_}-{number}", 0, 0.0, agent="a"))

    async with anyio.create_task_group() as group:
        for number, task in enumerate(tasks):
            group.start_soon(one, number, task)


@pytest.mark.parametrize("writers", [2, 24])
async def test_the_same_lesson_recorded_at_once_is_one(make, writers):
    async with make() as store:
        for round_ in range(2):
            await record_all(store, [Task("Take the mug", id="mug")] * writers, round_)
        (lesson,) = (await store.list()).lessons
        assert lesson.support == 2 * writers


async def test_the_same_words_of_another_scope_are_a_lesson_of_their_own(make):
    async with make() as store:
        tasks = [Task("Take the mug", id="mug", kind=kind) for kind in ("look", "take")] * 8
        await record_all(store, tasks)
        found = {lesson.task_kind: lesson.support for lesson in (await store.list()).lessons}
        assert found == {"look": 8, "take": 8}


async def test_without_merging_every_copy_is_kept(make):
    async with make(keep_copies=True) as store:
        await record_all(store, [Task("Take the mug", id="mug")] * 4)
        assert await store.count() == 4


async def test_a_lesson_that_was_forgotten_is_recorded_anew_and_leaves_no_digest(make):
    async with make() as store:
        task = Task("Take the mug", id="mug")
        lesson = await store.record(task, SAME, provenance=Provenance("r1", 0, 0.0))
        assert len((await store.records.scan_records(EQUAL)).records) == 1
        assert await store.forget(lesson.id)
        assert (await store.records.scan_records(EQUAL)).records == ()
        again = await store.record(task, SAME, provenance=Provenance("r2", 0, 0.0))
        assert again.id != lesson.id
        assert await store.count() == 1


async def test_an_equal_that_takes_no_more_in_does_not_stop_another(make):
    """A lesson holds the tasks that it has room for; the next one of the same words begins anew."""
    async with make() as store:
        tasks = [Task(f"{word} {word} {word}", id=word) for word in "abcdefghijklmnopqrst"]
        for number, task in enumerate(tasks):
            await store.record(task, SAME, provenance=Provenance(f"r{number}", 0, 0.0))
        lessons = (await store.list()).lessons
        assert 1 < len(lessons) < len(tasks)
        assert sum(lesson.support for lesson in lessons) == len(tasks)


async def learn(store, text, run):
    return await store.record(
        Task("Take the mug", id="mug"), Reflection(text), provenance=Provenance(run, 0, 0.0)
    )


async def test_an_equal_is_found_whatever_became_of_the_one_that_had_its_words_first(make):
    async with make() as store:
        first = await learn(store, SAME.lesson, "r1")
        await Curator(store.repository).edit(first.id, "Look into every drawer.")
        second = await learn(store, SAME.lesson, "r2")
        assert second.id != first.id
        assert (await learn(store, "look into every drawer", "r3")).id == first.id
        await store.forget(first.id)
        again = await learn(store, SAME.lesson, "r4")
        assert (again.id, again.support) == (second.id, 2)


async def test_who_is_trusted_less_adds_nothing_to_the_lesson_that_speaks_for_theirs(make):
    async with make(propose=True) as own, make(trust="imported") as outside:
        kept, theirs = await learn(own, SAME.lesson, "r1"), await learn(outside, "Wash the mug first.", "r2")
        merged = await Curator(own.repository).merge(kept.id, [theirs.id])
        assert (merged.support, merged.state) == (1, "proposed")
        for run in ("r3", "r4"):
            again = await learn(outside, "Wash the mug first.", run)
            assert (again.id, again.support, again.state) == (kept.id, 1, "proposed")
        assert await own.count() == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Put a ; behind each statement.", "Put a , behind each statement."),
        ("Put ';' behind each statement.", "Put ':' behind each statement."),
        ("Run cd .. before the build.", "Run cd . before the build."),
        ("Run cd .. before the build.", "Run cd before the build."),
    ],
)
async def test_a_sign_that_stands_alone_is_a_word(make, one, other):
    async with make() as store:
        first, second = await learn(store, one, "r1"), await learn(store, other, "r2")
        assert first.id != second.id
        assert (await learn(store, other.upper(), "r3")).id == second.id
