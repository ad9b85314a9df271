"""Stored lessons that a newcomer shows to be copies of one another are merged, and nothing is lost by that."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from jeeves_reflexion import Provenance, Reflection, Task
from jeeves_reflexion.lessons.curator import Curator
from jeeves_reflexion.lessons.joining import _join
from jeeves_reflexion.lessons.merging import MERGED_INTO, WORDINGS, MergeSettings, merged_away
from jeeves_reflexion.lessons.shelf import FORGOTTEN, Change, digest_of

pytestmark = pytest.mark.anyio

TASK = Task("put a clean mug in the coffee machine", kind="clean")
OTHER = Task("bring every dirty cup from the garden to the kitchen", kind="clean")
ONE = "Wash the mug in the sink before you carry it anywhere."
SAME = "Before you carry it anywhere, wash the mug in the sink."


async def learn(lessons, text, task=TASK, run="run"):
    return await lessons.record(task, Reflection(text), provenance=Provenance(run, 1, 0.0))


async def stored(lessons):
    return [lesson async for lesson in lessons.shelf.each() if MERGED_INTO not in lesson.metadata]


async def apart(lessons, text, task=TASK, run="other"):
    """Store a lesson past the gate's merging, as a writer does that looked before the first one wrote."""
    lesson = await learn(lessons, "Count the eggs in the blue basket twice.", task, run=run)

    return await lessons.shelf.change(lesson.id, lambda now: replace(now, text=text), Change("edit"))


async def test_a_newcomer_that_is_a_copy_of_two_merges_them_and_all_support_is_kept(make):
    async with make() as lessons:
        first, second = await learn(lessons, ONE), await apart(lessons, SAME)
        assert len(await stored(lessons)) == 2
        got = await learn(lessons, SAME, run="third")
        (left,) = await stored(lessons)
        assert got == left
        assert (left.id, left.support) == (got.id, 3)
        gone = next(each for each in (first, second) if each.id != left.id)
        away = await lessons.get(gone.id)
        assert (away.state, away.metadata[MERGED_INTO], away.support) == ("retired", left.id, 1)
        assert (await Curator(lessons.shelf).history(left.id))[-1].others == (gone.id,)


async def test_the_merge_is_rolled_back_and_brings_both_back_and_is_not_made_again(make):
    async with make() as lessons:
        first, second = await learn(lessons, ONE), await apart(lessons, SAME)
        left = await learn(lessons, SAME, run="third")
        curator = Curator(lessons.shelf)
        merge = (await curator.history(left.id))[-1]
        assert merge.operation == "merge"
        back = await curator.rollback(left.id, to=merge.number - 1)
        assert back == merge.before
        assert back.support == 2
        gone = second if left.id == first.id else first
        assert await lessons.get(gone.id) == gone
        # Somebody took them apart on purpose: no newcomer merges them again.
        await learn(lessons, SAME, run="fourth")
        assert len(await stored(lessons)) == 2


async def test_the_tasks_of_the_one_that_goes_are_recalled_by_the_one_that_stays(make):
    async with make(min_similarity=0.5) as lessons:
        await learn(lessons, ONE)
        await apart(lessons, SAME, OTHER)
        left = await learn(lessons, SAME, run="third")
        assert len(await stored(lessons)) == 1
        for task in (TASK, OTHER):
            assert [item.lesson.id for item in (await lessons.recall(task, k=3)).offered] == [left.id]


async def test_a_copy_of_one_that_was_merged_away_is_a_copy_of_the_one_that_stays(make):
    async with make() as lessons:
        first = await learn(lessons, ONE)
        away = await apart(lessons, "Clean the mug at the tap before you carry it anywhere.")
        made = replace(first, support=2, metadata={WORDINGS: [away.text]})
        change = Change("merge")
        assert await lessons.shelf.join((first, made), (away, merged_away(away, first.id)), change)
        got = await learn(lessons, away.text, run="again")
        assert (got.id, got.support) == (first.id, 3)
        # One whose speaker is forgotten speaks for nobody.
        await lessons.forget(first.id)
        assert (await learn(lessons, away.text, run="later")).id not in (first.id, away.id)


