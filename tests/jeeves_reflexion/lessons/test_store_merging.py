"""What becomes of lessons that say what others say already, or the opposite."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from jeeves_reflexion import Provenance, Reflection, Task
from jeeves_reflexion.lessons.curator import Curator
from jeeves_reflexion.lessons.exchange.lines import from_line, to_line
from jeeves_reflexion.lessons.shelf import Change

pytestmark = pytest.mark.anyio

CLEAN = Task("put a clean mug in the coffee machine", kind="clean")
PLATE = Task("put a clean plate on the dining table after supper", kind="clean")
SINK = "Wash it in the sink before you carry it anywhere."
AGAIN = "Before you carry it anywhere, wash it in the sink."
NEVER = "Never wash it in the sink before you carry it anywhere."


async def learn(lessons, text, task=CLEAN, run="run", attempt=1):
    return await lessons.record(task, Reflection(text), provenance=Provenance(run, attempt, 0.0))


async def test_a_copy_is_merged_and_its_support_counts_each_attempt_once(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        for run in ("b", "c", "c"):
            copy = await learn(lessons, AGAIN, run=run)
            assert (copy.id, copy.text) == (first.id, SINK)
        kept = await lessons.get(first.id)
        assert kept.support == 3
        assert [copy["run_id"] for copy in kept.metadata["copies"]] == ["b", "c"]
        assert await lessons.count() == 1
        assert [entry.operation for entry in await Curator(lessons.shelf).history(first.id)] == [
            "learn", "copy", "copy",
        ]  # fmt: skip


async def test_a_copy_from_another_task_is_recalled_for_that_task_too(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        await learn(lessons, AGAIN, PLATE, run="b")
        assert await lessons.count() == 1
        recall = await lessons.recall(PLATE, k=3)
        assert [item.lesson.id for item in recall.offered] == [first.id]
        assert recall.offered[0].similarity == pytest.approx(1.0, abs=1e-5)
        # All faces follow a later change.
        await Curator(lessons.shelf).retire(first.id, reason="old")
        assert (await lessons.recall(PLATE, k=3)).offered == ()
        assert (await lessons.recall(CLEAN, k=3)).offered == ()
        assert await lessons.forget(first.id)
        assert await lessons.store.count() == 0


@pytest.mark.parametrize(("own", "brought", "number"), [(2, 5, 1), (5, 4, 1), (5, 5, 2), (1, 9, 2)])
async def test_a_copy_that_brings_more_tasks_than_there_is_room_for_stays_on_its_own(
    make, own, brought, number
):
    things = ["tea", "milk", "rice", "salt", "corn", "wine", "soap", "coal", "silk", "iron", "wool", "clay"]
    tasks = [f"fetch the {thing} from the cellar" for thing in things]
    async with make() as lessons, make("elsewhere") as others:
        first = await learn(others, SINK, Task(tasks[0], kind="clean"))
        second = replace(
            first, id="second", text=AGAIN, task_id=tasks[own], provenance=Provenance("b", 1, 0.0)
        )
        assert await lessons.admit(first, tasks[:own], Change("import")) == first
        await lessons.admit(second, tasks[own : own + brought], Change("import"))
        assert await lessons.count() == number
        for task in tasks[: own + brought]:
            (item, *_) = (await lessons.recall(Task(task, kind="clean"), k=1)).offered
            assert item.similarity == pytest.approx(1.0, abs=1e-5)


async def test_all_tasks_of_a_lesson_go_out_and_come_back(make):
    async with make() as lessons, make("elsewhere") as others:
        first = await learn(lessons, SINK)
        await learn(lessons, AGAIN, PLATE, run="b")
        tasks = await lessons.shelf.queries_of_all([first.id, "unknown"])
        assert tasks == {first.id: (CLEAN.prompt, PLATE.prompt)}
        line = to_line(await lessons.get(first.id), tasks[first.id])
        lesson, known = from_line(line)
        assert await others.admit(lesson, known, Change("import")) == lesson
        for task in (CLEAN, PLATE):
            (item,) = (await others.recall(task, k=3)).offered
            assert (item.lesson, item.similarity) == (lesson, pytest.approx(1.0, abs=1e-5))


async def test_what_was_retired_does_not_come_back_by_being_learned_again(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        await Curator(lessons.shelf).retire(first.id, reason="it harms")
        again = await learn(lessons, AGAIN, run="b")
        assert (again.id, again.state) == (first.id, "retired")
        assert (await lessons.recall(CLEAN, k=3)).offered == ()


async def test_lessons_that_say_the_opposite_are_linked_and_both_kept(make):
    async with make() as lessons:
        first, second = await learn(lessons, SINK), await learn(lessons, NEVER, run="b")
        assert second.contradicts == (first.id,)
        assert (await lessons.get(first.id)).contradicts == (second.id,)
        assert await lessons.count() == 2


async def test_without_merging_every_copy_is_kept(make):
    async with make(merging=None) as lessons:
        await learn(lessons, SINK)
        await learn(lessons, SINK, run="b")
        assert await lessons.count() == 2


async def test_of_many_copies_at_once_none_is_lost(make):
    async with make() as lessons:
        first = await learn(lessons, SINK)
        async with anyio.create_task_group() as group:
            for number in range(15):
                group.start_soon(learn, lessons, AGAIN, CLEAN, f"run{number}x")
        assert (await lessons.get(first.id)).support == 16