@pytest.mark.parametrize("meanwhile", ["changed", "forgotten", "kept apart"])
async def test_nothing_is_merged_where_one_of_them_is_no_longer_what_it_was(make, meanwhile):
    async with make() as lessons:
        first, second = await learn(lessons, ONE), await apart(lessons, SAME)
        if meanwhile == "changed":
            await Curator(lessons.shelf).retire(second.id, reason="it harms")
        elif meanwhile == "forgotten":
            await lessons.forget(second.id)
        else:
            await lessons.shelf.keep_apart(second.id)
        before = [lesson async for lesson in lessons.shelf.each()]
        made = merged_away(second, first.id)
        assert not await lessons.shelf.join((first, first), (second, made), Change("merge"))
        assert [lesson async for lesson in lessons.shelf.each()] == before
        assert len(await Curator(lessons.shelf).history(first.id)) == 1


async def test_one_that_was_retired_or_contradicts_the_other_is_not_merged(make):
    async with make() as lessons:
        await learn(lessons, ONE)
        second = await apart(lessons, SAME)
        await Curator(lessons.shelf).retire(second.id, reason="it harms")
        await learn(lessons, ONE, run="third")
        assert len(await stored(lessons)) == 2


async def test_a_newcomer_to_a_lesson_that_is_merged_into_another_meanwhile_counts_for_that_one(
    make, monkeypatch
):
    async with make() as lessons:
        first, second = await learn(lessons, ONE), await apart(lessons, SAME)
        real = lessons.shelf.change

        async def later(lesson_id, *args, **words):
            # Between the decision and the write of it.
            monkeypatch.setattr(lessons.shelf, "change", real)
            speaker = second.id if lesson_id == first.id else first.id
            await Curator(lessons.shelf).merge(speaker, [lesson_id])
            return await real(lesson_id, *args, **words)

        monkeypatch.setattr(lessons.shelf, "change", later)
        await learn(lessons, SAME, run="third")
        assert [lesson.support for lesson in await stored(lessons)] == [3]


async def test_of_many_writers_at_once_no_support_is_lost(make):
    async with make() as lessons:
        await learn(lessons, ONE)
        second = await apart(lessons, SAME)
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(learn, lessons, (ONE, SAME)[number % 2], TASK, f"run {number}")
        await learn(lessons, SAME, run="last")
        left = await stored(lessons)
        assert sum(lesson.support for lesson in left) == 15
        away = await lessons.get(second.id)
        assert (MERGED_INTO in away.metadata) == (second.id not in {lesson.id for lesson in left})


async def test_of_a_newcomer_and_a_forgetting_at_once_nothing_is_half_done(make):
    async with make() as lessons:
        first, second = await learn(lessons, ONE), await apart(lessons, SAME)
        async with anyio.create_task_group() as group:
            group.start_soon(learn, lessons, SAME, TASK, "third")
            group.start_soon(lessons.forget, second.id)
        assert await lessons.get(second.id) is None
        left = await stored(lessons)
        assert (
            first.id not in {lesson.id for lesson in left} or (await lessons.get(first.id)).state == "active"
        )
        for lesson in left:
            assert second.id not in str(await lessons.shelf.entries(lesson.id))


@pytest.mark.parametrize("learned", [ONE, "Count the mugs on the shelf before you wash the first of them."])
async def test_a_change_does_not_bring_back_what_is_forgotten_while_it_is_made(make, learned):
    async with make() as lessons:
        first = await learn(lessons, ONE)
        real = lessons.shelf.store.add

        async def later(*args, **words):
            monkey.undo()
            assert await lessons.forget(first.id)
            return await real(*args, **words)

        with pytest.MonkeyPatch.context() as monkey:
            monkey.setattr(lessons.shelf.store, "add", later)
            got = await learn(lessons, learned, run="second")
        assert got.id != first.id
        assert await lessons.get(first.id) is None
        assert [lesson.id for lesson in await stored(lessons)] == [got.id]
        assert await lessons.records.get("history", f"{first.id}:000002") is None


async def test_lessons_that_are_joined_while_one_is_forgotten_keep_nothing_of_it(make):
    async with make() as lessons:
        first, second = (
            await learn(lessons, ONE),
            await apart(lessons, "In the sink, wash the mug before you carry it."),
        )
        made = merged_away(second, first.id)
        taken = replace(first, metadata={**first.metadata, WORDINGS: [second.text]})
        real = lessons.shelf.join

        async def meanwhile(*args, **words):
            done = await real((first, taken), (second, made), Change("merge"))
            await lessons.shelf.records.append_once(FORGOTTEN, digest_of(second.id), {})
            return done

        lessons.shelf.join = meanwhile
        await _join(lessons.shelf, first, second, MergeSettings(), "")
        assert await lessons.get(second.id) is None
        assert second.text not in str(await lessons.get(first.id))
